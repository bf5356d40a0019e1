"""The formulas again, on unbounded integers and fractions: what the vectorised functions are held to."""

from __future__ import annotations

from fractions import Fraction
from math import floor

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def half_even(x: Fraction) -> int:
    return round(x)


def half_away(x: Fraction) -> int:
    return floor(x + Fraction(1, 2)) if x >= 0 else -floor(-x + Fraction(1, 2))


def half_up(x: Fraction) -> int:
    return floor(x + Fraction(1, 2))


def truncate(x: Fraction) -> int:
    return int(x)


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def srdhm(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, as written there."""
    if a == b == INT32_MIN:
        return INT32_MAX
    product = a * b
    nudge = 2**30 if product >= 0 else 1 - 2**30
    return int(Fraction(product + nudge, 2**31))


def rounding_divide_by_pot(x: int, k: int) -> int:
    """gemmlowp's RoundingDivideByPOT, as written there."""
    mask = 2**k - 1
    remainder = x & mask
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> k) + (1 if remainder > threshold else 0)


def multiply_by_quantized_multiplier(x: int, multiplier: int, exponent: int) -> int:
    """TFLite's MultiplyByQuantizedMultiplier; where its shift overflows, which is undefined there, it saturates."""
    shifted = clamp(x << max(exponent, 0), INT32_MIN, INT32_MAX)
    return rounding_divide_by_pot(srdhm(shifted, multiplier), max(-exponent, 0))


def tosa_apply_scale_32(value: int, multiplier: int, shift: int, double_round: bool) -> int:
    rounding = 1 << (shift - 1)
    if double_round and shift > 31:
        rounding += 1 << 30 if value >= 0 else -(1 << 30)
    result = value * multiplier + rounding
    assert -(2**63) <= result < 2**63
    return result >> shift


def fixed16(acc: int, m: int, s: int, zero_point: int) -> int:
    """The unclamped storage value: every step as the machine instructions have it."""
    shifted = (acc + 2 ** (s - 1)) >> s if s > 0 else acc << -s
    a = clamp(shifted, -(2**15), 2**15 - 1)
    p = (a * m + 2**14) >> 15
    return clamp(p + 64 * zero_point + 32, -(2**15), 2**15 - 1) >> 6
