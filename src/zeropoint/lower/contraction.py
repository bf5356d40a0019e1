"""Quantized contractions to integer ones: padding by the zero point, correction after the products.

sum (q_x - z_x) q_w = sum q_x q_w - z_x sum q_w, where the padding holds z_x, so that the correction is one constant per
output channel; it is added to the bias. Weights have zero point 0. Of two activations both zero points are
subtracted before.

Source: the lowering of quantized contractions ("Zero-Point Correction"); the project's numerics notes, "Accumulators".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp, PadOp
from zeropoint.ir.stablehlo.contraction import padding_values
from zeropoint.ir.tensors import Array, shape_of, with_element
from zeropoint.lower.context import Lowering, LoweringError, quantized_element
from zeropoint.numerics.accumulator import accumulator_bound

INT32_MAX = (1 << 31) - 1


def _channels(op: ConvolutionOp | DotGeneralOp, weight: Array) -> Array:
    """The weights as (output channels, terms)."""
    if isinstance(op, ConvolutionOp):
        axis = op.dimension_numbers.data.kernel_output_feature_dimension
    else:
        contracted = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        axis = next(i for i in range(weight.ndim) if i not in contracted)
    return np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)


def _has_channels(op: ConvolutionOp | DotGeneralOp) -> bool:
    """Whether one dimension of the weights counts output channels, and the others are summed over."""
    if isinstance(op, ConvolutionOp):
        return True
    return len(shape_of(op.rhs)) == len(op.dot_dimension_numbers.data.rhs_contracting_dimensions) + 1


def _padded(lowering: Lowering, op: ConvolutionOp, value: SSAValue, zero_point: int) -> SSAValue:
    """The input surrounded (and, where the input is dilated, interleaved) by its zero point."""
    spatial = op.dimension_numbers.data.input_spatial_dimensions
    pairs = padding_values(op.padding, len(spatial))
    dilation = op.lhs_dilation.get_values() if op.lhs_dilation is not None else (1,) * len(spatial)
    if not any(low or high for low, high in pairs) and all(step == 1 for step in dilation):
        return value
    rank = len(shape_of(value))
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    for dimension, pair, step in zip(spatial, pairs, dilation, strict=True):
        low[dimension], high[dimension] = pair
        interior[dimension] = int(step) - 1
    fill = lowering.constant(np.array(zero_point, np.int8))
    return lowering.insert(PadOp(value, fill, low, high, interior)).result


def _integer_convolution(lowering: Lowering, op: ConvolutionOp, zero_point: int) -> SSAValue:
    value, weight = lowering.stored(op.lhs), lowering.stored(op.rhs)
    properties = dict(op.properties)
    if zero_point != 0:
        value = _padded(lowering, op, value, zero_point)
        properties.pop("padding", None)
        properties.pop("lhs_dilation", None)
    made = ConvolutionOp.create(
        operands=[value, weight],
        result_types=[with_element(op.result, i32)],
        properties=properties,
        attributes=dict(op.attributes),
    )
    return lowering.insert(made).results[0]


def _check_accumulator(lowering: Lowering, op: ConvolutionOp | DotGeneralOp, weight: Array) -> None:
    """Raise where some input could take a sum past i32, from the actual weights: of raw products, or with the bias."""
    kind, channels = quantized_element(op.lhs), _channels(op, weight)
    assert kind is not None
    low, high = kind.storage.minimum, kind.storage.maximum
    bias = _bias_after(lowering, op)
    raw = accumulator_bound(channels, low, high).max(initial=0)
    whole = accumulator_bound(channels, low, high, kind.zero_point, bias).max(initial=0)
    if max(raw, whole) > INT32_MAX:
        raise LoweringError(
            f"{describe(op)}: found sums of products up to {max(raw, whole)}, expected at most {INT32_MAX} (i32); "
            f"quantize its weights with fewer bits or split its input channels"
        )


def _bias_after(lowering: Lowering, op: ConvolutionOp | DotGeneralOp) -> Array | int:
    """The constant that is added to the products: one element a channel, or the greatest magnitude of another one."""
    use = op.result.get_unique_use()
    if use is None or not isinstance(use.operation, AddOp):
        return 0
    value = use.operation.operands[1 - use.index]
    if isinstance(value.owner, BroadcastInDimOp):
        array = constant_array(value.owner.operand, lowering.weights)
        if array is not None and array.shape == (_channel_count(op),):
            return array
    else:
        array = constant_array(value, lowering.weights)
    return 0 if array is None else int(np.abs(array.astype(np.int64)).max(initial=0))


def _channel_count(op: ConvolutionOp | DotGeneralOp) -> int:
    shape = shape_of(op.result)
    return shape[op.dimension_numbers.data.output_feature_dimension if isinstance(op, ConvolutionOp) else -1]


def lower_contraction(lowering: Lowering, op: ConvolutionOp | DotGeneralOp) -> SSAValue:
    """`convolution | dot_general` on i8 to i32, corrected to sum (q_x - z_x)(q_w - z_w)."""
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    if lhs is None or rhs is None or result is None or result.storage.type.width != 32:
        raise LoweringError(
            f"{describe(op)}: found operands {op.lhs.type}, {op.rhs.type} and result {op.result.type}, expected "
            f"quantized operands and a quantized result stored in i32"
        )
    weight = constant_array(op.rhs, lowering.weights)
    if weight is None or rhs.zero_points.any() or not _has_channels(op):
        return _two_activations(lowering, op)
    _check_accumulator(lowering, op, weight)
    if isinstance(op, ConvolutionOp):
        axis = op.dimension_numbers.data.output_feature_dimension
        accumulator = _integer_convolution(lowering, op, lhs.zero_point)
    else:
        axis = len(shape_of(op.result)) - 1
        accumulator = lowering.retyped(op, i32)
    sums = _channels(op, weight).astype(np.int64).sum(axis=1)
    return lowering.shifted(accumulator, -lhs.zero_point * sums, axis)


def _two_activations(lowering: Lowering, op: ConvolutionOp | DotGeneralOp) -> SSAValue:
    """Both zero points subtracted first: |q - z| <= 255, so that K products fit i32 for K < 2^31 / 255^2 = 33025."""
    lhs, rhs = quantized_element(op.lhs), quantized_element(op.rhs)
    assert lhs is not None and rhs is not None
    terms = _terms(op)
    if terms * 255 * 255 > INT32_MAX:
        raise LoweringError(f"{describe(op)}: found sums of {terms} products of 8-bit values, expected at most 33025")
    made = type(op).create(
        operands=[
            lowering.widened(lowering.stored(op.lhs), lhs.zero_point),
            lowering.widened(lowering.stored(op.rhs), rhs.zero_point),
        ],
        result_types=[with_element(op.result, i32)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    return lowering.insert(made).results[0]


def _terms(op: ConvolutionOp | DotGeneralOp) -> int:
    """How many products make one sum."""
    if isinstance(op, ConvolutionOp):
        kernel = shape_of(op.rhs)
        return int(np.prod(kernel)) // kernel[op.dimension_numbers.data.kernel_output_feature_dimension]
    return int(np.prod([shape_of(op.lhs)[i] for i in op.dot_dimension_numbers.data.lhs_contracting_dimensions]))
