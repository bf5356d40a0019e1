"""Lowers quantized contractions to integer ones: pads with the zero point, and corrects for it after the products.

sum (q_x - z_x) q_w = sum q_x q_w - z_x sum q_w. Padding holds z_x, so the correction is one constant per output
channel, which is added to the bias. Zero points of constant weights are subtracted from q_w at compile time, if the
result fits 8 bits (16 bits for 16-bit operands). Otherwise, and for two activations, zero points are subtracted before
the contraction, or corrected after it (`zero_points.py`).

Weights of 4-bit storage keep it, so that files hold two per byte, and are converted to the input's storage.

Sums are i32 if every partial sum fits, in any order and for any input; otherwise i64. A 32-bit quantized value
saturates, so i64 sums are clamped to 32 bits.

Source: the lowering of quantized contractions ("Zero-Point Correction"); the project's numerics notes, "Accumulators".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir.annotations import ZERO_POINTS, has_row_scales, is_wide
from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis, weights_by_channel
from zeropoint.ir.locations import describe, location_of
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.tensors import Array, element_dtype, with_element
from zeropoint.lower.context import (
    Correction,
    Lowering,
    LoweringError,
    quantized_element,
    storage_element,
    widened_from,
)
from zeropoint.lower.convolution import PaddedConvolution
from zeropoint.lower.row_scales import row_scaled_sums
from zeropoint.lower.weights import BYTE, NIBBLE, fits_width, held_weights
from zeropoint.lower.zero_points import choose, corrected_after
from zeropoint.numerics.accumulator import accumulator_bound
from zeropoint.numerics.arrays import along_axis
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.ranges.contraction import terms


def _centred_weights(lowering: Lowering, op: ContractionOp) -> Array | None:
    """The constant weights minus their zero points; None if they are not constant or do not fit the input's storage."""
    stored, kind, given = lowering.integers(op.rhs), quantized_element(op.rhs), quantized_element(op.lhs)
    assert kind is not None and given is not None
    # Weights without a channel axis (a batch of products) have no correction of one number per output channel.
    if stored is None or weight_channel_axis(op) is None:
        return None
    centred = stored
    if kind.zero_points.any():
        # In 64 bits, because the difference of two bytes has nine bits.
        centred = stored.astype(np.int64) - along_axis(kind.zero_points, stored.ndim, kind.axis, "zero point")
    limits = np.iinfo(element_dtype(storage_element(given)))
    fits = centred.size == 0 or (int(centred.min()) >= limits.min and int(centred.max()) <= limits.max)
    return centred if fits else None


def _weights(lowering: Lowering, op: ContractionOp, weight: Array) -> SSAValue:
    """The weights without zero points. They are stored in the narrowest type that holds their range."""
    kind, given = quantized_element(op.rhs), quantized_element(op.lhs)
    assert kind is not None and given is not None
    element = storage_element(given)
    low, high = kind.affine.centred_range
    # Decided by the range of the storage, not by the actual weights, so that equal types give equal files.
    narrower = fits_width(low, high, NIBBLE if element.width.data == BYTE else BYTE)
    if not kind.zero_points.any() and storage_element(kind) == element and not narrower:
        return lowering.stored(op.rhs)
    return held_weights(lowering, weight, element, (int(low), int(high)), location_of(op.rhs))


def _requantizes(op: ContractionOp) -> bool:
    """Whether the result has another scale than the sums of products, so that these must be requantized."""
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    assert lhs is not None and rhs is not None and result is not None
    # Only a quotient of exactly 1 in f64 is the identity for every accumulator.
    return bool((lhs.scale * rhs.scales / result.scales != 1.0).any())


def lower_contraction(lowering: Lowering, op: ContractionOp) -> SSAValue:
    """Lower `convolution | dot_general` to sum (q_x - z_x)(q_w - z_w), saturated to the storage of the result.

    A result of another scale than the products is requantized. Raises LoweringError for a per-channel left operand, and
    for operands or a result that are not quantized.
    """
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    if lhs is None or rhs is None or result is None or lhs.is_per_channel:
        raise LoweringError(
            f"{describe(op)}: found operands {op.lhs.type}, {op.rhs.type} and result {op.result.type}, expected "
            f"quantized operands, the left one per layer, and a quantized result"
        )
    weight = _centred_weights(lowering, op)
    sums = row_scaled_sums(lowering, op, weight) if has_row_scales(op) else _corrected(lowering, op, weight)
    if is_wide(op.result):
        return lowering.converted(sums, i64)
    if not _requantizes(op) and result.storage.type.width == 32:
        return lowering.saturated_result(sums, op)
    return _requantized(lowering, op, sums)


def _corrected(lowering: Lowering, op: ContractionOp, weight: Array | None) -> SSAValue:
    """The sums of products less zero points, corrected in the forced or the cheapest form (`zero_points.py`)."""
    sources = (widened_from(op.lhs), widened_from(op.rhs))
    before = len(lowering.made)
    form = choose(lowering.zero_points, op, sources, weight is not None)
    if form is Correction.INSIDE:
        sums = _two_activations(lowering, op)
    elif weight is not None:
        sums = _sums(lowering, op, weight)
    else:
        sums = corrected_after(lowering, op, sources)
    kinds = [quantized_element(source) for source in sources]
    if any(kind is not None and kind.zero_points.any() for kind in kinds):
        # The first contraction that was emitted adds the products; a second one, by ones, adds the input.
        made = next(each for each in lowering.made[before:] if isinstance(each, type(op)))
        made.attributes[ZERO_POINTS] = StringAttr(form.value)
    return sums


def _sums(lowering: Lowering, op: ContractionOp, weight: Array) -> SSAValue:
    """Sums with constant weights without zero points: products of stored integers, corrected afterwards."""
    lhs = quantized_element(op.lhs)
    assert lhs is not None
    axis = weight_channel_axis(op)
    assert axis is not None  # guaranteed by `_centred_weights`
    channels, weights = weights_by_channel(weight, axis), _weights(lowering, op, weight)
    # The bound covers padding, because the zero point is in the storage range.
    bound = accumulator_bound(channels, lhs.storage.minimum, lhs.storage.maximum)
    # The bound must hold for all partial sums, because native code adds the terms in any order.
    element = i32 if int(bound.max(initial=0)) <= INT32_MAX else i64
    if isinstance(op, ConvolutionOp):
        padded = PaddedConvolution.of(lowering, op, lowering.stored(op.lhs), lhs.zero_point)
        accumulator = padded.sums(weights, element)
    else:
        accumulator = _product(lowering, op, [lowering.stored(op.lhs), weights], element)
    sums = channels.sum(axis=1, dtype=np.int64)
    # sum (q - z) w = sum q w - z sum w, where sum w is a constant.
    return lowering.shifted(accumulator, -lhs.zero_point * sums, output_channel_axis(op))


def _requantized(lowering: Lowering, op: ContractionOp, sums: SSAValue) -> SSAValue:
    """The sums requantized to the per-layer result type. 16-bit operands use the form for 64-bit accumulators."""
    lhs, rhs, result = quantized_element(op.lhs), quantized_element(op.rhs), quantized_element(op.result)
    assert lhs is not None and rhs is not None and result is not None
    if result.is_per_channel:
        raise LoweringError(
            f"{describe(op)}: found a result of type {op.result.type}, expected one scale, or those of the products"
        )
    # 16-bit products fill 31 bits, so a few terms already need 64-bit accumulators.
    wide = max(lhs.storage.type.width, rhs.storage.type.width) > BYTE
    if not wide:
        # 8-bit profiles requantize 32-bit accumulators only. Propagation has chosen scales for which sums fit, unless
        # the model fixed the scales.
        lowering.check_fits(op, sums, 32, "sums of products", "quantize its weights to fewer bits or split its sums")
        sums = lowering.converted(sums, i32)
    # First s_x s_w, then the quotient, as in the runtimes. The order of the two roundings is part of the profile.
    real = lowering.profile.ratio(lowering.profile.product_of_scales(lhs.scale, rhs.scales), result.scale)
    multiplier = lowering.profile.multiplier(real, result.storage.type.width, 64 if wide else 32)
    axis = output_channel_axis(op) if rhs.is_per_channel else None
    return lowering.rescaled(sums, multiplier, result.zero_point, result.storage, axis)


def _product(lowering: Lowering, op: ContractionOp, operands: list[SSAValue], element: IntegerType) -> SSAValue:
    made = type(op).create(
        operands=operands,
        result_types=[with_element(op.result, element)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    return lowering.insert(made).results[0]


def _two_activations(lowering: Lowering, op: ContractionOp) -> SSAValue:
    """Subtract both zero points first. For 8 bits |q - z| <= 255, so 33025 products fit i32."""
    sources = [widened_from(operand) for operand in (op.lhs, op.rhs)]
    kinds = [quantized_element(source) for source in sources]
    reaches = [kind.affine.reach for kind in kinds if kind is not None]
    # The weights are not known, so the bound is the number of terms times the greatest product.
    element = i32 if terms(op) * reaches[0] * reaches[1] <= INT32_MAX else i64
    operands = [_less_zero_points(lowering, source, element) for source in sources]
    return _product(lowering, op, operands, element)


def _less_zero_points(lowering: Lowering, value: SSAValue, element: IntegerType) -> SSAValue:
    """`value - zero_point`, per channel if there are several, in a type that can represent it."""
    kind = quantized_element(value)
    assert kind is not None
    stored = lowering.stored(value)
    if not kind.is_per_channel:
        return lowering.widened(stored, kind.zero_point, element)
    return lowering.shifted(lowering.converted(stored, element), -kind.zero_points, kind.axis)
