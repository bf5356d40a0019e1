"""The error function and its kin, the gamma function's logarithm and derivative: Python's math, and identities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zeropoint.numerics import special
from zeropoint.numerics.functions import UNARY

EPSILON = 2.0**-52


def _relative(found: np.ndarray, expected: list[float]) -> float:
    wanted = np.array(expected)
    return float(np.max(np.abs(found - wanted) / np.abs(wanted)))


def test_erf_and_erfc_are_accurate_to_a_few_units():
    x = np.linspace(-6, 26, 1000)
    assert _relative(UNARY["erfc"](x), [math.erfc(v) for v in x]) < 20 * EPSILON
    assert _relative(UNARY["erf"](x), [math.erf(v) for v in x]) < 4 * EPSILON


def test_erfc_at_the_ends():
    found = UNARY["erfc"](np.array([0.0, np.inf, -np.inf, 40.0, np.nan]))
    np.testing.assert_array_equal(found, [1.0, 0.0, 2.0, 0.0, np.nan])


def test_the_inverse_of_erf_undoes_it_in_both_tails():
    y = np.linspace(-5, 5, 501)
    np.testing.assert_allclose(special.erf_inverse(UNARY["erf"](y[np.abs(y) < 2])), y[np.abs(y) < 2], rtol=1e-13)
    tail = 10.0 ** -np.arange(1.0, 16.0)
    np.testing.assert_allclose(UNARY["erfc"](special.erf_inverse(1.0 - tail)), 1.0 - (1.0 - tail), rtol=1e-12)
    tiny = np.array([1e-300, 1e-20, 1e-5])
    np.testing.assert_allclose(special.erf_inverse(tiny), tiny * math.sqrt(math.pi) / 2, rtol=1e-9)


def test_the_inverse_of_erf_at_the_ends():
    with np.errstate(all="ignore"):
        found = special.erf_inverse(np.array([0.0, -0.0, 1.0, -1.0, 1.5, np.nan]))
    np.testing.assert_array_equal(found, [0.0, -0.0, np.inf, -np.inf, np.nan, np.nan])
    assert np.signbit(found[1])


@pytest.mark.parametrize("low", [-20.3, 0.01, 3.0, 1000.0])
def test_log_gamma_equals_pythons(low: float):
    x = low + np.linspace(0, 5.1, 400)
    with np.errstate(all="ignore"):
        found = special.log_gamma(x)
    expected = np.array([math.lgamma(v) for v in x])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_log_gamma_has_poles_at_zero_and_the_negative_integers():
    with np.errstate(all="ignore"):
        found = special.log_gamma(np.array([0.0, -1.0, -7.0, np.inf, np.nan]))
    np.testing.assert_array_equal(found, [np.inf, np.inf, np.inf, np.inf, np.nan])


def test_digamma_at_known_points():
    euler = 0.57721566490153286
    points = {1.0: -euler, 0.5: -euler - 2 * math.log(2), 2.0: 1 - euler, -0.5: 2 - euler - 2 * math.log(2)}
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(special.digamma(np.array(list(points))), list(points.values()), rtol=1e-14)
        assert np.isnan(special.digamma(np.array([0.0, -3.0]))).all()


def test_digamma_is_the_derivative_of_log_gamma():
    x, step = np.linspace(0.3, 30, 50), 1e-5
    difference = (special.log_gamma(x + step) - special.log_gamma(x - step)) / (2 * step)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(special.digamma(x), difference, rtol=1e-6, atol=1e-8)
