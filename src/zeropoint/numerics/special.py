"""The inverse of the error function, the logarithm of the gamma function and its derivative, in f64.

Source: the series named at each function. Relative errors are a few units of 2^-53. For `log_gamma` and `digamma` near
their zeros, this applies to the absolute error.
"""

from __future__ import annotations

import math

import numpy as np

from zeropoint.numerics.arrays import FloatArray
from zeropoint.numerics.elementary import erf, erfc
from zeropoint.numerics.steps import ARRAYS


def erf_inverse(x: FloatArray) -> FloatArray:
    """The inverse of erf: Winitzki's approximation, then Halley's steps; +-inf for x = +-1, NaN for |x| > 1."""
    magnitude = np.abs(x)
    inside = np.minimum(magnitude, 1.0 - 2.0**-53)
    logarithm = np.log1p(-inside) + np.log1p(inside)
    shift = 2.0 / (math.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.sqrt(shift * shift - logarithm / 0.147) - shift)
    for _ in range(3):
        # From the nearer end, because 1 - x is exact for x near 1.
        excess = np.where(inside < 0.5, erf(ARRAYS, y) - inside, (1.0 - inside) - erfc(ARRAYS, y))
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
