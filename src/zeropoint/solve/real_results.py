"""Find the kernels that can pass their accumulators to float ops, on a target with real results."""

from __future__ import annotations

from zeropoint.ir.constants import is_constant
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp


def plain_contraction(region: QuantizeRegionOp) -> ConvolutionOp | DotGeneralOp | None:
    """The contraction of a region with only a contraction and its bias; None for other regions.

    The weight must be constant. Grouped convolutions are excluded.
    """
    arguments = region.body.block.args
    first, *others = region.body.block.ops  # there is at least the terminator
    if len(region.outputs) != 1:
        return None
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or (first.lhs, first.rhs) != tuple(arguments[:2]):
        return None
    if isinstance(first, ConvolutionOp) and int(first.feature_group_count.value.data) > 1:
        return None
    plain = all(isinstance(op, AddOp | BroadcastInDimOp) for op in others[:-1])
    return first if plain and is_constant(region.inputs[1]) else None
