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


def term_order(op: Contraction) -> list[int]:
    """The permutation of a weight's dimensions to output channel, kernel positions, input channels.

    This is the order in which runtimes add the products of channels-last images, from adjacent terms to all. The
    weight must have one dimension of output channels (`weight_channel_axis`).
    """
    if isinstance(op, ConvolutionOp):
        numbers = op.dimension_numbers.data
        features = [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension]
        return [features[0], *numbers.kernel_spatial_dimensions, features[1]]
    axis, used = weight_channel_axis(op), op.dot_dimension_numbers.data.rhs_contracting_dimensions
    return [*([] if axis is None else [axis]), *used]


def terms_by_channel(op: Contraction, weights: Array) -> Array:
    """A weight as a matrix of shape (channels, terms), its terms in the order of `term_order`."""
    made = weights.transpose(term_order(op))
    return made.reshape(len(made), -1)


def adds_pairs(op: Contraction) -> bool:
    """Whether kernels add the products of adjacent terms: all but depthwise convolutions with one output each."""
    if not isinstance(op, ConvolutionOp):
        return True
    numbers, shape = op.dimension_numbers.data, shape_of(op.rhs)
    alone = shape[numbers.kernel_input_feature_dimension] == 1
    return not (alone and shape[numbers.kernel_output_feature_dimension] == op.feature_group_count.value.data)


def weights_by_channel(weights: Array, axis: int) -> Array:
    """Weights with output channels along `axis`, as a matrix of shape (channels, terms)."""
    return np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
