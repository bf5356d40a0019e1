"""Find the kernels that can pass their accumulators to float ops."""

from __future__ import annotations

from zeropoint.ir.constants import is_constant
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.targets import Target


def gives_accumulators(region: QuantizeRegionOp, target: Target) -> bool:
    """Whether the target's kernel of a contraction can return its accumulators as floats."""
    if not target.real_results and region.logical_kernel.data not in target.unrounded_results:
        return False
    return plain_contraction(region) is not None


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
