"""Least squares from quantized to float rows, with the ridge that generalizes best to other samples.

For results y = W x of the float network and rows q of the quantized one, with their means subtracted,

    V = argmin E |y - V q|^2 + r |W - V|^2 = (A + r W) (H + r I)^-1,   H = E q q^T,  A = E y q^T

r is relative to the mean diagonal of H. Too small a ridge overfits: with 0.05 for all kernels, EfficientNet-Lite0 had
37 dB on the calibration data and 20 dB on other data. Kernels differ. The first ones have thousands of independent rows
for a few terms, and can use a ridge of 1. The last ones have more terms than independent rows. So each kernel gets its
own ridge by cross-validation. The samples are split into `FOLDS` parts of neighbours. V is solved without one of them,
and its error there, E |y - V q|^2, is measured. The ridge with the smallest error over all parts is used; an infinite
ridge keeps W. Neighbours stay together because they are often alike (frames of a film, crops of one picture), and would
predict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from zeropoint.correct.positive_systems import UpperMatrix, solve_in_place
from zeropoint.ir.tensors import Array

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)
FOLDS = 4
LEAST_MOMENT = 1e-12
BLOCK = 256
"""The columns of moments that are changed at a time."""


def moments(rows: Array, others: Array | None = None) -> Array:
    """Mean products of the columns of rows with those of `others`, by default the rows themselves: (groups, columns,
    columns of the others), f32."""
    made = np.matmul(rows.swapaxes(1, 2), rows if others is None else others)
    made /= np.float32(rows.shape[1])
    return made


def mean_diagonal(matrix: Array) -> Array:
    """The mean of the diagonal of each group, (groups, 1, 1), f64."""
    return _mean(np.diagonal(matrix, axis1=1, axis2=2))


def _mean(diagonal: Array) -> Array:
    """The mean of a diagonal (groups, terms), at least `LEAST_MOMENT`, (groups, 1, 1), f64."""
    mean = diagonal.sum(axis=1, dtype=np.float64) / diagonal.shape[1]
    return np.maximum(mean, LEAST_MOMENT)[:, None, None]


def solved(weight: Array, own: Array, aim: Array, ridge: float) -> Array:
    """V for weights W (groups, outputs, terms), H and `aim`, A, in the dtype of the weights. None is changed.

    Raises LinAlgError if there is no solution.
    """
    return _solved(weight, lambda rows, columns: own[:, rows, columns].astype(weight.dtype), aim, ridge)


def _solved(weight: Array, own: Callable[[slice, slice], Array], aim: Array, ridge: float) -> Array:
    """`solved` for H whose rows and columns `own` makes, in the dtype of the weights."""
    if math.isinf(ridge):
        return weight
    matrix = UpperMatrix.of(weight.shape[2], own)
    added = (ridge * _mean(matrix.diagonal())).astype(weight.dtype)
    matrix.add_to_diagonal(added[:, :, 0])
    right = aim + added * weight
    return solve_in_place(matrix, np.ascontiguousarray(right.swapaxes(1, 2))).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean products of the columns of two kinds of rows less their means, (groups, columns, columns), f32.

    `means` are those of both, (groups, 1, columns), f64, and `count` is the number of rows. The moments of many rows
    are joined from those of parts, because all rows at once may be the largest arrays of a quantization.
    """

    products: Array
    means: tuple[Array, Array]
    count: int

    @staticmethod
    def of(rows: Array, others: Array | None = None) -> Moments:
        """Moments of rows with `others`, by default with themselves, (groups, rows, columns), f32.

        Subtracts the means of `rows` from them, and the same of the others.
        """
        means = [_centre(rows)]
        if others is not None:
            means.append(_centre(others))
        return Moments(moments(rows, others), (means[0], means[-1]), rows.shape[1])

    def around(self, means: tuple[Array, Array]) -> Array:
        """The mean products of the same rows less other means, in the memory of the products."""
        for columns in _blocks(self.products.shape[1]):
            self._move(means, columns)
        return self.products

    def joined(self, other: Moments) -> Moments:
        """The moments of the rows of both, in the memory of these. Overwrites the products of both."""
        count = self.count + other.count
        share = other.count / count
        first, second = (mine + share * (its - mine) for mine, its in zip(self.means, other.means, strict=True))
        for columns in _blocks(self.products.shape[1]):
            mine, its = (each._move((first, second), columns) for each in (self, other))
            its -= mine
            its *= np.float32(share)
            mine += its
        return Moments(self.products, (first, second), count)

    def _move(self, means: tuple[Array, Array], columns: slice) -> Array:
        """Subtract other means than `means` were: the products of some columns of the first rows, in place."""
        first, second = ((own - other).astype(np.float32) for own, other in zip(self.means, means, strict=True))
        products = self.products[:, columns]
        products += first[:, 0, columns, None] * second
        return products


def _blocks(count: int) -> Iterator[slice]:
    """The numbers 0 to `count` in blocks."""
    return (slice(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK))


def _centre(rows: Array) -> Array:
    """Subtract the mean of rows (groups, rows, columns), f32, in place. Returns it, (groups, 1, columns), f64."""
    mean = rows.mean(axis=1, keepdims=True, dtype=np.float64)
    rows -= mean.astype(np.float32)
    return mean


@dataclass(frozen=True, eq=False)
class Equations:
    """H and A of rows of the quantized network and of results of the float network."""

    own: Moments
    aim: Moments

    @staticmethod
    def of(results: Array, quantized: Array) -> Equations:
        """The equations of results (groups, rows, outputs) and rows (groups, rows, terms), f32.

        Subtracts their means.
        """
        own = Moments.of(quantized)
        aim = Moments.of(results, quantized)  # of the centred ones, whose mean is nearly 0
        return Equations(own, replace(aim, means=(aim.means[0], own.means[0])))

    def joined(self, other: Equations) -> Equations:
        """The equations of the rows of both. Overwrites both."""
        return Equations(self.own.joined(other.own), self.aim.joined(other.aim))

    def around(self, every: Equations) -> tuple[Array, Array]:
        """H and A of the same rows less the means of others. Overwrites them."""
        return self.own.around(every.own.means), self.aim.around(every.aim.means)


JoinedT = TypeVar("JoinedT", Moments, Equations)


def joined(parts: Iterator[JoinedT]) -> JoinedT:
    """The moments or equations of the rows of all parts, of which there is at least one. Overwrites them."""
    every = next(parts)
    for part in parts:
        every = every.joined(part)
        del part  # before the next one is made; `functools.reduce` would hold both
    return every


def best_ridge(weight: Array, parts: Iterable[Equations], every: Equations) -> float:
    """The ridge in `RIDGES` that predicts parts of the samples best from the others; infinite for a single part.

    `parts` are read one after the other and overwritten, and `every` is all of them joined. After the first part, only
    its best ridge and the two next to it are tried: solving the systems takes most of the time.
    """
    costs, tried = np.zeros(len(RIDGES)), slice(None)
    for part in parts:
        share = part.own.count / every.own.count
        if share == 1:
            return math.inf
        held = part.around(every)
        found = np.full(len(RIDGES), np.inf)
        found[tried] = _costs(weight, *held, share, every, RIDGES[tried])
        del part, held  # the moments are the largest arrays here
        costs = costs + np.where(np.isfinite(found), found, np.inf)
        if tried == slice(None):
            best = int(np.argmin(costs))
            tried = slice(max(0, best - 1), best + 2)
    return RIDGES[int(np.argmin(costs))]


def _costs(
    weight: Array, own: Array, aim: Array, share: float, every: Equations, ridges: Sequence[float]
) -> list[float]:
    """For each ridge, the error of V on a share of the rows, minus a constant. V is solved from the other rows.

    E |y - V q|^2 = tr(V H V^T) - 2 tr(A V^T) + a constant, with H and A of that share, `own` and `aim`. This is less
    work than using the rows themselves.
    """
    others = _others(every.aim.products, aim, share)

    def of_others(rows: slice, columns: slice) -> Array:
        return _others(every.own.products[:, rows, columns], own[:, rows, columns], share)

    costs: list[float] = []
    for ridge in ridges:
        # H of the other rows is made again for each ridge: the system is solved in its memory.
        made = _solved(weight, of_others, others, ridge)
        costs.append(float(share * ((made @ own - 2 * aim) * made).sum(dtype=np.float64)))
    return costs


def _others(every: Array, held: Array, share: float) -> Array:
    """The products of the rows that are not in a share, from those of all rows and of the share."""
    made = held * np.float32(-share)
    made += every
    made /= np.float32(1 - share)
    return made
