"""The ridge that cross-validation chooses, and the weights that follow from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zeropoint.correct.least_squares import RIDGES, EquationRows, best_ridge, moments, solved
from zeropoint.ir.tensors import Array

OUTPUTS = 5


def weight(terms: int, groups: int = 1) -> Array:
    return np.random.default_rng(1).normal(0, 1, (groups, OUTPUTS, terms)).astype(np.float32)


def rows(terms: int, count: int, samples: int, noise: float, groups: int = 1) -> EquationRows:
    """Rows of independent terms, with so much noise in the quantized network."""
    random = np.random.default_rng(2)
    exact = random.normal(0, 1, (groups, count, terms)).astype(np.float32)
    quantized = (exact + noise * random.normal(0, 1, exact.shape)).astype(np.float32)
    return EquationRows(exact, quantized, [count // samples] * samples)


def ridge(given: EquationRows) -> float:
    return best_ridge(weight(given.exact.shape[2], len(given.exact)), given, *given.moments())


def test_many_rows_for_a_few_terms_take_the_least_ridge() -> None:
    assert ridge(rows(terms=9, count=4000, samples=8, noise=1.0)) == min(RIDGES)
    assert ridge(rows(terms=9, count=4000, samples=8, noise=1.0, groups=3)) == min(RIDGES)


def test_fewer_rows_than_terms_take_a_greater_one() -> None:
    assert ridge(rows(terms=64, count=16, samples=8, noise=0.1)) > min(RIDGES)


def test_a_single_sample_keeps_its_weights() -> None:
    assert math.isinf(ridge(rows(terms=4, count=1000, samples=1, noise=1.0)))


def test_rows_that_repeat_within_a_sample_do_not_predict_each_other() -> None:
    # 1,000 rows, but only 8 that differ: all rows of a sample are one row.
    few = rows(terms=64, count=8, samples=8, noise=0.1)
    repeated = EquationRows(np.repeat(few.exact, 125, axis=1), np.repeat(few.quantized, 125, axis=1), [125] * 8)
    assert ridge(repeated) == ridge(few) > min(RIDGES)


def test_the_error_that_is_compared_is_that_of_the_rows_left_out() -> None:
    given = rows(terms=6, count=80, samples=4, noise=0.7)
    real = weight(6)
    costs = dict.fromkeys(RIDGES, 0.0)
    for part in range(4):
        kept = np.r_[0 : 20 * part, 20 * part + 20 : 80]
        exact, quantized = given.exact[:, kept], given.quantized[:, kept]
        for value in RIDGES:
            found = solved(real, moments(quantized), moments(exact, quantized), value)
            left = slice(20 * part, 20 * part + 20)
            error = given.quantized[:, left] @ found.swapaxes(1, 2) - given.exact[:, left] @ real.swapaxes(1, 2)
            costs[value] += float((error**2).sum())
    assert ridge(given) == min(costs, key=lambda value: costs[value])


@pytest.mark.parametrize("value", RIDGES)
def test_a_solution_has_less_error_and_ridge_together_than_its_neighbours(value: float) -> None:
    given = rows(terms=6, count=200, samples=4, noise=0.5)
    real = weight(6).astype(np.float64)
    own, cross = (each.astype(np.float64) for each in given.moments())
    found = solved(real, own, cross, value)
    if math.isinf(value):
        np.testing.assert_array_equal(found, real)
        return

    def cost(one: Array) -> float:
        mean = np.trace(own[0]) / own.shape[1]
        error = ((one @ own) * one).sum() - 2 * ((real @ cross) * one).sum()
        return float(error + value * mean * ((real - one) ** 2).sum())

    random = np.random.default_rng(3)
    assert all(cost(found) < cost(found + 0.01 * random.normal(0, 1, found.shape)) for _ in range(10))
