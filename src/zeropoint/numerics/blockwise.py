"""Sums of products with weights that have a scale per block of a column, in integers.

Column n of the weights has blocks of B rows, with scales s[b, n]. With g[n] = max_b s[b, n] and F[b, n] = round(s[b, n]
/ g[n] * 2^15), which is at most 2^15,

    acc[m, n] = (sum_b F[b, n] * (sum of the products of block b) + 2^14) >> 15

is the sum at scale s_x g[n], rounded once, with ties up. The inner sums fit 32 bits, like those of any contraction. The
outer sum has 64 bits. The relative error of a factor is at most 2^-16 g[n] / s[b, n].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import FloatArray, IntArray

FRACTION = 15


@dataclass(frozen=True, eq=False)
class Columns:
    """The scale g of each column, [n] or [1]. If there are several blocks, also their rows B and factors F, [b, n]."""

    scales: FloatArray
    rows: int = 0
    factors: IntArray | None = None

    @staticmethod
    def of(scales: FloatArray, rows: int) -> Columns:
        """From the scale of every weight, [k, n] (or [1, 1], [1, n]), in blocks of `rows` rows."""
        every = np.asarray(scales, np.float64)
        if every.shape[0] == 1:
            return Columns(every[0])
        blocks = every[::rows]
        greatest = blocks.max(axis=0)
        return Columns(greatest, rows, np.rint(blocks / greatest * 2.0**FRACTION).astype(np.int64))

    def sums(self, x: IntArray, weights: IntArray) -> IntArray:
        """The sums of products of [m, k] and [k, n], as i64. Zero points have been subtracted from both."""
        if self.factors is None:
            return x @ weights
        total = np.zeros((x.shape[0], weights.shape[1]), np.int64)
        for block, factors in enumerate(self.factors):
            part = slice(block * self.rows, (block + 1) * self.rows)
            total += (x[:, part] @ weights[part]) * factors
        return (total + (1 << FRACTION >> 1)) >> FRACTION
