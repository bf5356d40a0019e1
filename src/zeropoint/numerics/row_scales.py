"""Products of rows that are rounded to 8 bits first, each row by its own range, in integers.

For activations x of zero point z and weights w of 8 bits, sum (x - z) w is computed from rows v = x - z, with L = 2^7
levels on each side of the middle of a row:

    m = (min v + max v) >> 1, u = v - m, A = max(max v - m, 1)
    q = min((u R + 2^21) >> 22, L - 1)              R = floor(2^22 L / A), one division a row; q fits i8
    s = sum q w                                     i32
    t = (((s + 2^(N-1) >> N) A + 2^(6-N)) >> (7 - N)) + m sum w

t has the scale of the exact sum: v is about m + q A / L. |u R| is at most 2^22 L, because |u| is at most A: m is
rounded down. N is the least number of bits that have to be dropped, so that the product by A fits i32, and at most 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX

FRACTION = 22
"""The fraction bits of u R."""
LEVELS = 7
"""L = 2^7."""
FACTOR = 1 << (FRACTION + LEVELS)
"""2^22 L, which is divided by A."""


@dataclass(frozen=True)
class RowScales:
    """The form of a product: the zero point, the greatest A, and N."""

    zero_point: int
    reach: int
    dropped: int

    @staticmethod
    def of(minimum: int, maximum: int, zero_point: int, channels: AnyArray) -> RowScales:
        """For activations in minimum..maximum, and weights without zero points, of shape (channels, terms).

        Raises ValueError if i32 cannot hold the sums.
        """
        reach, furthest = max((maximum - minimum + 1) // 2, 1), max(maximum - zero_point, zero_point - minimum)
        weights = int(np.abs(channels.astype(np.int64)).sum(axis=1).max(initial=0))
        for dropped in range(LEVELS):
            kept = (weights << LEVELS) + (1 << dropped >> 1)
            product = (kept >> dropped) * reach + (1 << (LEVELS - dropped) >> 1)
            if max(kept, product, (product >> (LEVELS - dropped)) + furthest * weights) <= INT32_MAX:
                return RowScales(zero_point, reach, dropped)
        raise ValueError(f"found sums of up to {(reach + furthest) * weights}, expected at most {INT32_MAX}")

    def rounded(self, x: IntArray, axes: tuple[int, ...]) -> tuple[IntArray, IntArray, IntArray]:
        """q of stored integers, and m and A of rows along `axes`, which they keep with one element."""
        v = x.astype(np.int64) - self.zero_point
        high = v.max(axis=axes, keepdims=True)
        middle = (v.min(axis=axes, keepdims=True) + high) >> 1
        greatest = np.maximum(high - middle, 1)
        rounded = ((v - middle) * (FACTOR // greatest) + (1 << FRACTION >> 1)) >> FRACTION
        return np.minimum(rounded, (1 << LEVELS) - 1), middle, greatest

    def sums(self, sums: IntArray, middle: IntArray, greatest: IntArray, weights: IntArray) -> IntArray:
        """t of sums of q w, of m and A (in a shape that is broadcast to theirs), and of each channel's sum of w."""
        product = _rounded(sums, self.dropped) * greatest
        return _rounded(product, LEVELS - self.dropped) + middle * weights


def _rounded(value: IntArray, bits: int) -> IntArray:
    return (value + (1 << bits >> 1)) >> bits
