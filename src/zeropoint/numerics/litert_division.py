"""Quotients of quantized values, in the arithmetic of LiteRT's DIV.

For A = a - z_a, B = b - z_b (both negated if B is negative) and m = s_a / (s_b * s_out) ~ M / 2^31 * 2^S:

    R = 2^31 / (B / 2^k), k = floor(log2(B)), by three Newton steps
    h = the number of bits by which A can be shifted left in 32 bits; 31 for A = 0
    q = clamp(z_out + rounding_divide_by_pot(((A << h) * R) * M, k + h - S))

Both products are `saturating_rounding_doubling_high_mul`. The runtime does not check the last shift. Outside of 0..31
bits it is undefined, and results are far off: quotients well below one step become the minimum or maximum. A = 0 needs
k <= S, so scales with this problem are common. `divides` finds them. For B = 0, the runtime stops with an error. Here A
/ 0 is the bound of the storage on the side of A's sign, and 0 / 0 is z_out.

Sources: TFLite's div.h (DivElementwise) and common.h (GetReciprocal), gemmlowp's fixedpoint.h.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.rounding import (
    INT32_MAX,
    INT32_MIN,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)

STORED = np.arange(-128, 128, dtype=np.int64)
BITS = 31
FIRST_GUESS = 1515870810
"""48 / 17 as a fixed-point number with 29 fractional bits."""
FIRST_SLOPE = -1010580540
"""-32 / 17 with 29 fractional bits."""
ONE = 1 << 29
NEWTON_STEPS = 3


def quotient_multiplier(first: AffineParameters, second: AffineParameters, wanted: AffineParameters) -> tuple[int, int]:
    """(M, S) of s_a / (s_b * s_out). The runtime computes this ratio in f32."""
    # LiteRT computes the ratio of scales in f32, and converts it to f64 only then.
    given, divisor, result = (np.float32(each.scale) for each in (first, second, wanted))
    with np.errstate(all="ignore"):
        real = np.float64(given / (divisor * result))
    if not np.isfinite(real):
        return 0, INT32_MAX
    mantissa, exponent = quantize_multiplier(real)
    return int(mantissa), int(exponent)


def divides(first: AffineParameters, second: AffineParameters, wanted: AffineParameters) -> bool:
    """Whether LiteRT's DIV computes the quotients of all stored integers, which is the case if every shift is in 0..31
    bits."""
    _, exponent = quotient_multiplier(first, second, wanted)
    return int(second.reach).bit_length() - 1 <= exponent <= BITS - int(first.reach).bit_length()


def quotient_table(first: AffineParameters, second: AffineParameters, wanted: AffineParameters) -> IntArray | None:
    """The 65,536 quotients of int8 values, at 256 (a + 128) + b + 128; None if LiteRT cannot divide them (`divides`).

    Scales are f32.
    """
    if not divides(first, second, wanted):
        return None
    mantissa, exponent = quotient_multiplier(first, second, wanted)
    dividend, divisor = np.meshgrid(STORED - int(first.zero_point), STORED - int(second.zero_point), indexing="ij")
    # LiteRT's reciprocal takes positive numbers only.
    dividend, divisor = np.where(divisor < 0, -dividend, dividend), np.abs(divisor)
    reciprocal, bits = _reciprocal(np.maximum(divisor, 1))
    # LiteRT's CountLeadingSignBits: one less than the number of leading bits equal to the sign.
    headroom = BITS - _bit_length(np.where(dividend < 0, ~dividend, dividend))
    quotient = saturating_rounding_doubling_high_mul(dividend << headroom, reciprocal)
    scaled = saturating_rounding_doubling_high_mul(quotient, mantissa)
    found = rounding_divide_by_pot(scaled, bits + headroom - exponent)
    found = np.where(divisor == 0, np.sign(dividend) << BITS, found) + int(wanted.zero_point)
    return np.clip(found, wanted.storage_min, wanted.storage_max).reshape(-1)


def _bit_length(values: IntArray) -> IntArray:
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _reciprocal(values: IntArray) -> tuple[IntArray, IntArray]:
    """(R, k) of integers >= 1: 1 / (v / 2^k) with 31 fractional bits, and k = floor(log2(v))."""
    bits = _bit_length(values) - 1
    fraction = (values << (BITS - bits)) - (1 << BITS)
    half = (fraction + INT32_MAX + 1) >> 1  # (1 + x) / 2, where 1 is 2^31 - 1 and the sum is rounded half up
    guess = FIRST_GUESS + saturating_rounding_doubling_high_mul(half, FIRST_SLOPE)
    for _ in range(NEWTON_STEPS):
        error = ONE - saturating_rounding_doubling_high_mul(half, guess)
        step = saturating_rounding_doubling_high_mul(guess, error)
        guess = guess + np.clip(step << 2, INT32_MIN, INT32_MAX)
    return np.clip(guess << 1, INT32_MIN, INT32_MAX), bits
