"""Convolutions and matrix products: their output channel dimensions, and weights as a (channels, terms) matrix."""

from __future__ import annotations

import numpy as np

from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of

Contraction = ConvolutionOp | DotGeneralOp


def output_channel_axis(op: Contraction) -> int:
    """The output channel dimension of the result: the feature dimension, or the last one of a matrix product."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.output_feature_dimension
    return len(shape_of(op.result)) - 1


def weight_channel_axis(op: Contraction) -> int | None:
    """The output channel dimension of the weight; None for a product with several free dimensions."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.kernel_output_feature_dimension
    dimensions = op.dot_dimension_numbers.data
    used = {*dimensions.rhs_batching_dimensions, *dimensions.rhs_contracting_dimensions}
    free = [i for i in range(len(shape_of(op.rhs))) if i not in used]
    return free[0] if len(free) == 1 and not dimensions.rhs_batching_dimensions else None


def weights_by_channel(weights: Array, axis: int) -> Array:
    """Weights with output channels along `axis`, as a matrix of shape (channels, terms)."""
    return np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
