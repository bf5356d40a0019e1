"""Quotients and comparisons of quantized values in integers.

**Quotient.** For A = a - z_a, B = b - z_b and m = s_a / (s_b * s_out) ~ M / 2^N, where the signs of A and B are changed
if B is negative:

    q = clamp(z_out + floor(A M / (B 2^N) + 1/2))

This rounds the rational number A M / (B 2^N) to nearest, with ties towards positive infinity. For integers, floor(x /
(B n)) equals floor(floor(x / n) / B). So it is computed as

    T = (A M + B 2^(N-1)) >> N          q = clamp(z_out + floor(T / B))

A / 0 is the bound of the storage on the side of A's sign, and 0 / 0 is z_out. These are the quantized infinities and
NaN.

*No overflow*: |A|, |B| < 2^17, M < 2^31 and N <= 44 give |A M| < 2^48 and B 2^(N-1) < 2^60. *By a float division*: |T|
< 2^49, so T and B are f64 numbers. If T / B is not an integer n, it is at least 1/B away from one, and the error of the
f64 quotient is at most 2^-53 |T| / B < 2^-4 / B: rounding does not reach n, so its floor is floor(T / B).

**Comparison.** A s_a and B s_b have the order of A M_a and B M_b, integers of 63 bits with M_a / M_b = s_a / s_b.
Scales that f32 can represent are compared exactly. Others are first rounded to at least 24 significant bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.multiplier import fixed32_multiplier
from zeropoint.numerics.ranges import AffineParameters

LARGEST_SHIFT = 44
LARGEST_RATIO = 2.0**30
LARGEST_REACH = 1 << 17
"""Bound on |stored - zero_point| of an operand."""
FACTOR_BITS = 45
"""The number of bits of a comparison's factors, including the difference of exponents."""
LARGEST_DIFFERENCE = 21
"""Beyond this difference of exponents, the sign of the coarser operand alone decides."""


@dataclass(frozen=True)
class Division:
    """A quotient: M, N, the zero points of operands and result, and the bounds of the result."""

    multiplier: int
    shift: int
    zero_points: tuple[int, int]
    zero_point: int
    storage_min: int
    storage_max: int

    @staticmethod
    def of(inputs: Sequence[AffineParameters], output: AffineParameters) -> Division:
        """The quotient of two operands of up to 16 bits.

        Raises ValueError for more bits, or if all three have 16 bits and the ratio of scales s_a / (s_b s_out) is above
        2^30.
        """
        first, second = inputs
        ratio = float(first.scale.item()) / (float(second.scale.item()) * float(output.scale.item()))
        if second.reach * (output.storage_max - output.storage_min + 1) <= LARGEST_RATIO:
            # Beyond this ratio, every A other than 0 saturates, whatever B is.
            ratio = min(ratio, LARGEST_RATIO)
        if ratio > LARGEST_RATIO:
            raise ValueError(
                f"found quotients in steps of {ratio:.6g}; expected at most 2^30 (widen the result's scale)"
            )
        if max(first.reach, second.reach) >= LARGEST_REACH:
            raise ValueError(f"found operands up to {max(first.reach, second.reach)}; expected 8 or 16 bits")
        multiplier, shift = (int(number) for number in fixed32_multiplier(ratio))
        # A larger shift would overflow B 2^(N-1). The dropped bits are far below the result.
        dropped = max(shift - LARGEST_SHIFT, 0)
        return Division(
            (multiplier + (1 << dropped >> 1)) >> dropped,
            shift - dropped,
            (int(first.zero_point.item()), int(second.zero_point.item())),
            int(output.zero_point.item()),
            output.storage_min,
            output.storage_max,
        )

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map storage integers of both operands to int64 storage integers. Shapes broadcast."""
        a, b = (np.asarray(q).astype(np.int64) - z for q, z in zip(operands, self.zero_points, strict=True))
        positive = np.abs(b)
        # floor(T / B) rounds towards negative infinity only if the divisor is positive.
        signed = np.where(b < 0, -a, a)
        t = (signed * self.multiplier + (positive << self.shift >> 1)) >> self.shift
        # A / 0 saturates at the bound on the side of A's sign, and 0 / 0 is 0, the zero point.
        quotient = np.where(b == 0, np.sign(a) << 40, t // np.maximum(positive, 1))
        return np.clip(quotient + self.zero_point, self.storage_min, self.storage_max)


def comparison_factors(first: float, second: float) -> tuple[int, int]:
    """(M_a, M_b) for the scales s_a and s_b, without common factors, below 2^46."""
    (p, e), (q, f) = math.frexp(first), math.frexp(second)
    # Beyond 2^21, one step of the coarser scale exceeds all 17 bits of the other operand.
    difference = max(-LARGEST_DIFFERENCE, min(LARGEST_DIFFERENCE, e - f))
    bits = FACTOR_BITS - abs(difference)
    a = round(math.ldexp(p, bits)) << max(difference, 0)
    b = round(math.ldexp(q, bits)) << max(-difference, 0)
    # Small factors keep the comparison in 32 bits where scales have a simple ratio.
    common = math.gcd(a, b)
    return a // common, b // common


def compared_terms(inputs: Sequence[AffineParameters], *operands: IntArray) -> list[IntArray]:
    """(q - z) * M of both operands as int64. They have the order of the real values."""
    factors = comparison_factors(*(float(each.scale.item()) for each in inputs))
    return [
        (np.asarray(q).astype(np.int64) - each.zero_point) * factor
        for q, each, factor in zip(operands, inputs, factors, strict=True)
    ]
