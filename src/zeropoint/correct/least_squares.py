"""Least squares from quantized to float rows, with the ridge that generalizes best to other samples.

For rows x of the float network and q of the quantized one, with their means subtracted,

    V = argmin E |W x - V q|^2 + r |W - V|^2 = W (C + r I) (H + r I)^-1,   H = E q q^T,  C = E x q^T

r is relative to the mean diagonal of H. Too small a ridge overfits: with 0.05 for all kernels, EfficientNet-Lite0 had
37 dB on the calibration data and 20 dB on other data. Kernels differ. The first ones have thousands of independent rows
for a few terms, and can use a ridge of 1. The last ones have more terms than independent rows. So each kernel gets its
own ridge by cross-validation. The samples are split into `FOLDS` parts of neighbours. V is solved without one of them,
and its error there, E |W x - V q|^2, is measured. The ridge with the smallest error over all parts is used; an infinite
ridge keeps W. Neighbours stay together because they are often alike (frames of a film, crops of one picture), and would
predict each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zeropoint.ir.tensors import Array

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)
FOLDS = 4
EVERY = slice(None)
LEAST_MOMENT = 1e-12


def moments(rows: Array, others: Array | None = None) -> Array:
    """Mean products of the terms of rows with those of `others`, by default the rows themselves: (groups, terms,
    terms), f32."""
    return np.matmul(rows.swapaxes(1, 2), rows if others is None else others) / np.float32(rows.shape[1])


def mean_diagonal(matrix: Array) -> Array:
    """The mean of the diagonal of each group, (groups, 1, 1)."""
    mean = np.trace(matrix, axis1=1, axis2=2) / matrix.shape[1]
    return np.maximum(mean, LEAST_MOMENT)[:, None, None].astype(matrix.dtype)


def with_diagonal(matrix: Array, added: Array) -> Array:
    """A copy of matrices (groups, terms, terms) with a number per group added to the diagonal."""
    made = matrix.copy()
    terms = list(range(matrix.shape[1]))
    made[:, terms, terms] += added[:, :, 0]
    return made


def solved(weight: Array, own: Array, cross: Array, ridge: float) -> Array:
    """V for weights (groups, outputs, terms) and the moments H and C, in their dtype. Raises LinAlgError."""
    if math.isinf(ridge):
        return weight
    added = ridge * mean_diagonal(own)
    right = weight @ cross + added * weight
    return np.linalg.solve(with_diagonal(own, added), right.swapaxes(1, 2)).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class EquationRows:
    """Rows of the float and the quantized network, (groups, rows, terms), f32, and the number of rows per sample."""

    exact: Array
    quantized: Array
    counts: Sequence[int]

    def moments(self, part: slice = EVERY) -> tuple[Array, Array]:
        """H and C of some rows, f32."""
        return moments(self.quantized[:, part]), moments(self.exact[:, part], self.quantized[:, part])

    def folds(self) -> list[slice]:
        """Parts with about the same number of samples, with neighbours together."""
        ends, samples = np.cumsum([0, *self.counts]), len(self.counts)
        parts = min(FOLDS, samples)
        return [
            slice(first, last) for first, last in pairwise(int(ends[samples * n // parts]) for n in range(parts + 1))
        ]


def best_ridge(weight: Array, rows: EquationRows, own: Array, cross: Array) -> float:
    """The ridge in `RIDGES` that predicts parts of the samples best from the others; infinite for a single sample.

    `own` and `cross` are H and C of all rows.
    """
    folds = rows.folds()
    if len(folds) < 2:
        return math.inf
    weight = weight.astype(np.float32)
    costs = np.sum([_costs(weight, rows, part, own, cross) for part in folds], axis=0)
    return RIDGES[int(np.argmin(np.where(np.isfinite(costs), costs, np.inf)))]


def _costs(weight: Array, rows: EquationRows, part: slice, own: Array, cross: Array) -> Array:
    """For each ridge, the error of V on one part of the rows, minus a constant. V is solved from the other rows.

    E |W x - V q|^2 = tr(V H V^T) - 2 tr(W C V^T) + a constant, with H and C of the part. This is less work than using
    the rows themselves.
    """
    share = np.float32((part.stop - part.start) / rows.quantized.shape[1])
    held = rows.moments(part)
    others, crosses = ((total - share * one) / (1 - share) for total, one in zip((own, cross), held, strict=True))
    wanted = 2 * (weight @ held[1])
    costs: list[float] = []
    for ridge in RIDGES:
        made = solved(weight, others, crosses, ridge)
        costs.append(float(share * ((made @ held[0] - wanted) * made).sum(dtype=np.float64)))
    return np.array(costs)
