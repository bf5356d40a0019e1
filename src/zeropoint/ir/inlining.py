"""Putting the body of a region in the region's place."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from zeropoint.ir.quant import QuantizeRegionOp


def inline_body(region: QuantizeRegionOp, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Copy the ops of a region's body in front of it, on `operands`; the values that its body returns.

    The region itself stays, for its results to be replaced by these.
    """
    values: dict[SSAValue, SSAValue] = dict(zip(region.body.block.args, operands, strict=True))
    *ops, terminator = region.body.block.ops
    assert region.parent is not None
    for op in ops:
        region.parent.insert_op_before(op.clone(values), region)
    return [values[value] for value in terminator.operands]
