"""Softmax in integers: the exponentials of a row by a cubic of 2^-f, normalized by one division.

For scores t of scale s (real value s * t), and a row of n elements:

    d = min(max(t) - t, D)                      D: beyond it an exponential is 0
    u = (d * M) >> S                            s * log2(e) * d, 15 fraction bits
    f = u & (2^15 - 1)
    y = (((((C3 f) >> 15) + C2) f >> 15) + C1) f >> (30 - E), plus 2^E
    e = y >> (u >> 15)                          exp(-s d), E fraction bits; exactly 2^E for d = 0
    T = (sum(e) + 2^(G-1)) >> G
    R = (2^(B+K) + (T >> 1)) / T                one division per row, rounded down
    p = min(((e >> G) * R + 2^(K-1)) >> K, 2^B - 1)

p is the softmax with B fraction bits: 8 for 8-bit results (scale 1/256), and 11 or 15 for 16-bit ones (scale 1/2048 or
1/32768).

**No overflow.** Elements are i32, except in the last line for B = 15, which is i64. Sums, T and R are i32 for B < 15
and at most 512 elements per row, otherwise i64 (`wide_sums`):

- |t| < 2^30, so max(t) - t < 2^31; D M < 2^31 by the choice of S.
- f < 2^15 and |C1|, |C2|, |C3| < 2^15; the sums in brackets stay below 2^15 in magnitude, so products are below 2^30.
- 0 < y <= 2^E, E <= 30. u >> 15 may exceed 31. Such a shift gives 0.
- sum(e) <= n 2^E: 2^30 for i32 sums (E = 21), 2^46 for i64 sums (E = 30).
- T >= 2^(E-G), because the largest element contributes 2^E. So R <= 2^(B+K-E+G) and (e >> G) R <= 2^(B+K). B + K is 30
  for B = 8 (E - G = 15, K = 22) and B = 11 (E - G = 16, K = 19), and 45 for B = 15 (E - G = 22, K = 30).

**Error.** The relative error of the cubic is below 1.6e-4, that of a rounded u 2^-15 ln 2, and an exponential loses
less than 2^-E. So a probability differs from the softmax of the same scores by at most half a step of rounding, plus
`Softmax.error` steps. (The largest stored number stands for 1.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import IntArray

FRACTION = 15
"""The fraction bits of the logarithm u."""
COEFFICIENTS = (-22657, 7555, -1282)
"""C1, C2, C3 with 15 fraction bits: the cubic for 2^-f - 1 on [0, 1] with the least relative error and exact ends."""
CUBIC_ERROR = 1.6e-4
"""Bound on the relative error of the cubic in integers. `tests/numerics/test_softmax.py` tests every f."""
NARROW_TERMS = 512
"""The longest row whose exponentials are summed in i32, with 21 fraction bits."""
MOST_TERMS = 1 << 16
"""The longest supported row."""
KEPT = {8: (15, 22), 11: (16, 19), 15: (22, 30)}
"""E - G and K by the number of fraction bits B of the results."""
LEAST_MULTIPLIER = 64
"""The smallest M for which the error of its rounding is stated."""
GREATEST_SCORE = (1 << 30) - 1
"""Scores are between the negative and the positive of this number."""


@dataclass(frozen=True)
class Softmax:
    """The constants of a softmax: the scale of the scores, the number of elements of a row, and D, M, S, E, B, G
    and K."""

    scale: float
    terms: int
    reach: int
    multiplier: int
    shift: int
    exponent_bits: int
    bits: int
    dropped: int
    result_shift: int

    @staticmethod
    def of(scale: float, terms: int, bits: int) -> Softmax:
        """The constants for rows of `terms` scores of a scale, and for results of 8, 11 or 15 fraction bits.

        Raises ValueError for rows of more than 65,536 elements, for other numbers of bits, or for a scale that is not
        positive.
        """
        if not 1 <= terms <= MOST_TERMS:
            raise ValueError(f"found rows of {terms} elements, expected 1 to {MOST_TERMS}")
        if bits not in KEPT or not 0 < scale < math.inf:
            known = ", ".join(map(str, KEPT))
            raise ValueError(
                f"found scale {scale} and {bits} fraction bits, expected a scale above 0 and one of {known}"
            )
        kept, result_shift = KEPT[bits]
        # 512 * 2^21 = 2^30 just fits i32. Results of 15 bits need 22 bits of each exponential, so their sums never fit.
        narrow = bits < 15 and terms <= NARROW_TERMS
        exponent = 21 if narrow else 30
        # Beyond E + 1 binary digits per step, any score other than the largest gives 0 anyway. The cap bounds M.
        step = min(scale * math.log2(math.e), exponent + 1.0)
        reach = min(math.ceil((exponent + 1) / step), 2 * GREATEST_SCORE)
        # The largest S with D M < 2^31, because more fraction bits of M represent the scale better.
        shift = 30 - FRACTION - math.ceil(math.log2(reach * step))
        return Softmax(
            scale=scale,
            terms=terms,
            reach=reach,
            multiplier=round(step * 2.0 ** (FRACTION + shift)),
            shift=shift,
            exponent_bits=exponent,
            bits=bits,
            dropped=exponent - kept,
            result_shift=result_shift,
        )

    @property
    def wide_sums(self) -> bool:
        """Whether sums of exponentials need i64."""
        return self.terms << self.exponent_bits > 1 << 30

    @property
    def wide_products(self) -> bool:
        """Whether the products of exponentials and the reciprocal need i64."""
        return self.bits + self.result_shift > 30

    @property
    def error(self) -> float:
        """The maximum error of a probability in steps of the result, besides half a step of rounding.

        A probability p changes by p (1 - p) <= 1/4 times a difference of relative errors, by p^2 times the loss of the
        sum, and by the final losses of e and R. A rounded M changes an exponential x by a share of |ln x| / (2 M). So
        it changes p by (|p ln p| + p H) / (2 M), where H, the rest of the entropy, is at most (1 - p) (ln n - ln(1 -
        p)). A fifth is added for nonlinear terms, because |ln x| <= 22 and M >= `LEAST_MULTIPLIER`. For a smaller M, no
        bound is stated. Such an M belongs to a scale below 1e-6, which only i32 masks need.
        """
        if self.multiplier < LEAST_MULTIPLIER:
            return 2.0**self.bits
        rounded = (0.45 + 0.15 * math.log(self.terms)) / self.multiplier
        relative = 2 * (CUBIC_ERROR + math.log(2) * 2.0**-FRACTION) / 4 + rounded
        lost = self.terms * 2.0**-self.exponent_bits + 2.0 ** (self.dropped - self.exponent_bits + 1)
        return 2.0**self.bits * (relative + lost) + 2.0 ** (self.exponent_bits - self.dropped - self.result_shift - 1)

    def exponentials(self, scores: IntArray, axis: int = -1) -> IntArray:
        """exp(scale * (scores - maximum)) along an axis, with `exponent_bits` fraction bits."""
        c1, c2, c3 = COEFFICIENTS
        # Differences from the largest score are at least 0, so no exponential exceeds 1. D keeps d M in 31 bits.
        distance = np.minimum(scores.max(axis=axis, keepdims=True) - scores, self.reach)
        u = (distance * self.multiplier) >> self.shift
        f = u & ((1 << FRACTION) - 1)
        # Horner's rule in this order is the definition. Every shift rounds down, so another order gives other last
        # bits.
        y = (((((c3 * f) >> 15) + c2) * f) >> 15) + c1
        y = ((y * f) >> (30 - self.exponent_bits)) + (1 << self.exponent_bits)
        # The integer part of the logarithm is a shift of at most 2 E + 2 = 62. NumPy defines shifts by up to 63.
        return y >> (u >> FRACTION)

    def apply(self, scores: IntArray, axis: int = -1) -> IntArray:
        """The probabilities along an axis, with `bits` fraction bits. `scores` are i64, up to `GREATEST_SCORE`."""
        e = self.exponentials(scores, axis)
        total = (e.sum(axis=axis, keepdims=True) + (1 << self.dropped >> 1)) >> self.dropped
        # One division per row and one product per element, because vector units have no integer division.
        reciprocal = ((1 << (self.bits + self.result_shift)) + (total >> 1)) // total
        p = ((e >> self.dropped) * reciprocal + (1 << self.result_shift >> 1)) >> self.result_shift
        # A single dominant score gives exactly 1 = 2^B, which is one more than the storage can hold.
        return np.minimum(p, (1 << self.bits) - 1)
