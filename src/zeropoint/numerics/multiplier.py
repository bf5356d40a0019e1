"""Real multipliers as integers: a mantissa and a shift.

m is a finite f64 >= 0, or one per channel. Results are int64 arrays of its shape. Sources: TFLite quantization_util
(QuantizeMultiplier); "lowering of quantized conv and matmul" (M0, N).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX, round_half_away


def checked(m: npt.ArrayLike) -> FloatArray:
    """`m` as f64. Raises ValueError if an element is negative, infinite or NaN."""
    real = np.asarray(m, dtype=np.float64)
    wrong = ~(np.isfinite(real) & (real >= 0))
    if wrong.any():
        found = real[wrong].flat[0]
        raise ValueError(f"found the real multiplier {found}; expected a finite number >= 0 (check the scales)")
    return real


def quantize_multiplier(m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(M, e) with m ~ M / 2^31 * 2^e and 2^30 <= M < 2^31. This is gemmlowp's form: a positive e shifts left.

    m below 2^-32 becomes (0, 0), as in TFLite, because e < -31 would shift out all bits of an int32.
    """
    mantissa, exponent = _mantissa(checked(m), 31)
    # The order of TFLite: the mantissa is rounded before this test. Rounding may raise the exponent to -31 and so keep
    # m.
    vanishes = exponent < -31
    return np.where(vanishes, 0, mantissa), np.where(vanishes, 0, exponent)


def fixed32_multiplier(m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(M0, N) with m ~ M0 / 2^N, 2^30 <= M0 < 2^31 and 0 <= N <= 62, for the form (acc * M0 + 2^(N-1)) >> N.

    m >= 1 has N <= 30. Extreme values are replaced:
    - m >= 2^31 becomes (2^31 - 1, 0). A non-zero accumulator then gives at least 2^31 - 1 in magnitude, as the exact
      product does. With the zero point inside a storage range of at most 31 bits, both clamp to the same end.
    - m < 2^-32 becomes (0, 31). An int32 accumulator has |acc * m| <= 2^31 * m < 1/2, which rounds to 0.
    """
    mantissa, exponent = quantize_multiplier(m)
    huge = exponent > 31
    return np.where(huge, INT32_MAX, mantissa), np.where(huge, 0, 31 - exponent)


def fixed16_multiplier(m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(M, s) with 64 * m ~ M / 2^15 / 2^s and 2^14 <= M < 2^15. The form holds for -6 <= s <= 31.

    s is not clamped. s < -6 (m >= 1 after rounding) requires `fixed32`. For s > 31 all results are 0 (see
    `requantize`). m = 0 gives (0, 31).
    """
    real = checked(m)
    mantissa, exponent = _mantissa(real, 15)
    # frexp(0) has exponent 0, so s would be -6, which would shift every accumulator left by six bits for nothing.
    return mantissa, np.where(real == 0, 31, -(exponent + 6))


def wide_multiplier(m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(M', t) with m ~ M' / 2^t and M' < 2^15, for 64-bit accumulators: TFLite's 16x8 form, computed from (M, e).

    M' = (M + 2^15) >> 16, or 0x7FFF from M = 0x7FFF0000 on, and t = 15 - e. m >= 2^17 becomes (0x7FFF, -2): a non-zero
    accumulator then gives at least 2^16 in magnitude. This is outside of any 16-bit storage range, as is the exact
    product.
    """
    mantissa, exponent = quantize_multiplier(m)
    # From 0x7FFF8000 on, rounding would give 2^15, which does not fit the kernels' int16. LiteRT already caps a little
    # earlier.
    reduced = np.where(mantissa < 0x7FFF0000, (mantissa + (1 << 15)) >> 16, 0x7FFF)
    huge = exponent > 17
    return np.where(huge, 0x7FFF, reduced), np.where(huge, -2, 15 - exponent)


def tosa_multiplier(m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(multiplier, shift) with m ~ multiplier / 2^shift and 2 <= shift <= 62, as TOSA's apply_scale_32 requires.

    For m < 2^-32, the multiplier loses low bits to keep the shift at 62, as in upstream MLIR's
    computeMultiplierAndShift. m >= 2^29 becomes (2^31 - 1, 2): a non-zero value then gives at least 2^29 - 1, outside
    of any storage of 28 bits.
    """
    mantissa, exponent = _mantissa(checked(m), 31)
    shift = 31 - exponent
    # Truncated, not rounded, because upstream MLIR shifts, and a TOSA file must have the same number.
    mantissa = mantissa >> np.clip(shift - 62, 0, 31)
    huge = shift < 2
    return np.where(huge, INT32_MAX, mantissa), np.clip(shift, 2, 62)


def tosa_reciprocal(count: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(multiplier, shift) with 1 / count ~ multiplier / 2^shift, for counts of at least 1: TOSA's reciprocal_scale.

    With k = ceil(log2(count)): multiplier = ((2^30 + 1) << k) // count, which is below 2^31, and shift = 30 + k.
    """
    counts = np.asarray(count, dtype=np.int64)
    if (counts < 1).any():
        raise ValueError(f"found a count of {counts.min()}; expected at least 1")
    bits = np.ceil(np.log2(counts)).astype(np.int64)
    return (((1 << 30) + 1) << bits) // counts, 30 + bits


def pot_shift(m: npt.ArrayLike) -> IntArray:
    """n with m = 2^-n, clamped to -31..62. Raises ValueError if m is not a power of two.

    The clamp does not change the results for an int32 accumulator: beyond it, they are 0 or saturate 31-bit storage.
    """
    real = checked(m)
    mantissa, exponent = np.frexp(real)
    # For powers of two, frexp gives a fraction of exactly 1/2. For 0 it gives 0, which is refused like other numbers.
    wrong = mantissa != 0.5
    if wrong.any():
        raise ValueError(f"found the real multiplier {real[wrong].flat[0]}; expected a power of two for 'pot'")
    return np.clip(1 - exponent.astype(np.int64), -31, 62)


def _mantissa(m: FloatArray, bits: int) -> tuple[IntArray, IntArray]:
    """(round(q * 2^bits), e) of m = q * 2^e with 1/2 <= q < 1. A mantissa that rounds to 2^bits is halved, with
    exponent e + 1."""
    q, e = np.frexp(m)
    # C's `round`, as in TFLite's QuantizeMultiplier. `np.rint` differs at ties, which would change results.
    mantissa = round_half_away(np.ldexp(q, bits)).astype(np.int64)
    # q just below 1 rounds up to 2^bits, which has one bit too many. 2^(bits-1) with the next exponent is the same
    # number.
    carried = mantissa == 1 << bits
    return np.where(carried, mantissa >> 1, mantissa), e.astype(np.int64) + carried
