"""Recognizes functions of one value by their results, not by the ops that compute them.

A chain of elementwise ops is evaluated at the points below with the interpreter's own functions, and the values are
compared with those of known functions. So x / (1 + exp(-x)) and x * logistic(x) are the same function, and
0.5 * x * (1 + erf(x / sqrt 2)) is `gelu` in any order of its factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from zeropoint.ir.tensors import Array
from zeropoint.numerics.functions import UNARY

POINTS: Array = np.concatenate(
    [np.linspace(-8, 8, 129), np.geomspace(8.5, 3000, 12), -np.geomspace(8.5, 3000, 12)]
).astype(np.float32)
"""Sample points: dense near 0, where functions bend, and sparse far away, where a clip would show."""

TOLERANCE = 2e-5
"""Maximum difference between two computations of a function in f32, relative or absolute."""


def _near(found: Array, expected: Array, tolerance: float = TOLERANCE) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def _is(reference: Callable[[Array], Array]) -> Callable[[Array, float], bool]:
    """A predicate on values at the points: whether they are those of `reference`."""
    with np.errstate(all="ignore"):
        expected = reference(POINTS.astype(np.float64)).astype(np.float32)  # exp overflows f32 at the largest points
    return lambda found, tolerance: _near(found, expected, tolerance)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + UNARY["erf"](x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _at(found: Array, point: float) -> float:
    return float(found[np.flatnonzero(point == POINTS)[0]])


def _is_hard_sigmoid(found: Array, tolerance: float) -> bool:
    """clamp(0, slope * x + offset, 1) with slope > 0 and 0 < offset < 1."""
    # Slope and offset differ between frameworks (1/6 or 0.2), so they are read from two points of the linear part.
    offset = _at(found, 0.0)
    slope = (_at(found, 0.125) - offset) * 8
    return 0 < offset < 1 and slope > 0 and _near(found, np.clip(slope * POINTS + offset, 0, 1), tolerance)


def _is_leaky_relu(found: Array, tolerance: float) -> bool:
    """x for x >= 0, slope * x otherwise. sqrt(x)^2 has no such slope: it is NaN where x < 0."""
    slope = -_at(found, -1.0)
    with np.errstate(invalid="ignore", over="ignore"):  # the slope may be infinite or near 1e38
        line = np.where(POINTS >= 0, POINTS, slope * POINTS)
    return (
        math.isfinite(slope) and slope != 0.0 and not _near(found, POINTS, tolerance) and _near(found, line, tolerance)
    )


@dataclass(frozen=True)
class NamedFunction:
    """A logical kernel, and the predicate on values at the points that recognizes its function."""

    kernel: str
    matches: Callable[[Array, float], bool]


FUNCTIONS = (
    NamedFunction("relu", _is(lambda x: np.maximum(x, 0))),
    NamedFunction("relu6", _is(lambda x: np.clip(x, 0, 6))),
    NamedFunction("relu_0_to_1", _is(lambda x: np.clip(x, 0, 1))),
    NamedFunction("relu_n1_to_1", _is(lambda x: np.clip(x, -1, 1))),
    NamedFunction("logistic", _is(UNARY["logistic"])),
    NamedFunction("tanh", _is(np.tanh)),
    NamedFunction("gelu", _is(_gelu)),
    NamedFunction("gelu", _is(_gelu_tanh)),
    NamedFunction("hard_swish", _is(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))),
    NamedFunction("silu", _is(lambda x: x * UNARY["logistic"](x))),
    NamedFunction("elu", _is(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))))),
    NamedFunction("softplus", _is(lambda x: np.logaddexp(x, 0))),
    NamedFunction("exp", _is(np.exp)),
    NamedFunction("log", _is(np.log)),
    NamedFunction("sqrt", _is(np.sqrt)),
    NamedFunction("rsqrt", _is(lambda x: 1 / np.sqrt(x))),
    NamedFunction("abs", _is(np.abs)),
    NamedFunction("hard_sigmoid", _is_hard_sigmoid),
    NamedFunction("leaky_relu", _is_leaky_relu),
)
"""The first row that matches names the function."""


def function_kernel(values: Array) -> str | None:
    """The logical kernel of the function with these values at `POINTS`; None if it has no name."""
    return _named(values.astype(np.float64).tobytes())


@lru_cache(4096)
def _named(values: bytes) -> str | None:
    found = np.frombuffer(values, np.float64)
    return next((row.kernel for row in FUNCTIONS if row.matches(found, TOLERANCE)), None)


def computes(kernel: str, values: Array, tolerance: float = TOLERANCE) -> bool:
    """Whether a function with these values at `POINTS` is one that a logical kernel names."""
    found = values.astype(np.float64)
    return any(row.kernel == kernel and row.matches(found, tolerance) for row in FUNCTIONS)


def hard_sigmoid_line(evaluate: Callable[[Array], Array]) -> tuple[np.float32, np.float32]:
    """The slope and the offset of clamp(0, slope * x + offset, 1), from its values at points in f64.

    f64, so that the values' rounding errors do not change the f32 slope and offset.
    """
    points = np.array([0, 0.125])
    offset, near = evaluate(points)
    return np.float32((near - offset) * 8), np.float32(offset)
