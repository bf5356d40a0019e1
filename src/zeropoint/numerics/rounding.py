"""Rounding of floats, and the integer rounding primitives of fixed-point runtimes.

The integer functions are exact for every int64 in the documented range. They take integers of any dtype and return
int64. Their names and formulas are from:

- `shift_right_half_up`: TFLite's single rounding, TOSA SINGLE_ROUND, `PMULHRSW`.
- `rounding_divide_by_pot`, `saturating_rounding_doubling_high_mul`: gemmlowp, fixedpoint/fixedpoint.h.
- `tosa_apply_scale_32`, `tosa_apply_scale_16`: TOSA specification, section "Quantization scaling".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, IntArray

INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1


def round_half_even(x: AnyArray) -> AnyArray:
    """Round to the nearest integer, ties to even (IEEE 754 roundTiesToEven). Keeps the dtype."""
    return np.rint(x)


def round_half_away(x: AnyArray) -> AnyArray:
    """Round to the nearest integer, ties away from zero (C's `round`). Keeps the dtype."""
    whole = np.trunc(x)
    # x - trunc(x) is exact, because it has no more significant bits than x. x + 0.5 could round and so create false
    # ties.
    half = np.asarray(0.5, dtype=x.dtype)
    away = (np.abs(x - whole) >= half).astype(x.dtype)
    # copysign keeps the sign of zero: round(-0.4) is -0 in C.
    return whole + np.copysign(away, x)


def truncate(x: AnyArray) -> AnyArray:
    """Round towards zero (C's conversion to an integer). Keeps the dtype."""
    return np.trunc(x)


def shift_right_half_up(x: npt.ArrayLike, n: npt.ArrayLike) -> IntArray:
    """floor((x + 2^(n-1)) / 2^n): to nearest, ties towards positive infinity; x for n = 0. 0 <= n <= 63."""
    x, n = np.asarray(x, dtype=np.int64), np.asarray(n, dtype=np.int64)
    # Add the highest bit that is shifted out. x + 2^(n-1) might overflow; this cannot.
    return (x >> n) + ((x >> np.maximum(n - 1, 0)) & (n > 0))


def rounding_divide_by_pot(x: npt.ArrayLike, k: npt.ArrayLike) -> IntArray:
    """x / 2^k to nearest, ties away from zero (gemmlowp RoundingDivideByPOT, widened to int64). 0 <= k <= 62."""
    x, k = np.asarray(x, dtype=np.int64), np.asarray(k, dtype=np.int64)
    mask = (np.int64(1) << k) - 1
    # >> rounds towards negative infinity. A remainder of exactly half must round up for x >= 0 (remainder > mask >> 1).
    # For x < 0 it must round down, away from zero, so the threshold is one higher.
    threshold = (mask >> 1) + (x < 0)
    return (x >> k) + ((x & mask) > threshold)


def saturating_rounding_doubling_high_mul(a: npt.ArrayLike, b: npt.ArrayLike) -> IntArray:
    """2*a*b / 2^32 to nearest, for int32 values. INT32_MIN * INT32_MIN gives INT32_MAX (gemmlowp; SQRDMULH).

    gemmlowp writes (ab + (ab >= 0 ? 2^30 : 1 - 2^30)) / 2^31 with truncating division. For ab < 0, that is -floor((-ab
    + 2^30 - 1) / 2^31) = ceil((ab - 2^30 + 1) / 2^31) = floor((ab + 2^30) / 2^31). So ties round up for either sign,
    and one arithmetic shift suffices.
    """
    product = np.asarray(a, dtype=np.int64) * np.asarray(b, dtype=np.int64)
    # |ab| <= 2^62, so the rounding term fits. Only INT32_MIN * INT32_MIN reaches 2^31.
    return np.minimum((product + (1 << 30)) >> 31, INT32_MAX)


def multiply_by_quantized_multiplier(x: npt.ArrayLike, multiplier: npt.ArrayLike, exponent: npt.ArrayLike) -> IntArray:
    """x * (multiplier / 2^31) * 2^exponent, rounded twice (TFLite MultiplyByQuantizedMultiplier, double rounding).

    x * 2^max(exponent, 0) saturates to int32. In the runtime, overflow of this product is undefined, so results equal
    the runtime's only for |x| <= 2^31 - 1 >> exponent (`accumulator_limit`).
    """
    exponent = np.asarray(exponent, dtype=np.int64)
    inside = np.clip(np.asarray(x, dtype=np.int64), INT32_MIN, INT32_MAX)  # a shift by at most 30 bits stays in int64
    shifted = np.clip(inside << np.maximum(exponent, 0), INT32_MIN, INT32_MAX)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(shifted, multiplier), np.maximum(-exponent, 0))


def tosa_apply_scale_32(
    value: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike, *, double_round: bool
) -> IntArray:
    """value * multiplier / 2^shift, rounded like TOSA's apply_scale_32.

    The specification requires 0 <= multiplier < 2^31, 2 <= shift <= 62 and -2^(shift-1) <= value < 2^(shift-1).
    DOUBLE_ROUND imitates two roundings: if shift > 31, half of the 31st bit is added first, away from zero.
    """
    value, shift = np.asarray(value, dtype=np.int64), np.asarray(shift, dtype=np.int64)
    rounding = np.int64(1) << (shift - 1)
    if double_round:
        # The specification adds this term only for shifts above 31. With smaller ones, the first of the two imitated
        # roundings is exact.
        rounding = rounding + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    # |value * multiplier| <= 2^62 and the rounding term is at most 2^61 + 2^30, so the sum fits 64 bits.
    return (value * np.asarray(multiplier, dtype=np.int64) + rounding) >> shift


def tosa_apply_scale_16(value: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> IntArray:
    """value * multiplier / 2^shift, ties up, for 48-bit values and multipliers below 2^15 (TOSA's apply_scale_16)."""
    value, shift = np.asarray(value, dtype=np.int64), np.asarray(shift, dtype=np.int64)
    return (value * np.asarray(multiplier, dtype=np.int64) + (np.int64(1) << (shift - 1))) >> shift
