"""Elementary functions against exact values: how far they are from those at most."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest

from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.functions import BINARY, UNARY

LONG = np.longdouble
needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="no longer double here")

ANY, POSITIVE, UNIT, ABOVE_ONE = "any", "positive", "unit", "above one"


def numbers(domain: str, count: int = 40000) -> AnyArray:
    random = np.random.default_rng(3)
    wide = np.exp(random.uniform(-80, 80, count)) * random.choice([-1, 1], count)
    if domain == UNIT:
        return np.concatenate([random.uniform(-1, 1, 3 * count), wide[np.abs(wide) < 1]])
    every = np.concatenate([random.normal(0, 1, count), random.uniform(-700, 700, count), wide])
    if domain == ANY:
        return every
    return np.abs(every) + (1 if domain == ABOVE_ONE else 0)


def ulps(found: AnyArray, exact: AnyArray) -> float:
    """The greatest distance in units of the last place of the exact value."""
    known = np.isfinite(exact) & np.isfinite(found)
    found, exact = found[known], exact[known]
    step = np.spacing(np.abs(exact).astype(found.dtype)).astype(LONG)
    return float((np.abs(found.astype(LONG) - exact) / step).max())


LIMITS = {
    # The limit in ulp of f64; f32 results are these rounded once.
    "acos": (np.arccos, UNIT, 4.0), "acosh": (np.arccosh, ABOVE_ONE, 3.5), "asin": (np.arcsin, UNIT, 3.5),
    "asinh": (np.arcsinh, ANY, 3.5), "atan": (np.arctan, ANY, 3.0), "atanh": (np.arctanh, UNIT, 3.0),
    "cbrt": (np.cbrt, ANY, 1.0), "cosh": (np.cosh, ANY, 2.0), "cosine": (np.cos, ANY, 3.0),
    "exponential": (np.exp, ANY, 1.3), "exponential_minus_one": (np.expm1, ANY, 2.7), "log": (np.log, POSITIVE, 1.2),
    "log_plus_one": (np.log1p, POSITIVE, 2.7), "logistic": (lambda x: 1 / (1 + np.exp(-x)), ANY, 2.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE, 1.6), "sine": (np.sin, ANY, 3.0), "sinh": (np.sinh, ANY, 3.0),
    "tan": (np.tan, ANY, 4.0), "tanh": (np.tanh, ANY, 3.0),
}  # fmt: skip


@needs_long_double
@pytest.mark.parametrize("name", LIMITS)
def test_functions_of_f64_are_within_four_ulp(name: str) -> None:
    exact, domain, most = LIMITS[name]
    x = numbers(domain)
    with np.errstate(all="ignore"):
        assert ulps(UNARY[name](x), exact(x.astype(LONG))) < most


@needs_long_double
def test_functions_of_two_f64() -> None:
    x, y = numbers(ANY), np.random.default_rng(4).uniform(-20, 20, numbers(ANY).size)
    assert ulps(BINARY["atan2"](x, y), np.arctan2(x.astype(LONG), y.astype(LONG))) < 3


@needs_long_double
@pytest.mark.parametrize(
    ("low", "high", "most"),
    [(-5.0, 5.0, 120.0), (-0.1, 0.1, 5000.0), (-700.0, 700.0, 1.0), (-1e-9, 1e-9, 1e11)],
    ids=["any", "near one", "roots", "very near one"],
)
def test_powers_of_f64_are_within_two_ulp(low: float, high: float, most: float) -> None:
    random = np.random.default_rng(4)
    x, y = np.exp(random.uniform(low, high, 50000)), random.uniform(-most, most, 50000)
    exact = np.power(x.astype(LONG), y.astype(LONG))
    inside = (exact > 1e-300) & (exact < 1e308)
    assert inside.sum() > 40000
    assert ulps(BINARY["power"](x[inside], y[inside]), exact[inside]) < 1.5


def test_powers_at_the_ends_are_those_of_c() -> None:
    ends = [0.0, 1.0, 2.0, 0.5, 3.0, 2.5, np.inf, np.nan, 1e308, 5e-324, 1e-310, 1e300, 1 - 2.0**-53, 1 + 2.0**-52]
    x, y = (part.ravel() for part in np.meshgrid([*ends, *(-v for v in ends)], [*ends, *(-v for v in ends)]))
    with np.errstate(all="ignore"):
        expected, found = np.power(x, y), BINARY["power"](x, y)
    np.testing.assert_allclose(found, expected, rtol=3e-16)
    known = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[known].all()


def test_erf_of_f64_is_within_seven_ulp() -> None:
    x = np.random.default_rng(5).uniform(-7, 7, 20000)
    with np.errstate(all="ignore"):
        assert ulps(UNARY["erf"](x), np.array([math.erf(v) for v in x]).astype(LONG)) < 7


@pytest.mark.parametrize(("name", "most"), [("erf", 2.0), ("exponential", 1.2), ("logistic", 2.4)])
def test_functions_of_f32_that_are_computed_in_f32(name: str, most: float) -> None:
    random = np.random.default_rng(6)
    wide = np.exp(random.uniform(-80, 4.4, 100000)) * random.choice([-1, 1], 100000)
    x = np.concatenate([np.linspace(-104, 89, 1 << 20), random.normal(0, 1, 1 << 18), wide]).astype(np.float32)
    wide_x = x.astype(np.float64)
    exact = {
        "erf": lambda: UNARY["erf"](wide_x), "exponential": lambda: np.exp(wide_x),
        "logistic": lambda: 1 / (1 + np.exp(-wide_x)),
    }[name]()  # fmt: skip
    assert ulps(UNARY[name](x), exact.astype(LONG)) < most


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_ends_of_the_range(dtype: type[np.floating]) -> None:
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)

    def of(name: str) -> list[str]:
        return [f"{v:g}" for v in UNARY[name](ends).astype(float)]

    assert of("exponential") == ["inf", "0", "nan", "1", "1"]
    assert of("exponential_minus_one") == ["inf", "-1", "nan", "0", "-0"]
    assert of("log") == ["inf", "nan", "nan", "-inf", "-inf"]
    assert of("log_plus_one") == ["inf", "nan", "nan", "0", "-0"]
    assert of("logistic") == ["1", "0", "nan", "0.5", "0.5"]
    assert of("tanh") == ["1", "-1", "nan", "0", "-0"]
    assert of("erf") == ["1", "-1", "nan", "0", "-0"]
    assert of("cbrt") == ["inf", "-inf", "nan", "0", "-0"]
    assert of("rsqrt") == ["0", "nan", "nan", "inf", "-inf"]
    assert of("sine") == ["nan", "nan", "nan", "0", "-0"]
    assert of("atan")[2:] == ["nan", "0", "-0"]


def test_a_sine_of_a_great_angle_has_all_its_digits() -> None:
    """sin(2^1000) and sin of the f64 nearest to a multiple of pi / 2, from Taylor series with 400 digits."""
    getcontext().prec = 700
    third = Decimal(0)
    # pi by Machin's formula.
    for n, factor in ((5, 16), (239, -4)):
        term, k = Decimal(1) / n, 1
        while abs(term) > Decimal(10) ** -690:
            third += factor * term / k
            term, k = -term / (n * n), k + 2
    for x in (2.0**1000, 6381956970095103 * 2.0**797, 1e300, 1.7976931348623157e308):
        angle = Decimal(x) % (2 * third)
        total, term, k = Decimal(0), angle, 1
        while abs(term) > Decimal(10) ** -60:
            total += term
            term, k = -term * angle * angle / ((k + 1) * (k + 2)), k + 2
        assert float(UNARY["sine"](np.array([x]))[0]) == pytest.approx(float(total), rel=1e-15)
