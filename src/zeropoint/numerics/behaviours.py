"""The arithmetic of each requantize behaviour: round(acc * m) + zero_point, before the clamp to the storage.

Every function takes accumulators, then the multiplier, shift and zero point, which broadcast against them.
`requantize.py` has the table of behaviours, their sources, and the ranges of their multipliers and shifts.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray
from zeropoint.numerics.rounding import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    round_half_away,
    rounding_divide_by_pot,
    tosa_apply_scale_32,
)

INT64_MAX = (1 << 63) - 1
EXACT_LIMIT = 1 << 44
"""The maximum magnitude of an accumulator for `exact`: its product with an 18-bit limb fits 64 bits."""


def fixed16(acc: AnyArray, m: IntArray, shift: IntArray, zeros: IntArray) -> AnyArray:
    """a = sat16((acc + 2^(s-1)) >> s);  p = (a * M + 2^14) >> 15;  sat16(p + 64 * zp + 32) >> 6, not clamped yet.

    For s <= 0, a = sat16(acc << -s): this occurs for the small sums and large multipliers of depthwise convolutions.
    There are six guard bits: M / 2^15 / 2^s is 64 * m, so p is 64 * acc * m. On x86 this is VPSRAVD (and VPSLLVD),
    VPACKSSDW, VPMULHRSW, VPADDSW, VPSRAW; on AArch64, the product is SQRDMULH.

    Saturation of a is harmless. With M >= 2^14, a = 32767 gives p >= 2^14, and a = -32768 gives p <= -2^14 (p is
    monotone in a). For any 8-bit storage with zp inside it, p = 2^14 gives (2^14 + 64 * zp + 32) >> 6 = 256 + zp, above
    the storage maximum, and p = -2^14 gives zp - 256, below its minimum: both clamp, as the unsaturated a would.
    The last sat16 is also harmless: 32767 >> 6 = 511 and -32768 >> 6 = -512 are out of range, so it is omitted here.

    About 0.8 % of unclamped outputs differ from exact rounding, by one step upwards: for values within 1/128 step below
    a tie, p is the tie.
    """
    # In int32 where that suffices. This halves the memory traffic of the interpreter's most frequent step.
    word = np.int32 if acc.dtype.itemsize <= 4 else np.int64
    # Compute 2a first, by a shift by s - 1: (acc + 2^(s-1)) >> s = ((acc >> (s-1)) + 1) >> 1, and 2 (acc << -s) is
    # acc << (1-s), which is even. Saturating 2a to -2^16 .. 2^16 - 2 before and after the left shift keeps every step
    # inside int32 for every int32 acc: 2^16 << 7, and |a * M| + 2^14 <= 2^30 + 2^14.
    right, left = np.maximum(shift - 1, 0).astype(word), np.maximum(1 - shift, 0).astype(word)
    a = _saturated(np.asarray(acc.astype(word, copy=False) >> right))
    if left.any():
        a = _saturated(np.asarray(a << left))
    a += 1
    a >>= 1
    a *= m.astype(word)
    a += 1 << 14
    a >>= 15
    # The zero point is added with its guard bits before the last shift, so sum and zero point are rounded once,
    # together.
    a += (64 * zeros + 32).astype(word)
    a >>= 6
    return a


def _saturated(doubled: AnyArray) -> AnyArray:
    """Saturate 2a, in place, so that a fits 16 bits."""
    np.maximum(doubled, -65536, out=doubled)
    np.minimum(doubled, 65534, out=doubled)
    return doubled


def fixed32_parts(m: IntArray, shift: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """(factor, rounding term, right shift). A negative shift becomes a left shift of the factor. N = 0: no rounding."""
    right = np.maximum(shift, 0)
    return m << np.maximum(-shift, 0), (np.int64(1) << right) >> 1, right


def fixed32(acc: AnyArray, m: IntArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """(acc * M0 + 2^(N-1)) >> N, exact for every accumulator of 32 or 64 bits."""
    factor, rounding, right = fixed32_parts(m, shift)
    # |acc * M0| <= 2^62 and 2^(N-1) <= 2^61, or M0 < 2^30 and |acc * M0 * 4| < 2^63. So every int32 accumulator fits.
    # For int64 accumulators, the values decide.
    if acc.dtype.itemsize > 4 and _leaves_int64(acc, factor, rounding):
        return saturated(_fixed32_of_64_bits(acc, factor, rounding, right)) + zeros
    y = np.asarray(acc * factor)
    y += rounding
    y >>= right
    # After the shift, unlike fixed16: adding zero_point << N before it gives the same number, but might overflow.
    y += zeros
    return y


def _leaves_int64(acc: AnyArray, factor: IntArray, rounding: IntArray) -> bool:
    """Whether some acc * factor + rounding may overflow int64."""
    reach = max(int(acc.max(initial=0)), -int(acc.min(initial=0)))
    return reach * int(factor.max(initial=0)) + int(rounding.max(initial=0)) > INT64_MAX


def saturated(y: IntArray) -> IntArray:
    """Clamp results that are far outside of any storage of up to 32 bits, so that their sum with a zero point fits
    int64."""
    return np.clip(y, -(1 << 33), 1 << 33)


def greatest_accumulator(factor: IntArray, rounding: IntArray) -> IntArray:
    """The maximum |acc| for which acc * factor + rounding fits int64.

    Larger accumulators saturate any storage after a shift by up to 30: (2^63 - factor - 2 * rounding) >> 30 is about
    2^33.
    """
    return (INT64_MAX - rounding) // np.maximum(factor, 1)


def _fixed32_of_64_bits(acc: AnyArray, factor: IntArray, rounding: IntArray, right: IntArray) -> IntArray:
    """`fixed32` for 64-bit accumulators. With acc = high * 2^31 + low and N >= 31, it is (high * M0 + (low * M0 >> 31)
    + 2^(N-32)) >> N - 31.

    The rounding term for N = 31 is 2^30, added before the shift by 31. A shift N < 31 needs no halves: accumulators
    whose product overflows int64 are outside of any storage range, so they saturate first.
    """
    acc = acc.astype(np.int64, copy=False)
    most = greatest_accumulator(factor, rounding)
    short = (np.clip(acc, -most, most) * factor + rounding) >> np.minimum(right, 30)
    # Left shifts have N = 0. So here the factor is below 2^31, and high * factor is within 2^63 - 2^32.
    long_factor = np.where(right >= 31, factor, 0)
    low = ((acc & INT32_MAX) * long_factor + np.where(right == 31, 1 << 30, 0)) >> 31
    long = ((acc >> 31) * long_factor + low + (rounding >> 31)) >> np.maximum(right - 31, 0)
    return np.asarray(np.where(right >= 31, long, short))


def fixed32_double(acc: AnyArray, m: IntArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """RDivByPOT(SRDHM(sat32(acc << max(e, 0)), M), max(-e, 0))."""
    return np.asarray(multiply_by_quantized_multiplier(acc, m, shift) + zeros)


def tosa_double(acc: AnyArray, m: IntArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """TOSA's apply_scale_32 with DOUBLE_ROUND, of sat32(acc)."""
    if acc.dtype.itemsize > 4:
        acc = np.clip(acc, INT32_MIN, INT32_MAX)
    return np.asarray(tosa_apply_scale_32(acc, m, shift, double_round=True) + zeros)


def float32_rne(acc: AnyArray, m: AnyArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """float32(acc) * float32(m), rounded half to even. There is no shift."""
    del shift
    with np.errstate(over="ignore"):
        # int32 to f32 rounds accumulators above 2^24. onnxruntime's kernels do the same, so the results agree.
        product = np.rint(acc.astype(np.float32) * m)
    return np.asarray(_integers(product) + zeros)


def float64_away(acc: AnyArray, m: FloatArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """float64(acc) * m, rounded to f64 and then to an integer, ties away from zero (C's `round`). There is no shift."""
    del shift
    with np.errstate(over="ignore"):
        product = acc.astype(np.float64) * m
    # An infinity becomes the largest f64, of which no difference is NaN.
    return np.asarray(_integers(round_half_away(np.nan_to_num(product))) + zeros)


def _integers(whole: AnyArray) -> AnyArray:
    """Integral floats as int64.

    Beyond 2^62, or for infinity, the sum with a zero point would overflow int64. The final clamp hides this bound.
    """
    bound = whole.dtype.type(2.0**62)
    return np.clip(whole, -bound, bound).astype(np.int64)


def exact(acc: AnyArray, m: FloatArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """Round acc * Q / 2^k half to even. Q = q * 2^53, an integer of 53 bits, is multiplied in limbs of 18, 18, 17.

    Accumulators saturate to +-`EXACT_LIMIT` first.
    """
    del shift
    acc = np.clip(acc.astype(np.int64, copy=False), -EXACT_LIMIT, EXACT_LIMIT)
    q, e = np.frexp(m)
    integer = np.ldexp(q, 53).astype(np.int64)
    mask = np.int64((1 << 18) - 1)
    first = acc * (integer & mask)
    second = acc * ((integer >> 18) & mask) + (first >> 18)
    # acc * Q = high * 2^36 + low with 0 <= low < 2^36; low only decides ties.
    high = acc * (integer >> 36) + (second >> 18)
    low_is_zero = ((second & mask) | (first & mask)) == 0
    # k - 36 >= 0 because m <= 2^16. From 62 on, |acc * m| < 2^44 * 2^53 / 2^98 < 1/2, which rounds to 0, as with 62.
    k = np.clip(17 - e.astype(np.int64), 0, 62)
    # floor and remainder; the remainder is doubled to compare it with one without losing its last bit.
    y = high >> k
    twice_rest = (high - (y << k)) << 1
    one = np.int64(1) << k
    above = (twice_rest > one) | ((twice_rest == one) & (~low_is_zero | ((y & 1) == 1)))
    # Half to even is decided on the quotient, before the zero point is added: an odd zero point must not change ties.
    return np.asarray(y + above + zeros)


def pot(acc: AnyArray, m: IntArray, shift: IntArray, zeros: IntArray) -> IntArray:
    """acc / 2^shift, ties away from zero. The multiplier is 1."""
    del m
    left = np.maximum(-shift, 0)
    if acc.dtype.itemsize > 4:
        # What a left shift moves out of int64 is out of any storage range; int32 shifted by up to 31 fits.
        acc = np.clip(acc, -(INT64_MAX >> left), INT64_MAX >> left)
    return np.asarray(saturated(rounding_divide_by_pot(acc << left, np.maximum(shift, 0))) + zeros)
