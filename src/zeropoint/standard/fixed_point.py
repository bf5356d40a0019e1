"""The fixed-point ops as plain integer arithmetic, one function per requantization behaviour.

The formulas are those of `zeropoint.numerics.requantize`, whose docstrings prove that no step overflows its type.
Shifts and rounding terms are computed here from the constant multipliers, so that all shifts are constants in range.
Only `float32-rne` and `float64-away` compute in floats, as the kernels of onnxruntime, XNNPACK and LiteRT do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64, i32, i64
from xdsl.ir import SSAValue

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.behaviours import EXACT_LIMIT, INT64_MAX, greatest_accumulator
from zeropoint.numerics.division import Division
from zeropoint.numerics.elementwise import CommonScaleSum
from zeropoint.numerics.requantize import Requantization, RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.standard.arithmetic import Element, ElementwiseArithmetic

WORD = 32
NARROW_FLOAT = 1 << 24
"""Integers up to this magnitude are exact in f32."""


@dataclass(frozen=True)
class MultiplierParameters:
    """A multiplier and its shift, one of each or one per channel, with the zero point and the bounds of the result."""

    multiplier: AnyArray
    shift: IntArray
    zero_point: int
    low: int
    high: int


RequantizeForm = Callable[[ElementwiseArithmetic, SSAValue, MultiplierParameters], SSAValue]
"""Emits clamp(round(acc * m) + zero_point), still in the type of the computation."""


def requantized(ops: ElementwiseArithmetic, accumulator: SSAValue, op: Requantization, result: Element) -> SSAValue:
    """Emit clamp(round(acc * m) + zero_point, storage_min, storage_max), converted to the type `result`."""
    multiplier = op.multiplier
    shift = np.zeros(multiplier.multiplier.shape, np.int64) if multiplier.shift is None else multiplier.shift
    parameters = MultiplierParameters(
        _one(multiplier.multiplier), _one(shift), op.zero_point, op.storage_min, op.storage_max
    )
    rounded = FORMS[multiplier.behaviour](ops, accumulator, parameters)
    return ops.converted(ops.clamp(rounded, op.storage_min, op.storage_max), result)


def _one(values: AnyArray) -> AnyArray:
    """The parameters as one number if they are equal for all channels."""
    flat = values.reshape(-1)
    return flat[0].reshape(()) if flat.size and bool((flat == flat[0]).all()) else flat


def _width(ops: ElementwiseArithmetic, x: SSAValue) -> int:
    element = ops.element(x)
    assert isinstance(element, IntegerType)
    return element.width.data


def _half(shift: IntArray) -> IntArray:
    """2^(shift - 1), the term that makes a right shift round half up; 0 for a shift of 0."""
    return (np.int64(1) << shift) >> 1


def _fixed16(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """(((a * M + 2^14) >> 15) + 64 * zero_point + 32) >> 6, where a = sat16(x / 2^s, rounded half up).

    2a instead of a is saturated, before and after a left shift, so that every step fits 32 bits.
    """
    left = np.maximum(1 - p.shift, 0)
    doubled = ops.clamp(ops.shift_right(x, np.maximum(p.shift - 1, 0)), -65536, 65534)
    if left.any():
        doubled = ops.clamp(ops.shift_left(doubled, left), -65536, 65534)
    a = ops.shift_right(ops.add(doubled, 1), 1)
    product = ops.shift_right(ops.add(ops.multiply(a, p.multiplier), 1 << 14), 15)
    return ops.shift_right(ops.add(product, 64 * p.zero_point + 32), 6)


def _fixed32(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """(x * M + 2^(N-1)) >> N in 64 bits."""
    right = np.maximum(p.shift, 0)
    factor = p.multiplier.astype(np.int64) << np.maximum(-p.shift, 0)
    if _width(ops, x) > WORD:
        return _sum(ops, _fixed32_of_64_bits(ops, x, factor, right), p.zero_point)
    product = ops.multiply(ops.converted(x, i64), factor)
    return ops.add(ops.shift_right(ops.add(product, _half(right)), right), p.zero_point)


def _sum(ops: ElementwiseArithmetic, y: SSAValue, zero_point: int) -> SSAValue:
    """y + zero_point for any i64 y. y is clamped to +-2^33 first, beyond any storage range, so that no sum
    overflows.
    """
    return ops.add(ops.clamp(y, -(1 << 33), 1 << 33), zero_point) if zero_point else y


def _within(ops: ElementwiseArithmetic, x: SSAValue, most: IntArray) -> SSAValue:
    """min(max(x, -most), most), with one bound or one per channel."""
    if most.ndim == 0 or bool((most == most.flat[0]).all()):
        return ops.clamp(x, -int(most.flat[0]), int(most.flat[0]))
    high = ops.select(ops.compare("gt", x, most), ops.of(most, x), x)
    return ops.select(ops.compare("lt", high, -most), ops.of(-most, x), high)


def _fixed32_of_64_bits(ops: ElementwiseArithmetic, x: SSAValue, factor: IntArray, right: IntArray) -> SSAValue:
    """The exact (x * M + 2^(N-1)) >> N.

    For N >= 31 it is (high * M + (low * M >> 31) + 2^(N-32)) >> N - 31 with x = high * 2^31 + low. For N < 31, x is
    saturated first, at a bound where the result is out of any storage range.
    """
    if (right >= 31).all():
        return _of_halves(ops, x, factor, right)
    short, rounding = np.minimum(right, 30), _half(np.minimum(right, 30))
    inside = _within(ops, x, greatest_accumulator(factor, rounding))
    shorter = ops.shift_right(ops.add(ops.multiply(inside, factor), rounding), short)
    if (right < 31).all():
        return shorter
    longer = _of_halves(ops, x, np.where(right >= 31, factor, 0), right)
    return ops.select(ops.compare("ge", ops.parameter(right, i64, x), 31), longer, shorter)


def _of_halves(ops: ElementwiseArithmetic, x: SSAValue, factor: IntArray, right: IntArray) -> SSAValue:
    low = ops.multiply(ops.bit_and(x, INT32_MAX), factor)
    # For N = 31, the rounding term 2^30 has to be added before the shift by 31.
    low = ops.shift_right(ops.add(low, np.where(right == 31, np.int64(1 << 30), np.int64(0))), 31)
    total = ops.add(ops.multiply(ops.shift_right(x, 31), factor), low)
    return ops.shift_right(ops.add(total, _half(right) >> 31), np.maximum(right - 31, 0))


def _fixed32_double(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """The high half of the doubled product, ties up, then a division by 2^k, ties away from zero: two roundings."""
    left, right = np.maximum(p.shift, 0), np.maximum(-p.shift, 0)
    inside = ops.converted(x, i64)
    if _width(ops, x) > WORD:
        inside = ops.clamp(inside, INT32_MIN, INT32_MAX)
    if left.any():
        inside = ops.clamp(ops.shift_left(inside, left), INT32_MIN, INT32_MAX)
    # Multipliers are not negative. So the magnitude of the product is below 2^62, and its high half needs no
    # saturation.
    high = ops.shift_right(ops.add(ops.multiply(inside, p.multiplier), 1 << 30), 31)
    return ops.add(_divided(ops, high, right), p.zero_point)


def _divided(ops: ElementwiseArithmetic, x: SSAValue, power: IntArray) -> SSAValue:
    """x / 2^power, ties away from zero, for |x| <= 2^62.

    Half is added to positive numbers, half less 1 to negative ones.
    """
    if not power.any():
        return x
    sign = ops.shift_right(x, 63)
    if not power.all():
        sign = ops.bit_and(sign, np.where(power > 0, -1, 0).astype(np.int64))
    return ops.shift_right(ops.add(ops.add(x, _half(power)), sign), power)


def _tosa_double(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """apply_scale_32 with DOUBLE_ROUND: shifts above 31 first add half of the 31st bit, away from zero."""
    value = ops.converted(x, i64)
    if _width(ops, x) > WORD:
        value = ops.clamp(value, INT32_MIN, INT32_MAX)
    total = ops.add(ops.multiply(value, p.multiplier), _half(p.shift))
    extra = np.where(p.shift > 31, np.int64(1 << 30), np.int64(0))
    if extra.any():
        up, down = ops.of(extra, total), ops.of(-extra, total)
        total = ops.add(total, ops.select(ops.compare("ge", value, 0), up, down))
    return ops.add(ops.shift_right(total, p.shift), p.zero_point)


def _float32_rne(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """The product in f32, rounded half to even."""
    return _of_whole_float(ops, ops.round_even(ops.multiply(ops.converted(x, f32), p.multiplier)), p)


def _float64_away(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """The product in f64, rounded half away from zero."""
    return _of_whole_float(ops, ops.round_away(ops.multiply(ops.converted(x, f64), p.multiplier)), p)


def _of_whole_float(ops: ElementwiseArithmetic, rounded: SSAValue, p: MultiplierParameters) -> SSAValue:
    """An integral float as an integer, plus the zero point.

    It is clamped before the conversion, which is undefined out of range.
    """
    low, high = p.low - p.zero_point, p.high - p.zero_point
    if max(abs(low), abs(high)) <= NARROW_FLOAT:
        return ops.add(ops.converted(ops.clamp(rounded, low, high), i32), p.zero_point)
    return ops.add(ops.converted(ops.clamp(rounded, -(2.0**62), 2.0**62), i64), p.zero_point)


def _exact(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """x * Q / 2^k, half to even, with the 53-bit integer Q in limbs of 18, 18 and 17 bits."""
    fraction, exponent = np.frexp(p.multiplier.astype(np.float64))
    integer, mask = np.ldexp(fraction, 53).astype(np.int64), (1 << 18) - 1
    k = np.clip(17 - exponent.astype(np.int64), 0, 62)
    value = ops.converted(x, i64)
    if _width(ops, x) > WORD:
        value = ops.clamp(value, -EXACT_LIMIT, EXACT_LIMIT)
    first = ops.multiply(value, integer & mask)
    second = ops.add(ops.multiply(value, (integer >> 18) & mask), ops.shift_right(first, 18))
    high = ops.add(ops.multiply(value, integer >> 36), ops.shift_right(second, 18))
    low = ops.bit_and(ops.bit_or(first, second), mask)
    y = ops.shift_right(high, k)
    rest = ops.shift_left(ops.subtract(high, ops.shift_left(y, k)), 1)
    one = np.int64(1) << k
    # Half to even: round up above the tie, and at the tie if lower bits are set or y is odd.
    odd = ops.bit_or(low, ops.bit_and(y, 1))
    at_tie = ops.select(ops.compare("eq", rest, one), odd, ops.of(0, y))
    up = ops.select(ops.compare("gt", rest, one), ops.of(1, y), at_tie)
    one_up = ops.select(ops.compare("gt", up, 0), ops.of(1, y), ops.of(0, y))
    return ops.add(ops.add(y, one_up), p.zero_point)


def _pot(ops: ElementwiseArithmetic, x: SSAValue, p: MultiplierParameters) -> SSAValue:
    """x * 2^-n: a left shift, or a division with ties away from zero."""
    left, right = np.maximum(-p.shift, 0), np.maximum(p.shift, 0)
    value = ops.converted(x, i64)
    if _width(ops, x) <= WORD:
        return ops.add(_divided(ops, ops.shift_left(value, left), right), p.zero_point)
    if left.any():
        value = _within(ops, value, INT64_MAX >> left)
    shifted = ops.shift_left(value, left)
    # A sum of a 64-bit accumulator and a rounding term may overflow, so the bits that are shifted out are compared
    # instead.
    mask = (np.int64(1) << right) - 1
    threshold = ops.subtract(ops.of(mask >> 1, shifted), ops.shift_right(shifted, 63))
    above = ops.compare("gt", ops.bit_and(shifted, mask), threshold)
    up = ops.select(above, ops.of(1, shifted), ops.of(0, shifted))
    return _sum(ops, ops.add(ops.shift_right(shifted, right), up), p.zero_point)


FORMS: dict[RequantizeBehaviour, RequantizeForm] = {
    RequantizeBehaviour.FIXED16: _fixed16,
    RequantizeBehaviour.FIXED32: _fixed32,
    RequantizeBehaviour.FIXED32_DOUBLE: _fixed32_double,
    RequantizeBehaviour.TOSA_DOUBLE: _tosa_double,
    RequantizeBehaviour.FLOAT32_RNE: _float32_rne,
    RequantizeBehaviour.FLOAT64_AWAY: _float64_away,
    RequantizeBehaviour.EXACT: _exact,
    RequantizeBehaviour.POT: _pot,
}
"""Maps behaviours to their forms."""


def weighted_sum(ops: ElementwiseArithmetic, inputs: list[SSAValue], op: CommonScaleSum, result: Element) -> SSAValue:
    """Emit clamp(zero_point + (sum_i (x_i - z_i) * A_i + 2^(shift-1)) >> shift) in i32.

    sum_i z_i * A_i is subtracted from the rounding term at compile time. Intermediate sums may wrap around modulo 2^32;
    the total fits.
    """
    terms = [ops.multiply(ops.converted(x, i32), factor) for x, factor in zip(inputs, op.multipliers, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = ops.add(total, term)
    rounded = ops.add(ops.shift_right(ops.add(total, op.constant_term()), op.shift), op.zero_point)
    return ops.converted(ops.clamp(rounded, op.storage_min, op.storage_max), result)


def looked_up(ops: ElementwiseArithmetic, x: SSAValue, table: SSAValue, least: int) -> SSAValue:
    """Emit table[x - least], for an 8- or 16-bit x of a type whose least value is `least`."""
    return ops.looked_up(table, ops.subtract(ops.converted(x, i32), least))


def rounding_divided(ops: ElementwiseArithmetic, x: SSAValue, exponent: int) -> SSAValue:
    """Emit x / 2^exponent, ties away from zero, in the type of x: (x >> k) + ((x & mask) > (mask >> 1) - sign)."""
    if exponent == 0:
        return x
    mask = (1 << exponent) - 1
    threshold = ops.subtract(ops.of(mask >> 1, x), ops.shift_right(x, _width(ops, x) - 1))
    up = ops.select(ops.compare("gt", ops.bit_and(x, mask), threshold), ops.of(1, x), ops.of(0, x))
    return ops.add(ops.shift_right(x, exponent), up)


def saturating_sum(ops: ElementwiseArithmetic, x: SSAValue, y: SSAValue, low: int, high: int) -> SSAValue:
    """Emit clamp(x + y, low, high); the sum is computed in twice the bits."""
    element = ops.element(x)
    wide = IntegerType(2 * _width(ops, x))
    return ops.converted(ops.clamp(ops.add(ops.converted(x, wide), ops.converted(y, wide)), low, high), element)


def high_product(ops: ElementwiseArithmetic, x: SSAValue, multiplier: int) -> SSAValue:
    """Emit min((x * multiplier + 2^30) >> 31, 2^31 - 1) in 64 bits."""
    product = ops.add(ops.multiply(ops.converted(x, i64), multiplier), 1 << 30)
    high = ops.shift_right(product, 31)
    if multiplier == INT32_MIN:
        high = ops.emit("minimum", high, ops.of(INT32_MAX, high))
    return ops.converted(high, i32)


def divided(ops: ElementwiseArithmetic, x: SSAValue, y: SSAValue, op: Division, result: Element) -> SSAValue:
    """Emit `numerics.division`'s quotient in 64 bits."""
    a = ops.subtract(ops.converted(x, i64), op.zero_points[0])
    b = ops.subtract(ops.converted(y, i64), op.zero_points[1])
    zero, below = ops.of(0, a), ops.compare("lt", b, 0)
    signed = ops.select(below, ops.subtract(zero, a), a)
    positive = ops.select(below, ops.subtract(zero, b), b)
    half = ops.shift_right(ops.shift_left(positive, op.shift), 1)
    t = ops.shift_right(ops.add(ops.multiply(signed, op.multiplier), half), op.shift)
    divisor = ops.emit("maximum", positive, ops.of(1, positive))
    truncated = ops.emit("divide", t, divisor)
    rest = ops.subtract(t, ops.multiply(truncated, divisor))
    floor = ops.add(truncated, ops.select(ops.compare("lt", rest, 0), ops.of(-1, t), zero))
    high = ops.select(ops.compare("gt", a, 0), ops.of(1 << 40, a), zero)
    endless = ops.select(ops.compare("lt", a, 0), ops.of(-(1 << 40), a), high)
    quotient = ops.add(ops.select(ops.compare("eq", b, 0), endless, floor), op.zero_point)
    return ops.converted(ops.clamp(quotient, op.storage_min, op.storage_max), result)


def interpolated(ops: ElementwiseArithmetic, x: SSAValue, table: SSAValue, shift: int) -> SSAValue:
    """Emit `numerics.interpolation.interpolated` for a table of 2^(16 - shift) + 1 entries."""
    u = ops.add(ops.converted(x, i32), 1 << 15)
    index = ops.shift_right(u, shift)
    entry = ops.looked_up(table, index)
    low, high = (ops.converted(each, i32) for each in (entry, ops.looked_up(table, ops.add(index, 1))))
    part = ops.bit_and(u, (1 << shift) - 1)
    rise = ops.add(ops.multiply(ops.subtract(high, low), part), 1 << (shift - 1))
    return ops.converted(ops.add(low, ops.shift_right(rise, shift)), ops.element(entry))
