"""The error function and related functions, the logarithm of the gamma function and its derivative, in f64.

Source: the series named at each function. Relative errors are a few units of 2^-53. For `log_gamma` and `digamma` near
their zeros, this applies to the absolute error.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from zeropoint.numerics.arrays import FloatArray

_NODES = 48
_TERMS = 30
_CONTINUED = 2.0
"""From this argument on, a continued fraction computes the coefficients of erfc."""


def erf(x: FloatArray) -> FloatArray:
    """2/sqrt(pi) times the integral of exp(-t^2) from 0 to x: its power series below 1, 1 - erfc above."""
    magnitude = np.minimum(np.abs(x), 6.0)  # erfc(6) is below 2^-54
    small = np.minimum(magnitude, 1.0)
    # erf(x) = 2/sqrt(pi) * sum (-1)^n x^(2n+1) / (n! (2n+1)); at x = 1 the 20th term is below 2^-60.
    square, series = small * small, np.zeros_like(small)
    for n in range(20, -1, -1):
        series = series * square + (-1.0) ** n / (math.factorial(n) * (2 * n + 1))
    below = 2.0 / math.sqrt(math.pi) * small * series
    above = 1.0 - _erfc_of_positive(np.maximum(magnitude, 1.0))
    return np.copysign(np.where(magnitude < 1.0, below, above), x)


def erfc(x: FloatArray) -> FloatArray:
    """1 - erf(x), without cancellation for large x."""
    upper = _erfc_of_positive(np.abs(x))
    return np.where(x < 0, 2.0 - upper, np.where(x < 0.5, 1.0 - erf(np.minimum(x, 0.5)), upper))


def _erfc_of_positive(x: FloatArray) -> FloatArray:
    """erfc(x) = t * exp(-x^2 + P(t)) for x >= 0, t = 2 / (2 + x), P a polynomial (Chebyshev series) in t."""
    t = 2.0 / (2.0 + x)
    coefficients = _erfc_coefficients()
    # Clenshaw's recurrence on [0, 1], the interval of t.
    argument = 2.0 * t - 1.0
    last, before = np.zeros_like(t), np.zeros_like(t)
    for coefficient in coefficients[:0:-1]:
        last, before = 2.0 * argument * last - before + coefficient, last
    # Split x^2 into an exact square of few digits and a rest, because exp would amplify the rounding error of x^2.
    bounded = np.minimum(x, 40.0)
    head = bounded.astype(np.float32).astype(np.float64)
    rest = (bounded - head) * (bounded + head)
    return t * np.exp(-head * head) * np.exp(argument * last - before + coefficients[0] - rest)


@cache
def _erfc_coefficients() -> list[float]:
    """The Chebyshev series of log(erfc(x) / t) + x^2 in t, interpolated at the Chebyshev nodes."""
    angles = [math.pi * (k + 0.5) / _NODES for k in range(_NODES)]
    values: list[float] = []
    for angle in angles:
        t = (1.0 + math.cos(angle)) / 2
        values.append(_log_scaled_erfc(2.0 / t - 2.0) - math.log(t))
    return [
        (1 if j == 0 else 2) / _NODES * math.fsum(v * math.cos(j * a) for v, a in zip(values, angles, strict=True))
        for j in range(_TERMS)
    ]


def _log_scaled_erfc(x: float) -> float:
    """log(erfc(x) exp(x^2)); for large x by Laplace's continued fraction x + (1/2) / (x + 1 / (x + (3/2) / ...))."""
    if x < _CONTINUED:
        return math.log(math.erfc(x)) + x * x
    fraction = x
    for k in range(300, 0, -1):
        fraction = x + k / 2 / fraction
    return -math.log(fraction * math.sqrt(math.pi))


def erf_inverse(x: FloatArray) -> FloatArray:
    """The inverse of erf: Winitzki's approximation, then Halley's steps; +-inf for x = +-1, NaN for |x| > 1."""
    magnitude = np.abs(x)
    inside = np.minimum(magnitude, 1.0 - 2.0**-53)
    logarithm = np.log1p(-inside) + np.log1p(inside)
    shift = 2.0 / (math.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.sqrt(shift * shift - logarithm / 0.147) - shift)
    for _ in range(3):
        # From the nearer end, because 1 - x is exact for x near 1.
        excess = np.where(inside < 0.5, erf(y) - inside, (1.0 - inside) - erfc(y))
        step = excess / (2.0 / math.sqrt(math.pi) * np.exp(-y * y))
        y = y - step / (1.0 + y * step)
    found = np.where(magnitude == 1.0, np.inf, np.where(magnitude < 1.0, y, np.nan))
    return np.copysign(found, x)


_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
"""Coefficients of Lanczos' approximation of the gamma function with g = 7 and nine terms."""


def log_gamma(x: FloatArray) -> FloatArray:
    """log |gamma(x)|: Lanczos' approximation from 1/2 on, the reflection formula below; inf at 0, -1, -2, ..."""
    z = np.where(x < 0.5, -x, x - 1.0)
    series = np.full_like(z, _LANCZOS[0])
    for k, coefficient in enumerate(_LANCZOS[1:], start=1):
        series = series + coefficient / (z + k)
    t = z + 7.5
    upper = 0.5 * math.log(2.0 * math.pi) + (z + 0.5) * np.log(t) - t + np.log(series)
    # gamma(x) gamma(1 - x) = pi / sin(pi x). The sine of the distance to the nearest integer is accurate.
    sine = np.abs(np.sin(math.pi * (x - np.rint(x))))
    reflected = math.log(math.pi) - np.log(sine) - upper
    found = np.where(x < 0.5, np.where(sine == 0, np.inf, reflected), upper)
    # The sum of large terms misses these zeros by about 2^-50.
    found = np.where((x == 1) | (x == 2), 0.0, found)
    return np.where(np.isinf(x), np.inf, found)


def digamma(x: FloatArray) -> FloatArray:
    """The derivative of log gamma: Stirling's series from 10 on, the recurrence and the reflection formula below.

    NaN at 0, -1, -2, ...
    """
    positive = np.where(x < 0.5, 1.0 - x, x)
    shifted, found = positive.copy(), np.zeros_like(positive)
    for _ in range(10):
        small = shifted < 10.0
        found = found - np.where(small, 1.0 / shifted, 0.0)
        shifted = np.where(small, shifted + 1.0, shifted)
    inverse = 1.0 / (shifted * shifted)
    series = np.zeros_like(inverse)
    for coefficient in (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)[::-1]:
        series = series * inverse + coefficient
    found = found + np.log(shifted) - 0.5 / shifted - series * inverse
    distance = x - np.rint(x)
    reflected = found - math.pi / np.tan(math.pi * distance)
    return np.where(x < 0.5, np.where(distance == 0, np.nan, reflected), found)
