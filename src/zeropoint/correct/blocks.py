"""Cut a program into blocks: groups of consecutive kernels with one result that others read.

A block ends where noise is best compared: after a value that is read more than once or that is not clamped, such as the
end of a residual branch. Within a block, kernels can compensate the errors of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.isolation import activations, computing
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ClampOp, ConvolutionOp, DotGeneralOp, MaximumOp, MinimumOp

MOST = 4
"""The maximum number of contractions in a block."""


@dataclass(frozen=True, eq=False)
class OpBlock:
    """Consecutive ops. `result` is their only value that is read outside."""

    ops: Sequence[Operation]
    result: SSAValue

    @property
    def inputs(self) -> list[SSAValue]:
        """The values from outside that the ops read and that are not constants, each once."""
        inside = {result for op in self.ops for result in op.results}
        read = dict.fromkeys(value for op in self.ops for value in activations(op))
        return [value for value in read if value not in inside]


def blocks_of(program: Program) -> list[OpBlock | Operation]:
    """The blocks of a program in order. An op without a single result, which is in no block, is listed itself."""
    ops, found = computing(program), list[OpBlock | Operation]()
    start = 0
    while start < len(ops):
        block = _longest(ops, start)
        found.append(block or ops[start])
        start += len(block.ops) if block else 1
    return found


def _longest(ops: Sequence[Operation], start: int) -> OpBlock | None:
    """The longest block from an op on with a good end, or with any end if there is none with a good one."""
    best: OpBlock | None = None
    good, contractions = False, 0
    for end in range(start + 1, len(ops) + 1):
        contractions += _is_contraction(ops[end - 1])
        if contractions > MOST:
            break
        result = _only_result(ops[start:end])
        if result is not None and (is_good := _is_good_end(ops[end - 1], result)) >= good:
            best, good = OpBlock(ops[start:end], result), is_good
    return best


def _only_result(ops: Sequence[Operation]) -> SSAValue | None:
    """The result of the last op, if no other result of the group is read outside of it; None otherwise."""
    inside = set(ops)
    read = [
        result
        for op in ops
        for result in op.results
        if any(_in_entry(use.operation, op) not in inside for use in result.uses)
    ]
    return read[0] if len(read) == 1 and read[0].owner is ops[-1] else None


def _in_entry(reader: Operation, op: Operation) -> Operation:
    """The op in the same block as `op` that is or contains a reader of its result."""
    while reader.parent is not op.parent:
        above = reader.parent_op()
        if above is None:
            break
        reader = above
    return reader


def _is_contraction(op: Operation) -> bool:
    return any(isinstance(inner, ConvolutionOp | DotGeneralOp) for inner in op.walk())


def _is_good_end(op: Operation, result: SSAValue) -> bool:
    clamped = any(isinstance(inner, ClampOp | MaximumOp | MinimumOp) for inner in op.walk())
    several = len({use.operation for use in result.uses}) > 1
    return isinstance(op, QuantizeRegionOp) and (several or not clamped)
