"""Tables of the elementary functions by their StableHLO and chlo names; see `elementary` and `trigonometry`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zeropoint.numerics import elementary, trigonometry

Approximation = Callable[..., Any]
"""function(steps, operands...): operands and result are values of the steps' type."""

IN_FLOAT: dict[str, Approximation] = {
    "erf": elementary.erf_f32,
    "exponential": elementary.exponential_f32,
    "logistic": elementary.logistic_f32,
}
"""Functions that are computed in f32 for f32."""

IN_DOUBLE: dict[str, Approximation] = {
    "acos": trigonometry.acos,
    "acosh": trigonometry.acosh,
    "asin": trigonometry.asin,
    "asinh": trigonometry.asinh,
    "atan": trigonometry.atan,
    "atanh": trigonometry.atanh,
    "cbrt": elementary.cbrt,
    "cosh": trigonometry.cosh,
    "cosine": trigonometry.cosine,
    "erf": elementary.erf,
    "erfc": elementary.erfc,
    "exponential": elementary.exponential,
    "exponential_minus_one": elementary.exponential_minus_one,
    "log": elementary.log,
    "log_plus_one": elementary.log_plus_one,
    "logistic": elementary.logistic,
    "rsqrt": elementary.rsqrt,
    "sine": trigonometry.sine,
    "sinh": trigonometry.sinh,
    "tan": trigonometry.tan,
    "tanh": elementary.tanh,
}
"""Functions that are computed in f64 and rounded, for all other types."""

BINARY: dict[str, Approximation] = {"atan2": trigonometry.atan2, "power": elementary.power}
"""Functions of two floats, in f64."""
