"""Lowers quantized sums and requantizations to integers.

Source: the project's numerics notes, "Elementwise" and "Requantize".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import is_wide
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.fxpmath.checks import sums_fit
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    MultiplyOp,
    ShiftRightArithmeticOp,
    SubtractOp,
    UniformQuantizeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.lower.context import Lowering, LoweringError, is_widening, quantized_element, storage_element
from zeropoint.lower.float_islands import lower_in_float
from zeropoint.numerics.elementwise import (
    AddBehaviour,
    CommonScaleSum,
    FloatAdd,
    LiteRTAdd,
    TosaAdd,
    addition,
)
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, requantize
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN

INT32 = Storage.of("i32")
SYMMETRIC_INT32 = Storage.of("i32", -INT32_MAX)
WIDE = "a sum of 32-bit values at several scales, or a product at another scale than its own, has no integer form"


def types_of(op: Operation) -> tuple[list[UniformQuantizedType], UniformQuantizedType]:
    """The types of the operands and of the result. Raises LoweringError if one is not quantized."""
    operands = [quantized_element(operand) for operand in op.operands]
    result = quantized_element(op.results[0])
    known = [operand for operand in operands if operand is not None]
    if result is None or len(known) != len(operands):
        raise LoweringError(f"{describe(op)}: found operands and result of mixed types, expected quantized ones only")
    return known, result


def lower_requantize(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue:
    """`uniform_quantize` of a quantized value: (q - z_in) * s_in / s_out + z_out, rounded by the profile."""
    (source,), result = types_of(op)
    stored = lowering.stored(op.operand)
    # A 64-bit accumulator has no zero point to subtract, and `requantized` would first narrow it to 32 bits.
    if is_wide(op.operand) and source != result and not result.is_per_channel:
        return rescaled_accumulator(lowering, stored, source, result)
    return requantized(lowering, op, stored, source, result)


def requantized(
    lowering: Lowering,
    op: Operation,
    stored: SSAValue,
    source: UniformQuantizedType,
    result: UniformQuantizedType,
) -> SSAValue:
    """Requantize integers from one type to another. Errors name `op` if the profile cannot do it."""
    # Requantization to the same type rounds and clamps nothing, so it needs no op.
    if source == result:
        return stored
    if result.is_per_channel or (source.is_per_channel and source.zero_points.any()):
        return _requantize_channels(lowering, op, stored, source, result)
    # At one scale, only the zero point is subtracted: nothing is rounded.
    if is_widening(source, result):
        return lowering.widened(stored, source.zero_point, storage_element(result))
    zero_point = 0 if source.is_per_channel else source.zero_point
    return rescaled_accumulator(lowering, lowering.widened(stored, zero_point), source, result)


def rescaled_accumulator(
    lowering: Lowering, accumulator: SSAValue, source: UniformQuantizedType, result: UniformQuantizedType
) -> SSAValue:
    """Requantize integers whose zero point is already subtracted to another type."""
    real = lowering.profile.ratio(source.scales, result.scale)
    # At a ratio of 1 only saturation is left.
    if result.storage.type.width == 32 and result.zero_point == 0 and (real == 1.0).all():
        storage = result.storage
        return lowering.saturated(accumulator, storage.minimum, storage.maximum, storage_element(result))
    multiplier = change_multiplier(lowering.profile, source, result)
    return lowering.rescaled(accumulator, multiplier, result.zero_point, result.storage, source.axis)


def less_zero_point(source: UniformQuantizedType, result: UniformQuantizedType) -> UniformQuantizedType | None:
    """A 32-bit type whose integers are the result's minus its zero point.

    None if values of `source` may exceed 32 bits in it.
    """
    low, high = result.affine.centred_range
    # Add 1, because the end of the range may be rounded up.
    reach = source.affine.reach * float(source.scales.max()) / result.scale + 1
    if result.zero_point != 0 and reach > INT32_MAX:
        return None
    storage = Storage.of("i32", max(low, INT32_MIN), min(high, INT32_MAX))
    return UniformQuantizedType.per_layer(storage, result.scale, expressed_type=result.expressed_type)


def change_multiplier(profile: Profile, source: UniformQuantizedType, result: UniformQuantizedType) -> Multiplier:
    """The multiplier from one type to another, for 64-bit accumulators if q - zero_point does not fit 32 bits."""
    low, high = source.affine.centred_range
    # The difference of two 32-bit integers needs 33 bits.
    needed = 32 if low >= INT32_MIN and high <= INT32_MAX else 64
    width = max(needed, profile.accumulator_width(source.storage.type.width, result.storage.type.width))
    return profile.multiplier(profile.ratio(source.scales, result.scales), result.storage.type.width, width)


def _requantize_channels(
    lowering: Lowering, op: Operation, stored: SSAValue, source: UniformQuantizedType, result: UniformQuantizedType
) -> SSAValue:
    """(q - z_in[c]) * s_in[c] / s_out[c] in i32, then + z_out[c] and a clamp.

    The output zero points are added separately because `fxpmath.requantize` has only one.
    """
    axes = {axis for axis in (source.axis, result.axis) if axis is not None}
    behaviour = lowering.profile.requantize(result.storage.type.width)
    if len(axes) != 1 or behaviour is RequantizeBehaviour.FIXED16:
        raise LoweringError(
            f"{describe(op)}: found {source} to {result}, expected channels along one axis, and a profile that "
            f"requantizes in 32 bits (not fixed16)"
        )
    (axis,) = axes
    wide = lowering.widened(stored, 0)
    if source.zero_points.any():
        points = source.zero_points if source.is_per_channel else source.zero_point
        wide = lowering.shifted(wide, -points, axis)
    # The clamp follows the zero points, so the requantization itself must not clamp to the storage.
    multiplier = change_multiplier(lowering.profile, source, result)
    scaled = lowering.rescaled(wide, multiplier, 0, INT32, axis)
    shifted = lowering.shifted(scaled, result.zero_points if result.is_per_channel else result.zero_point, axis)
    return lowering.clamped(shifted, result.storage.minimum, result.storage.maximum, storage_element(result))


def lower_sum(lowering: Lowering, op: AddOp | SubtractOp) -> SSAValue:
    """Lower a sum or difference by the profile's addition: `fxpmath.weighted_sum`, LiteRT's or TOSA's.

    i32 operands of the result's type are added directly. Under our profiles and those of runtimes, a 32-bit operand of
    another scale (a bias) is first requantized to the result's scale, at compile time if it is constant. Other sums
    with 32-bit values are computed in float.
    """
    (lhs, rhs), result = types_of(op)
    accumulates = result.is_per_layer or not result.zero_points.any()
    # At one scale, the integers are the real values in the same unit. No multiplier and no rounding is needed.
    if lhs == rhs == result and accumulates and result.storage.type.width == 32:
        return _sum_of_accumulators(lowering, op)
    if lowering.profile.rescales_biases and _is_accumulation(lhs, rhs, result):
        return _rescaled_sum(lowering, op, result)
    if any(t.is_per_channel for t in (lhs, rhs, result)):
        raise LoweringError(
            f"{describe(op)}: found per-channel operands {lhs} and {rhs} under profile '{lowering.profile.name}', "
            f"expected i32 operands with zero point 0, one of them of the result's type. Under fixed16, "
            f"fixed32 and the profiles of runtimes, the other one may have another scale, and is requantized"
        )
    if widest(op) > 16:
        return lower_in_float(lowering, op, WIDE)
    # A difference is a sum with a negative factor, so both round alike.
    return sum_by_profile(lowering, op, -1 if isinstance(op, SubtractOp) else 1)


def sum_by_profile(lowering: Lowering, op: Operation, sign: int) -> SSAValue:
    """lhs + sign * rhs of two per-layer operands, by the profile's addition."""
    (lhs, rhs), result = types_of(op)
    _check_width(op, 16)
    signs = (1, sign)
    # The form follows from the parameters, not from the profile's name: some additions fall back for some scales.
    parameters = addition(lowering.profile.add, (lhs.affine, rhs.affine), result.affine, signs)
    # These profiles define a sum as dequantize_op_quantize, so the float computation is exact, not a fallback.
    if isinstance(parameters, FloatAdd) and lowering.profile.add is AddBehaviour.FLOAT32:
        return lower_in_float(lowering, op, f"the profile '{lowering.profile.name}' adds values of two scales in f32")
    operands = [lowering.stored(operand) for operand in op.operands]
    if isinstance(parameters, CommonScaleSum):
        # The operands' storage ranges and their integer types give different bounds. i32 has to hold both; i64 always
        # does.
        if parameters.accumulator_width > 32 or not sums_fit(operands, parameters):
            return _wide_weighted_sum(lowering, operands, result, parameters)
        return _weighted_sum(lowering, operands, result, parameters)
    if isinstance(parameters, LiteRTAdd):
        return _litert_sum(lowering, operands, result, parameters)
    if isinstance(parameters, TosaAdd):
        return _tosa_sum(lowering, operands, result, parameters)
    raise LoweringError(
        f"{describe(op)}: found profile '{lowering.profile.name}', whose sums are '{lowering.profile.add.value}', "
        f"expected one with integer sums: fixed16, fixed32, fixed32-double, tosa-double"
    )


def _sum_of_accumulators(lowering: Lowering, op: AddOp | SubtractOp) -> SSAValue:
    """A sum in i32 if every result fits; otherwise in i64, clamped to 32 bits unless the result is 64-bit.

    Both operands have the result's zero point z, so a sum has 2 z, and a difference none.
    """
    stored = [lowering.stored(operand) for operand in op.operands]
    lhs, rhs = (value if element_of(value) == i64 else lowering.converted(value, i32) for value in stored)
    kind = quantized_element(op.result)
    total = lowering.combined(type(op), lhs, rhs)
    if kind is not None and kind.is_per_layer:
        # The result needs one z. It is (q_a - z) + (q_b - z) + z for a sum, and (q_a - q_b) + z for a difference.
        total = lowering.shifted(total, -kind.zero_point if isinstance(op, AddOp) else kind.zero_point, None)
    return lowering.converted(total, i64) if is_wide(op.result) else lowering.saturated_result(total, op)


def widest(op: Operation) -> int:
    """The greatest number of bits in which an operand or result is stored."""
    kinds = [quantized_element(value) for value in (*op.operands, *op.results)]
    return max(kind.storage.type.width for kind in kinds if kind is not None)


def _is_accumulation(*kinds: UniformQuantizedType) -> bool:
    """Whether operands and result have 32 bits without zero points, and the result has the type of an operand."""
    # With zero points, it would be an ordinary sum of quantized values, which the profile rounds.
    plain = all(kind.storage.type.width == 32 and not kind.zero_points.any() for kind in kinds)
    return plain and kinds[-1] in kinds[:-1]


def _rescaled_sum(lowering: Lowering, op: AddOp | SubtractOp, result: UniformQuantizedType) -> SSAValue:
    """The sum of operands that are first requantized to the type of the result."""
    # A bias at another scale is rounded once, at compile time if it is constant.
    terms = [_at_scale(lowering, operand, result) for operand in op.operands]
    return lowering.saturated_result(lowering.combined(type(op), terms[0], terms[1]), op)


def _at_scale(lowering: Lowering, operand: SSAValue, result: UniformQuantizedType) -> SSAValue:
    """A 32-bit operand requantized to a type. Constants and broadcasts of constants stay so."""
    kind = quantized_element(operand)
    assert kind is not None
    stored = lowering.stored(operand)
    if kind == result:
        return stored
    real = lowering.profile.ratio(kind.scales, result.scales)
    multiplier = lowering.profile.multiplier(real.reshape(()) if real.size == 1 else real, 32)
    axis = kind.axis if result.axis is None else result.axis
    spread = stored.owner
    inner = spread.operand if isinstance(spread, BroadcastInDimOp) else stored
    array = lowering.integers(inner)
    # A bias that is computed at run time is multiplied at run time.
    if array is None:
        return lowering.rescaled(stored, multiplier, 0, INT32, axis)
    dimensions = array_values(spread.broadcast_dimensions) if isinstance(spread, BroadcastInDimOp) else ()
    inside = axis if not isinstance(spread, BroadcastInDimOp) or axis is None else _position(dimensions, axis)
    if axis is not None and inside is None:  # the constant has one number for channels of different scales
        return lowering.rescaled(stored, multiplier, 0, INT32, axis)
    # The interpreter's `fxpmath.requantize` is this function, so folding changes no bit.
    folded = requantize(array, multiplier, 0, INT32.minimum, INT32.maximum, axis=inside, dtype=np.int32)
    constant = lowering.constant(folded)
    if not isinstance(spread, BroadcastInDimOp):
        return constant
    return lowering.insert(BroadcastInDimOp(constant, with_element(stored, i32), dimensions)).result


def _position(dimensions: Sequence[int], axis: int) -> int | None:
    return dimensions.index(axis) if axis in dimensions else None


def _check_width(op: Operation, width: int) -> None:
    """Raise LoweringError if an operand or result has wider storage."""
    for value in (*op.operands, *op.results):
        element = quantized_element(value)
        if element is not None and element.storage.type.width > width:
            raise LoweringError(
                f"{describe(op)}: found {value.type}, expected storage of at most {width} bits, or i32 at one scale "
                f"(of a product: at the product of the scales)"
            )


def _weighted_sum(
    lowering: Lowering, operands: list[SSAValue], result: UniformQuantizedType, parameters: CommonScaleSum
) -> SSAValue:
    op = WeightedSumOp(
        operands,
        with_element(operands[0], storage_element(result)),
        parameters,
    )
    return lowering.insert(op).result


def _wide_weighted_sum(
    lowering: Lowering, operands: list[SSAValue], result: UniformQuantizedType, parameters: CommonScaleSum
) -> SSAValue:
    """A weighted sum in i64, if i32 may overflow. `fxpmath.weighted_sum` has no form in i64."""
    total: SSAValue | None = None
    for operand, zero, factor in zip(operands, parameters.zero_points, parameters.multipliers, strict=True):
        wide = lowering.widened(operand, zero, i64)
        term = lowering.insert(MultiplyOp(wide, lowering.filled(wide, factor, i64))).result
        total = term if total is None else lowering.combined(AddOp, total, term)
    assert total is not None
    # Half of the divisor, so that the arithmetic shift rounds half up.
    rounded = lowering.shifted(total, 1 << (parameters.shift - 1), None)
    shifted = lowering.insert(ShiftRightArithmeticOp(rounded, lowering.filled(rounded, parameters.shift, i64))).result
    with_zero_point = lowering.shifted(shifted, parameters.zero_point, None)
    return lowering.clamped(with_zero_point, result.storage.minimum, result.storage.maximum, storage_element(result))


def _litert_sum(
    lowering: Lowering, operands: list[SSAValue], result: UniformQuantizedType, parameters: LiteRTAdd
) -> SSAValue:
    """LiteRT's addition: (q - z) << L and a rescale for each operand, then the sum or difference, then a rescale."""
    rescaled: list[SSAValue] = []
    for index, operand in enumerate(operands):
        wide = lowering.widened(operand, parameters.zero_points[index])
        # The shift gives guard bits, which keep a fraction of each operand in its rescale.
        guarded = lowering.insert(MultiplyOp(wide, lowering.filled(wide, 1 << parameters.left_shift))).result
        step = Multiplier(RequantizeBehaviour.FIXED32_DOUBLE, *_step(parameters, index))
        rescaled.append(lowering.rescaled(guarded, step, 0, INT32))
    total = lowering.combined(SubtractOp if parameters.sign < 0 else AddOp, rescaled[0], rescaled[1])
    last = Multiplier(RequantizeBehaviour.FIXED32_DOUBLE, *_step(parameters, 2))
    return lowering.rescaled(total, last, result.zero_point, result.storage)


def _tosa_sum(
    lowering: Lowering, operands: list[SSAValue], result: UniformQuantizedType, parameters: TosaAdd
) -> SSAValue:
    """TOSA's addition: a rescale of each operand, with guard bits in its multiplier, then the sum, then a rescale."""
    rescaled = [
        lowering.rescaled(lowering.widened(operand, zero_point), multiplier, 0, SYMMETRIC_INT32)
        for operand, zero_point, multiplier in zip(
            operands, parameters.zero_points, parameters.operand_multipliers, strict=True
        )
    ]
    total = lowering.combined(SubtractOp if parameters.sign < 0 else AddOp, rescaled[0], rescaled[1])
    return lowering.rescaled(total, parameters.output_multiplier, result.zero_point, result.storage)


def _step(parameters: LiteRTAdd, index: int) -> tuple[Array, Array]:
    return np.array(parameters.multipliers[index]), np.array(parameters.exponents[index])
