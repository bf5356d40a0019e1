"""Contractions whose channels can be scaled, and the expected error of their results for given factors.

Factors f divide the channels of a value and multiply the weights that read it. The results do not change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import ContractionOp, weight_channel_axis, weights_by_channel
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

POWERS = (0.25, 0.5, 0.75, 1.0)
"""Exponents to try. A channel, or a part of a concatenation, of r times the largest size is divided by r to this power.
"""
DEVIATIONS = 3.0
"""The largest magnitude in a channel is assumed to be this many of its standard deviations."""


def expected_noise(matrix: Array, ranges: Array, factors: Array) -> float:
    """The expected noise-to-signal ratio of a reader's results, to first order, with 8-bit value and weights.

    `matrix` has the weights as (channels, taps, outputs). The value has one scale, the weights have one per output.
    Roundings are assumed independent, with variance scale^2 / 12.
    """
    squares = (np.abs(ranges).max(axis=1) / DEVIATIONS) ** 2
    low, high = (ranges / factors[:, None]).T
    scaled = matrix * factors[:, None, None]
    # The range includes 0, as in `asymmetric`.
    step = (max(high.max(), 0.0) - min(low.min(), 0.0)) / 255
    steps = np.abs(scaled).max(axis=(0, 1)) / 127
    noise = step**2 * np.square(scaled).sum() + np.square(steps).sum() * matrix.shape[1] * (squares / factors**2).sum()
    signal = 12 * (squares * np.square(matrix).sum(axis=(1, 2))).sum()
    return float(noise / signal) if signal else 0.0


def noise_of_depthwise(weights: Array, ranges: Array, factors: Array) -> float:
    """The same of a depthwise convolution, whose weights of any factors are equally good. `weights` are by channel."""
    low, high = (ranges / factors[:, None]).T
    step = (max(high.max(), 0.0) - min(low.min(), 0.0)) / 255
    squares = (np.abs(ranges).max(axis=1) / DEVIATIONS) ** 2
    signal = 12 * (squares * np.square(weights)).sum()
    return float(step**2 * np.square(weights * factors).sum() / signal) if signal else 0.0


def matrix_of(region: QuantizeRegionOp, weights: Weights) -> Array | None:
    """The weights of a reader as (input channels, taps, outputs); None for a grouped convolution."""
    weight, op = own_array(region.inputs[1], weights), region.body.block.first_op
    assert weight is not None
    if isinstance(op, DotGeneralOp):
        (axis,) = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        return weights_by_channel(weight, axis)[:, None].astype(np.float64)
    assert isinstance(op, ConvolutionOp)
    if op.feature_group_count.value.data != 1:
        return None
    layout = op.dimension_numbers.data
    ends = layout.kernel_input_feature_dimension, layout.kernel_output_feature_dimension
    moved = np.moveaxis(weight, ends, (0, -1))
    return moved.reshape(moved.shape[0], -1, moved.shape[-1]).astype(np.float64)


def greatest_read(region: QuantizeRegionOp, weights: Weights) -> Array:
    """The largest |weight| that reads each input channel."""
    weight = own_array(region.inputs[1], weights)
    op = region.body.block.first_op
    assert weight is not None
    if isinstance(op, DotGeneralOp):
        (axis,) = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        return np.abs(weights_by_channel(weight, axis)).max(axis=1)
    assert isinstance(op, ConvolutionOp)
    layout, groups = op.dimension_numbers.data, op.feature_group_count.value.data
    features, outputs = layout.kernel_input_feature_dimension, layout.kernel_output_feature_dimension
    moved = np.abs(np.moveaxis(weight, (outputs, features), (0, 1)))
    by_group = moved.reshape(groups, -1, weight.shape[features], weight.size // moved.shape[0] // moved.shape[1])
    return by_group.max(axis=(1, 3)).reshape(-1)


def own_contraction(region: QuantizeRegionOp, weights: Weights) -> ContractionOp | None:
    """The contraction of a float region if all its constants may change; None otherwise."""
    first = region.body.block.first_op
    arguments = region.body.block.args
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or (first.lhs, first.rhs) != (*arguments[:2],):
        return None
    if isinstance(first, ConvolutionOp) and first.batch_group_count.value.data != 1:
        return None
    if not all(isinstance(spec, AnyFloat) for spec in (*region.input_specs, *region.output_specs)):
        return None  # the model or the user demands a type
    if any(own_array(value, weights) is None for value in region.inputs[1:]) or weight_channel_axis(first) is None:
        return None
    return first


def own_array(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a constant that may change because its parameters are not pinned; None otherwise."""
    pinned = isinstance(value.owner, Operation) and PINNED in value.owner.attributes
    return None if pinned else constant_array(value, weights)


def bounds_of(region: QuantizeRegionOp, weights: Weights) -> Bounds | None:
    """The clamps of a contraction with at most one bias per channel; None if it has other ops."""
    bounds = Bounds()
    _, *others, _ = region.body.block.ops
    for op in others:
        if not isinstance(op, AddOp | BroadcastInDimOp) and op.operands and not bounds.then(op, weights):
            return None
    added = sum(isinstance(op, AddOp) for op in others)
    biases = [shape_of(value) for value in region.inputs[2:]]
    return bounds if added == len(biases) <= 1 and all(len(shape) == 1 for shape in biases) else None


def input_axis(region: QuantizeRegionOp, weights: Weights) -> int | None:
    """The channel dimension of the value that a contraction reads; None if it cannot take factors."""
    op = own_contraction(region, weights)
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.input_feature_dimension
    if op is None:
        return None
    dimensions = op.dot_dimension_numbers.data
    contracted = tuple(dimensions.lhs_contracting_dimensions)
    return contracted[0] if len(contracted) == 1 and not dimensions.lhs_batching_dimensions else None


def spread_factors(region: QuantizeRegionOp, factors: Array) -> Array:
    """The factors of a reader's input channels, reshaped to broadcast to its weight."""
    op = region.body.block.first_op
    shape = shape_of(region.inputs[1])
    if isinstance(op, DotGeneralOp):
        (axis,) = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        return factors.reshape([-1 if dim == axis else 1 for dim in range(len(shape))])
    assert isinstance(op, ConvolutionOp)
    layout, groups = op.dimension_numbers.data, op.feature_group_count.value.data
    features, outputs = layout.kernel_input_feature_dimension, layout.kernel_output_feature_dimension
    by_group = np.repeat(factors.reshape(groups, shape[features]), shape[outputs] // groups, axis=0)
    if outputs > features:
        # The dimensions are in the order of the layout, which may put outputs before input features.
        by_group = by_group.T
    return by_group.reshape([size if dim in (features, outputs) else 1 for dim, size in enumerate(shape)])


def replace_constant(region: QuantizeRegionOp, index: int, array: Array, weights: Weights) -> None:
    """Give a region a new constant as operand `index`."""
    before = region.inputs[index].owner
    assert isinstance(before, Operation) and region.parent is not None
    # A new op, because others may read the old constant.
    made = constant_op(array.astype(np.float32), weights, location=before.location)
    region.parent.insert_op_before(made, region)
    region.operands[index] = made.output


def readers_of(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, directly or through statistics."""
    for use in value.uses:
        if isinstance(use.operation, StatisticsOp | StatisticsRefOp):
            yield from readers_of(use.operation.res)
        else:
            yield use.operation
