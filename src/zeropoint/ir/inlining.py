"""Putting the ops of a body in the place of the op that stands for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.quant import QuantizeRegionOp

ValueMap = Callable[[SSAValue, int], SSAValue]


def copy_body(block: Block, operands: Sequence[SSAValue], before: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """Copies of a block's ops in front of `before`, its arguments being `operands`; and what its terminator returns."""
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    *ops, terminator = block.ops
    copies = [op.clone(values) for op in ops]
    assert before.parent is not None
    before.parent.insert_ops_before(copies, before)
    return copies, [values[value] for value in terminator.operands]


def inline_region(
    region: QuantizeRegionOp, *, operand: ValueMap | None = None, result: ValueMap | None = None
) -> list[Operation]:
    """Put copies of the ops of a region in its place; these.

    `operand` and `result` say what stands for input and output number n of the region, where that is not the value
    itself.
    """
    inputs = list(region.inputs) if operand is None else [operand(value, n) for n, value in enumerate(region.inputs)]
    copies, values = copy_body(region.body.block, inputs, region)
    outputs = values if result is None else [result(value, n) for n, value in enumerate(values)]
    Rewriter.replace_op(region, [], outputs)
    return copies
