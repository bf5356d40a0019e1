"""Quantized contractions to integer ones: padding by the zero point, correction after the products.

sum (q_x - z_x) q_w = sum q_x q_w - z_x sum q_w, where the padding holds z_x, so that the correction is one constant per
output channel; it is added to the bias. Weights have zero point 0. Of two activations both zero points are
subtracted before.

Source: the lowering of quantized contractions ("Zero-Point Correction"); the project's numerics notes, "Accumulators".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    PadOp,
    UniformQuantizeOp,
)
from zeropoint.ir.stablehlo.contraction import padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.lower.context import Lowering, LoweringError, quantized_element, reach, storage_element, widened_from
from zeropoint.numerics.accumulator import accumulator_bound

Contraction = ConvolutionOp | DotGeneralOp
INT32_MAX = (1 << 31) - 1


def _channels(op: Contraction, weight: Array) -> Array:
    """The weights as (output channels, terms)."""
    if isinstance(op, ConvolutionOp):
        axis = op.dimension_numbers.data.kernel_output_feature_dimension
    else:
        contracted = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        axis = next(i for i in range(weight.ndim) if i not in contracted)
    return np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)


def _has_channels(op: Contraction) -> bool:
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
    fill = lowering.constant(np.array(zero_point, element_dtype(element_of(value))))
    return lowering.insert(PadOp(value, fill, low, high, interior)).result


def _integer_convolution(
    lowering: Lowering, op: ConvolutionOp, weight: SSAValue, zero_point: int, element: IntegerType
) -> SSAValue:
    value = lowering.stored(op.lhs)
    properties = dict(op.properties)
    if zero_point != 0:
        value = _padded(lowering, op, value, zero_point)
        properties.pop("padding", None)
        properties.pop("lhs_dilation", None)
    made = ConvolutionOp.create(
        operands=[value, weight],
        result_types=[with_element(op.result, element)],
        properties=properties,
        attributes=dict(op.attributes),
    )
    return lowering.insert(made).results[0]


def _weights(lowering: Lowering, op: Contraction, weight: Array) -> SSAValue:
    """The stored weights: 8 bits of them that are stored in 16 stay 8, and are converted where they are used."""
    kind = quantized_element(op.rhs)
    assert kind is not None
    if kind.storage.type.width != 16 or not -128 <= kind.storage.minimum <= kind.storage.maximum <= 127:
        return lowering.stored(op.rhs)
    narrow = lowering.constant(weight.astype(np.int8))
    return lowering.insert(ConvertOp(narrow, with_element(narrow, storage_element(kind)))).result


def _accumulator(lowering: Lowering, op: Contraction, weight: Array) -> IntegerType:
    """The type in which the sums of products are exact, the bias included, from the actual weights.

    i32 where every sum of any input fits. i64 for 16-bit operands, where the op requantizes the sums itself, or what
    reads them saturates: then sums that pass the 32 bits of the quantized accumulator clamp to the same end.
    Raises LoweringError for others.
    """
    kind, channels = quantized_element(op.lhs), _channels(op, weight)
    assert kind is not None
    low, high = kind.storage.minimum, kind.storage.maximum
    bias = _bias_after(lowering, op)
    raw = accumulator_bound(channels, low, high).max(initial=0)
    whole = accumulator_bound(channels, low, high, kind.zero_point, bias).max(initial=0)
    if max(raw, whole) <= INT32_MAX:
        return i32
    if kind.storage.type.width == 16 and (_requantizes(op) or _saturates(op, bias)):
        return i64
    raise LoweringError(
        f"{describe(op)}: found sums of products up to {max(raw, whole)}, expected at most {INT32_MAX} (i32); "
        f"quantize its weights with fewer bits or split its input channels"
    )


def _requantizes(op: Contraction) -> bool:
    """Whether the result is not the sum of products itself, but is requantized from it."""
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    assert lhs is not None and rhs is not None and result is not None
    return bool((lhs.scale * rhs.scales / result.scales != 1.0).any())


def _saturates(op: Contraction, bias: Array | int) -> bool:
    """Whether the output clamps wherever the 32-bit accumulator does: (2^31 - 1 - |b|) * m is past its storage range.

    By half of that range, which is more than the rounding of any multiplier and of the result.
    """
    use = op.result.get_unique_use()
    if use is not None and isinstance(use.operation, AddOp):
        use = use.operation.result.get_unique_use()
    if use is None or not isinstance(use.operation, UniformQuantizeOp):
        return False
    sums, result = quantized_element(op.result), quantized_element(use.operation.result)
    if sums is None or result is None or result.is_per_channel or result.storage.type.width > 16:
        return False
    left = INT32_MAX - np.abs(np.asarray(bias).astype(np.float64))
    return bool((left * (sums.scales / result.scale) >= 1.5 * reach(use.operation.result)).all())


def _bias_after(lowering: Lowering, op: Contraction) -> Array | int:
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


def _channel_count(op: Contraction) -> int:
    return shape_of(op.result)[_output_channel(op)]


def _output_channel(op: Contraction) -> int:
    """The dimension of the result that counts output channels."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.output_feature_dimension
    return len(shape_of(op.result)) - 1


def lower_contraction(lowering: Lowering, op: Contraction) -> SSAValue:
    """`convolution | dot_general` to i32 or i64, corrected to sum (q_x - z_x)(q_w - z_w).

    A result of another scale than that of the products is requantized.
    """
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    if lhs is None or rhs is None or result is None or lhs.is_per_channel:
        raise LoweringError(
            f"{describe(op)}: found operands {op.lhs.type}, {op.rhs.type} and result {op.result.type}, expected "
            f"quantized operands, the left one per layer, and a quantized result"
        )
    weight = lowering.integers(op.rhs)
    if weight is None or rhs.zero_points.any() or not _has_channels(op):
        sums = _two_activations(lowering, op)
    else:
        sums = _sums(lowering, op, weight)
    if not _requantizes(op) and result.storage.type.width == 32:
        return sums
    return _requantized(lowering, op, sums)


def _sums(lowering: Lowering, op: Contraction, weight: Array) -> SSAValue:
    """By constant weights with zero point 0: raw products, corrected after."""
    lhs = quantized_element(op.lhs)
    assert lhs is not None
    element, weights = _accumulator(lowering, op, weight), _weights(lowering, op, weight)
    if isinstance(op, ConvolutionOp):
        accumulator = _integer_convolution(lowering, op, weights, lhs.zero_point, element)
    else:
        accumulator = _product(lowering, op, [lowering.stored(op.lhs), weights], element)
    sums = _channels(op, weight).astype(np.int64).sum(axis=1)
    return lowering.shifted(accumulator, -lhs.zero_point * sums, _output_channel(op))


def _requantized(lowering: Lowering, op: Contraction, sums: SSAValue) -> SSAValue:
    """The sums in the type of the result, which is per layer: 16-bit operands have the form of 64-bit accumulators."""
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    assert lhs is not None and rhs is not None and result is not None
    if result.is_per_channel:
        raise LoweringError(
            f"{describe(op)}: found a result of type {op.result.type}, expected one scale, or those of the products"
        )
    wide = max(lhs.storage.type.width, rhs.storage.type.width) > 8
    real = lhs.scale * rhs.scales / result.scale
    multiplier = lowering.profile.multiplier(real, result.storage.type.width, 64 if wide else 32)
    axis = _output_channel(op) if rhs.is_per_channel else None
    return lowering.rescaled(sums, multiplier, result.zero_point, result.storage, axis)


def _product(lowering: Lowering, op: Contraction, operands: list[SSAValue], element: IntegerType) -> SSAValue:
    made = type(op).create(
        operands=operands,
        result_types=[with_element(op.result, element)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    return lowering.insert(made).results[0]


def _two_activations(lowering: Lowering, op: Contraction) -> SSAValue:
    """Both zero points subtracted first: of 8 bits |q - z| <= 255, so that K < 2^31 / 255^2 = 33025 products fit i32.

    Of 16 bits they have i64, where the op requantizes them itself.
    """
    sources = [widened_from(operand) for operand in (op.lhs, op.rhs)]
    reaches = [reach(source) for source in sources]
    bound = _terms(op) * reaches[0] * reaches[1]
    element = i32 if bound <= INT32_MAX else i64
    if element == i64 and not (_requantizes(op) and max(reaches) > 255):
        raise LoweringError(
            f"{describe(op)}: found sums of {_terms(op)} products of values up to {reaches[0]} and {reaches[1]}, "
            f"expected at most {INT32_MAX // (reaches[0] * reaches[1])} (i32)"
        )
    operands: list[SSAValue] = []
    for source in sources:
        kind = quantized_element(source)
        assert kind is not None
        operands.append(lowering.widened(lowering.stored(source), kind.zero_point, element))
    return _product(lowering, op, operands, element)


def _terms(op: Contraction) -> int:
    """How many products make one sum."""
    if isinstance(op, ConvolutionOp):
        kernel = shape_of(op.rhs)
        return int(np.prod(kernel)) // kernel[op.dimension_numbers.data.kernel_output_feature_dimension]
    return int(np.prod([shape_of(op.lhs)[i] for i in op.dot_dimension_numbers.data.lhs_contracting_dimensions]))
