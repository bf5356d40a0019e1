"""The results of patterns: a match, or the reason for no match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.values import Values
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp, YieldOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp


@dataclass(frozen=True)
class Match:
    """A kernel, which computes `results` from `inputs` by the ops between them."""

    kind: str
    results: tuple[SSAValue, ...]
    inputs: tuple[SSAValue, ...]
    row: int | None = None
    """For a kernel of rows, the dimension of the result along which rows run."""
    found: object = None
    """The pattern's data about the ops, for `layout` and `schedule`."""

    def ops(self) -> set[Operation]:
        """The ops that compute the results from the inputs, and their constants."""
        found: set[Operation] = set()
        waiting = list(self.results)
        while waiting:
            value = waiting.pop()
            if value in self.inputs or isinstance(value, BlockArgument):
                continue
            assert isinstance(value, OpResult)
            if value.op not in found:
                found.add(value.op)
                waiting += _read_by(value.op)
        return found

    def body(self, ops: Iterable[Operation]) -> Region:
        """A copy of the ops, in the given order, as the body of a kernel."""
        block = Block(arg_types=[value.type for value in self.inputs])
        mapping: dict[SSAValue, SSAValue] = dict(zip(self.inputs, block.args, strict=True))
        for op in ops:
            block.add_op(op.clone(mapping))
        block.add_op(YieldOp([mapping[value] for value in self.results]))
        return Region(block)


def _read_by(op: Operation) -> Iterator[SSAValue]:
    """The values of an op's block that the op or an op in its regions reads."""
    for inner in op.walk():
        for operand in inner.operands:
            if isinstance(operand, OpResult) and operand.op.parent is op.parent:
                yield operand


@dataclass(frozen=True)
class Declined:
    """A pattern does not match. `reason` is None if the pattern does not apply to the op at all.

    Kernels list a `minor` reason only for a loop nest, and only if there is no other reason.
    """

    reason: str | None = None
    minor: bool = False

    def __bool__(self) -> bool:
        return False


Found = dict[Block, object]
"""The data of patterns, by kernel body. Bodies parsed from text are matched again."""

BodyPatterns = Mapping[type[Operation], Callable[[Values, Any], Match | Declined]]
"""The patterns of a kind of kernel, by the op that they end with. A body is searched in this order."""


def misfit(kernel: KernelOp, declined: Declined) -> CodegenError:
    """The error for a kernel whose body does not match its pattern, because its text was edited."""
    why = "" if declined.reason is None else f": {declined.reason}"
    return CodegenError(f"{describe(kernel)}: found a body that is not a {kernel.kind.data}{why}", kernel)


def found_in(program: Program, kernel: KernelOp, known: Found, rules: BodyPatterns) -> object:
    """The data of the pattern that made a kernel, from `known` or by matching the body again.

    Raises CodegenError if no pattern matches.
    """
    block = kernel.body.block
    if block not in known:
        values = Values.inside(program, block)
        tried = (rule(values, op) for kind, rule in rules.items() for op in block.ops if type(op) is kind)
        match = _whole(kernel, tried, Declined(f"expected one of {', '.join(kind.name for kind in rules)}"))
        if not isinstance(match, Match):
            raise misfit(kernel, match)
        note(program, block, match.found, known)
        return match.found
    return known[block]


def _whole(kernel: KernelOp, tried: Iterable[Match | Declined], reason: Declined) -> Match | Declined:
    """The match of a whole body. Otherwise the first reason why there is none, or `reason`."""
    declined: list[Declined] = []
    for found in tried:
        if isinstance(found, Declined):
            declined.append(found)
        elif found.results == tuple(kernel.terminator.values):
            return found
        else:
            declined.append(Declined("found ops after it that do not belong to it"))
    return next(iter(declined), reason)


def note(program: Program, block: Block, found: object, known: Found) -> None:
    """Keep the data of a pattern for later passes, unless it has weights that are computed at each lookup.

    Keeping those would hold the computed weights of all kernels in memory at once.
    """
    weights = program.weights
    if not any(isinstance(op, ConstantOp) and weights.computed_bytes(op.value) for op in block.ops):
        known[block] = found
