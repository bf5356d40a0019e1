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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zeropoint.correct.positive_systems import solve_in_place
from zeropoint.ir.tensors import Array

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)
FOLDS = 4
LEAST_MOMENT = 1e-12


def moments(rows: Array, others: Array | None = None) -> Array:
    """Mean products of the terms of rows with those of `others`, by default the rows themselves: (groups, terms,
    terms), f32."""
    return np.matmul(rows.swapaxes(1, 2), rows if others is None else others) / np.float32(rows.shape[1])


def mean_diagonal(matrix: Array) -> Array:
    """The mean of the diagonal of each group, (groups, 1, 1), f64."""
    mean = np.trace(matrix, axis1=1, axis2=2, dtype=np.float64) / matrix.shape[1]
    return np.maximum(mean, LEAST_MOMENT)[:, None, None]


def with_diagonal(matrix: Array, added: Array) -> Array:
    """A copy of matrices (groups, terms, terms) with a number per group added to the diagonal, in its dtype."""
    made = matrix.astype(added.dtype)
    terms = list(range(matrix.shape[1]))
    made[:, terms, terms] += added[:, :, 0]
    return made


def solved(weight: Array, own: Array, aim: Array, ridge: float) -> Array:
    """V for weights W (groups, outputs, terms), H and `aim`, W C, in the dtype of the weights.

    Raises LinAlgError if there is no solution.
    """
    if math.isinf(ridge):
        return weight
    added = (ridge * mean_diagonal(own)).astype(weight.dtype)
    right = aim + added * weight
    return solve_in_place(with_diagonal(own, added), np.ascontiguousarray(right.swapaxes(1, 2))).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean products of the terms of two kinds of rows less their means, (groups, terms, terms), f32.

    `means` are those of both, (groups, 1, terms), f64, and `count` is the number of rows. The moments of many rows are
    joined from those of parts, because all rows at once may be the largest arrays of a quantization.
    """

    products: Array
    means: tuple[Array, Array]
    count: int

    @staticmethod
    def of(rows: Array, others: Array | None = None) -> Moments:
        """Moments of rows with `others`, by default with themselves, (groups, rows, terms), f32.

        Subtracts the means of `rows` from them, and the same of the others.
        """
        means = [_centre(rows)]
        if others is not None:
            means.append(_centre(others))
        return Moments(moments(rows, others), (means[0], means[-1]), rows.shape[1])

    def around(self, means: tuple[Array, Array]) -> Array:
        """The mean products of the same rows less other means."""
        first, second = ((own - other).astype(np.float32) for own, other in zip(self.means, means, strict=True))
        products = first.swapaxes(1, 2) @ second
        products += self.products
        return products

    def joined(self, other: Moments) -> Moments:
        """The moments of the rows of both."""
        count = self.count + other.count
        share = other.count / count
        first, second = (mine + share * (its - mine) for mine, its in zip(self.means, other.means, strict=True))
        products, others = self.around((first, second)), other.around((first, second))
        others -= products
        others *= np.float32(share)
        products += others
        return Moments(products, (first, second), count)


def _centre(rows: Array) -> Array:
    """Subtract the mean of rows (groups, rows, terms), f32, in place. Returns it, (groups, 1, terms), f64."""
    mean = rows.mean(axis=1, keepdims=True, dtype=np.float64)
    rows -= mean.astype(np.float32)
    return mean


@dataclass(frozen=True, eq=False)
class Equations:
    """H and C of rows of the float and the quantized network."""

    own: Moments
    cross: Moments

    @staticmethod
    def of(exact: Array, quantized: Array) -> Equations:
        """The equations of rows (groups, rows, terms), f32. Subtracts their means."""
        own = Moments.of(quantized)
        cross = Moments.of(exact, quantized)  # of the centred ones, whose mean is nearly 0
        return Equations(own, replace(cross, means=(cross.means[0], own.means[0])))

    def joined(self, other: Equations) -> Equations:
        """The equations of the rows of both."""
        return Equations(self.own.joined(other.own), self.cross.joined(other.cross))

    def around(self, every: Equations) -> tuple[Array, Array]:
        """H and C of the same rows less the means of others."""
        return self.own.around(every.own.means), self.cross.around(every.cross.means)


def best_ridge(weight: Array, parts: Iterable[Equations], every: Equations) -> float:
    """The ridge in `RIDGES` that predicts parts of the samples best from the others; infinite for a single part.

    `parts` are read one after the other, and `every` is all of them joined. After the first part, only its best ridge
    and the two next to it are tried: solving the systems takes most of the time.
    """
    weight, costs, tried = weight.astype(np.float32), np.zeros(len(RIDGES)), slice(None)
    for part in parts:
        share = part.own.count / every.own.count
        if share == 1:
            return math.inf
        held = part.around(every)
        del part  # the moments are the largest arrays here
        found = np.full(len(RIDGES), np.inf)
        found[tried] = _costs(weight, *held, share, every, RIDGES[tried])
        costs = costs + np.where(np.isfinite(found), found, np.inf)
        if tried == slice(None):
            best = int(np.argmin(costs))
            tried = slice(max(0, best - 1), best + 2)
    return RIDGES[int(np.argmin(costs))]


def _costs(
    weight: Array, own: Array, cross: Array, share: float, every: Equations, ridges: Sequence[float]
) -> list[float]:
    """For each ridge, the error of V on a share of the rows, minus a constant. V is solved from the other rows.

    E |W x - V q|^2 = tr(V H V^T) - 2 tr(W C V^T) + a constant, with H and C of that share, `own` and `cross`, which are
    overwritten. This is less work than using the rows themselves.
    """
    wanted = weight @ cross
    others, aim = _others(every.own, own.copy(), share), weight @ _others(every.cross, cross, share)
    costs: list[float] = []
    for ridge in ridges:
        made = solved(weight, others, aim, ridge)
        costs.append(float(share * ((made @ own - 2 * wanted) * made).sum(dtype=np.float64)))
    return costs


def _others(every: Moments, held: Array, share: float) -> Array:
    """The products of the rows that are not in a share, from those of all rows and of the share, which they replace."""
    held *= np.float32(-share)
    held += every.products
    held /= np.float32(1 - share)
    return held
