"""The ridge that cross-validation chooses, and the weights that follow from it."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from zeropoint.correct.least_squares import FOLDS, RIDGES, Equations, Moments, best_ridge, joined, moments, solved
from zeropoint.ir.tensors import Array

OUTPUTS = 5


def weight(terms: int, groups: int = 1) -> Array:
    return np.random.default_rng(1).normal(0, 1, (groups, OUTPUTS, terms)).astype(np.float32)


@dataclass(frozen=True)
class Rows:
    """Rows (groups, rows, terms) of the float and the quantized network, f32, and the number of samples."""

    exact: Array
    quantized: Array
    samples: int

    def parts(self) -> Iterator[Equations]:
        """The equations of neighbouring samples."""
        parts = min(FOLDS, self.samples)
        halves = (np.array_split(array, parts, axis=1) for array in (self.exact, self.quantized))
        real = weight(self.exact.shape[2], len(self.exact))
        for exact, quantized in zip(*halves, strict=True):
            yield Equations.of(exact @ real.swapaxes(1, 2), quantized.copy())

    def equations(self) -> Equations:
        return joined(self.parts())


def rows(terms: int, count: int, samples: int, noise: float, groups: int = 1) -> Rows:
    """Rows of independent terms, with so much noise in the quantized network."""
    random = np.random.default_rng(2)
    exact = random.normal(0, 1, (groups, count, terms)).astype(np.float32)
    quantized = (exact + noise * random.normal(0, 1, exact.shape)).astype(np.float32)
    return Rows(exact, quantized, samples)


def ridge(given: Rows) -> float:
    return best_ridge(weight(given.exact.shape[2], len(given.exact)), given.parts(), given.equations())


def test_many_rows_for_a_few_terms_take_the_least_ridge() -> None:
    assert ridge(rows(terms=9, count=4000, samples=8, noise=1.0)) == min(RIDGES)
    assert ridge(rows(terms=9, count=4000, samples=8, noise=1.0, groups=3)) == min(RIDGES)


def test_fewer_rows_than_terms_take_a_greater_one() -> None:
    assert ridge(rows(terms=64, count=16, samples=8, noise=0.1)) > min(RIDGES)


def test_a_single_sample_keeps_its_weights() -> None:
    assert math.isinf(ridge(rows(terms=4, count=1000, samples=1, noise=1.0)))


def test_rows_that_repeat_within_a_sample_do_not_predict_each_other() -> None:
    # 2,000 rows, but only 16 that differ: all rows of a sample are one row.
    few = rows(terms=64, count=16, samples=16, noise=0.1)
    repeated = Rows(np.repeat(few.exact, 125, axis=1), np.repeat(few.quantized, 125, axis=1), 16)
    assert ridge(repeated) == ridge(few) > min(RIDGES)


def test_the_error_that_is_compared_is_that_of_the_rows_left_out() -> None:
    given = rows(terms=6, count=80, samples=4, noise=0.7)
    given = Rows(*(each - each.mean(axis=1, keepdims=True) for each in (given.exact, given.quantized)), 4)
    real = weight(6)
    costs = dict.fromkeys(RIDGES, 0.0)
    for part in range(4):
        kept = np.r_[0 : 20 * part, 20 * part + 20 : 80]
        exact, quantized = given.exact[:, kept], given.quantized[:, kept]
        for value in RIDGES:
            found = solved(real, moments(quantized), real @ moments(exact, quantized), value)
            left = slice(20 * part, 20 * part + 20)
            error = given.quantized[:, left] @ found.swapaxes(1, 2) - given.exact[:, left] @ real.swapaxes(1, 2)
            costs[value] += float((error**2).sum())
    assert ridge(given) == min(costs, key=lambda value: costs[value])


@pytest.mark.parametrize("value", RIDGES)
def test_a_solution_has_less_error_and_ridge_together_than_its_neighbours(value: float) -> None:
    given = rows(terms=6, count=200, samples=4, noise=0.5)
    real = weight(6).astype(np.float64)
    every = given.equations()
    own, aim = (each.products.astype(np.float64) for each in (every.own, every.aim))
    found = solved(real, own, aim, value)
    if math.isinf(value):
        np.testing.assert_array_equal(found, real)
        return

    def cost(one: Array) -> float:
        mean = np.trace(own[0]) / own.shape[1]
        error = ((one @ own) * one).sum() - 2 * (aim * one).sum()
        return float(error + value * mean * ((real - one) ** 2).sum())

    random = np.random.default_rng(3)
    assert all(cost(found) < cost(found + 0.01 * random.normal(0, 1, found.shape)) for _ in range(10))


def test_moments_of_parts_join_to_those_of_all_rows() -> None:
    random = np.random.default_rng(4)
    exact, quantized = (random.normal(3, 1, (2, 50, 5)).astype(np.float32) for _ in range(2))
    exact[:, 20:] += 7
    ends = (0, 3, 20, 50)
    parts = [Moments.of(exact[:, first:last].copy(), quantized[:, first:last].copy()) for first, last in pairwise(ends)]
    first = Moments.of(exact[:, :3].copy(), quantized[:, :3].copy())  # the parts are overwritten
    every = joined(iter(parts))
    means = [each.astype(np.float64).mean(axis=1, keepdims=True) for each in (exact, quantized)]
    wanted = np.matmul((exact - means[0]).swapaxes(1, 2), quantized - means[1]) / 50
    np.testing.assert_allclose(every.products, wanted, rtol=1e-4, atol=1e-5)
    for found, mean in zip(every.means, means, strict=True):
        np.testing.assert_allclose(found, mean, rtol=1e-6)
    assert every.count == 50
    # A part about the means of all rows, as cross-validation reads it.
    part = np.matmul((exact[:, :3] - means[0]).swapaxes(1, 2), quantized[:, :3] - means[1]) / 3
    np.testing.assert_allclose(first.around(every.means), part, rtol=1e-4, atol=1e-4)


def test_no_more_than_two_and_a_half_matrices_of_moments_are_in_memory() -> None:
    given = rows(terms=1000, count=400, samples=4, noise=0.5)
    matrix = 1000 * 1000 * 4
    tracemalloc.start()
    try:
        every = given.equations()
        joining = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        best_ridge(weight(1000), given.parts(), every)
        choosing = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The rest are rows, and the blocks of systems that are being solved.
    assert joining / matrix < 2.5
    assert choosing / matrix < 3.5
