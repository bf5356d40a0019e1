"""LiteRT's functions of 16-bit values with zero point 0.

- `exp`, `gelu`, `log` and `rsqrt` interpolate between 513 points (`numerics.interpolation` has the formula). Each point
  is moved by half of the interpolation error in the middle of the segment after it. The difference of two points is
  stored in 16 bits. It wraps around if it needs more, such as near the pole of a logarithm at 0.
- `logistic` and `tanh` interpolate between 256 points of one table: the sigmoid at multiples of 1/24, moved in the same
  way.
- `abs` and `leaky_relu` multiply in fixed point; `sqrt` truncates a quotient of f32.
- `softmax` interpolates exponentials in -10..0 and reciprocals in 1..2 (`EXPONENTIALS`, `RECIPROCALS`), each with 15
  fractional bits. Its formula is in `materialize/litert_softmax.py`.

Sources: TFLite's common.h (LUTPopulate), logistic.h, tanh.h, softmax.h, activations.cc and elementwise.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.litert import fixed_point_absolute, fixed_point_leaky_relu, is_tanh_gelu
from zeropoint.numerics.rounding import round_half_away

F32 = np.float32
LEAST, GREATEST = -(1 << 15), (1 << 15) - 1
SEGMENTS = 512
PART_BITS = 7
"""The number of bits that locate a value in its segment."""
LARGEST_DISTANCE = 10.0
"""The largest distance from the maximum of a softmax's scores. The exponentials of lower scores count as exp(-10)."""
STORED = np.arange(LEAST, GREATEST + 1, dtype=np.int64)

Real = Callable[[float], float]
"""The real function, from which a kernel's slope or kind is derived."""


def interpolation_table(name: str, given: float, wanted: float, at: Real) -> IntArray | None:
    """The 513 entries of a function that LiteRT interpolates; None for others, and if a difference wraps around.

    The scales are those of input and result.
    """
    points = _curve(name, given, wanted, at)
    return None if points is None or np.abs(np.diff(points)).max() > GREATEST else points


def _curve(name: str, given: float, wanted: float, at: Real) -> IntArray | None:
    """The 513 points of a function that LiteRT interpolates; None for others."""
    rule = CURVES.get(name)
    if rule is None:
        return None
    low, high = F32(given) * F32(LEAST), F32(given) * F32(GREATEST)
    factor = F32(1 << 16) / (F32(wanted) * F32(GREATEST) - F32(wanted) * F32(LEAST))
    return _points(rule(F32(wanted), at), low, high, factor)


def whole_table(name: str, given: float, wanted: float, at: Real) -> IntArray | None:
    """The results for all 65,536 values in ascending order; None for other functions."""
    points, rule = _curve(name, given, wanted, at), WHOLE.get(name)
    if points is not None:
        return _between(points)
    if rule is None:
        return None
    return np.clip(rule(STORED, F32(given), F32(wanted), at), LEAST, GREATEST).astype(np.int64)


def _between(points: IntArray) -> IntArray:
    """The interpolated results for all values, as LiteRT computes them: differences and results have 16 bits."""
    index, part = (STORED - LEAST) >> PART_BITS, (STORED - LEAST) & ((1 << PART_BITS) - 1)
    rise = np.diff(points).astype(np.int16).astype(np.int64)[index]
    half = 1 << (PART_BITS - 1)
    return (points[index] + ((rise * part + half) >> PART_BITS)).astype(np.int16).astype(np.int64)


def _points(
    function: Callable[[AnyArray], AnyArray], low: np.floating, high: np.floating, factor: np.floating
) -> IntArray:
    """The function at 513 points of low..high, times `factor`. All steps are in the type of `low`, in LiteRT's order.

    If the function is infinite at both ends of a segment, such as exp beyond 88, the error in its middle is NaN. LiteRT
    casts this NaN to 16 bits. C++ leaves the result undefined; x86 and Arm processors give 0.
    """
    real = type(low)
    step, index = (high - low) / real(SEGMENTS), np.arange(SEGMENTS).astype(real)
    starts = low + index * step
    with np.errstate(all="ignore"):
        first, middle = function(starts) * factor, function(starts + step / real(2)) * factor
        following = function(low + (index + real(1)) * step) * factor
        point = round_half_away(first)
        error = round_half_away((following + point) / real(2)) - round_half_away(middle)
        last = round_half_away(function(np.array([high])) * factor)
        moved = np.append(point - round_half_away(error / real(2)), last)
    return np.where(np.isnan(moved), 0, np.clip(moved, LEAST, GREATEST)).astype(np.int64)


def _in_f64(function: Callable[[AnyArray], AnyArray], x: AnyArray) -> AnyArray:
    """The function in f64, rounded to f32. This is the f32 function of a good math library."""
    return function(x.astype(np.float64)).astype(F32)


def _exp(wanted: np.float32, at: Real) -> Callable[[AnyArray], AnyArray]:
    return lambda x: _in_f64(np.exp, x)


def _log(wanted: np.float32, at: Real) -> Callable[[AnyArray], AnyArray]:
    """The minimum result for 0 and below."""
    return lambda x: np.where(x <= 0, wanted * F32(LEAST), _in_f64(np.log, np.where(x <= 0, F32(1), x)))


def _reciprocal_root(wanted: np.float32, at: Real) -> Callable[[AnyArray], AnyArray]:
    """The maximum result for 0 and below, which the kernel refuses."""
    return lambda x: np.where(x <= 0, wanted * F32(GREATEST), F32(1) / np.sqrt(np.where(x <= 0, F32(1), x)))


def _gelu(wanted: np.float32, at: Real) -> Callable[[AnyArray], AnyArray]:
    return _tanh_gelu if is_tanh_gelu(at(2.0)) else _exact_gelu


def _exact_gelu(x: AnyArray) -> AnyArray:
    scaled = (x * F32(-math.sqrt(0.5))).tolist()
    return F32(0.5) * x * np.array([math.erfc(value) for value in scaled], F32)


def _tanh_gelu(x: AnyArray) -> AnyArray:
    inner = F32(math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x)
    return F32(0.5) * x * (F32(1) + _in_f64(np.tanh, inner))


def _sigmoid_points() -> IntArray:
    index = np.arange(256)
    first, middle, following = (1 / (1 + np.exp(-(index + part) / 24)) for part in (0.0, 0.5, 1.0))
    points = np.rint((first - ((first + following) / 2 - middle) / 2) * (1 << 16)).astype(np.int64)
    points[-1] = 0xFFFF
    return points


SIGMOID = _sigmoid_points()
"""The sigmoid at i / 24, with 16 fractional bits."""


def _scaled(stored: IntArray, scale: np.float32, greatest_shift: int) -> IntArray:
    """The real number with 12 fractional bits times 3, by a 15-bit factor.

    A scale within 0.07 % of a large enough power of two counts as that power.
    """
    power = np.log(scale) * (F32(1) / np.log(F32(2)))
    if abs(power - np.rint(power)) < F32(1e-3) and 0 <= np.rint(power) + 12 <= greatest_shift:
        return stored * (3 << (int(np.rint(power)) + 12))
    factor, shift = float(scale) * 4096 * 3, 0
    while factor <= GREATEST / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return (stored * int(factor) + (1 << shift >> 1)) >> shift


def _looked_up(values: IntArray, bits: int, saturated: int) -> IntArray:
    """The sigmoid of |values|, with 16 + `bits` fractional bits, interpolated with `bits` of them."""
    index = np.minimum(np.abs(values) >> bits, SIGMOID.size - 1)
    rise = SIGMOID[np.minimum(index + 1, SIGMOID.size - 1)] - SIGMOID[index]
    found = (SIGMOID[index] << bits) + (np.abs(values) & ((1 << bits) - 1)) * rise
    return np.where(index == SIGMOID.size - 1, saturated, found)


def _logistic(stored: IntArray, given: np.float32, wanted: np.float32, at: Real) -> IntArray:
    values = _scaled(stored, given, 0)
    found = _looked_up(values, 9, 0x7FFF << 10)
    return np.where(values >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10


def _tanh(stored: IntArray, given: np.float32, wanted: np.float32, at: Real) -> IntArray:
    """2 sigmoid(2 x) - 1."""
    values = _scaled(stored, given, 1)
    found = _looked_up(values, 8, 0xFFFF << 8) - (1 << 23)
    return np.where(values >= 0, found + (1 << 7), -found + (1 << 7) - 1) >> 8


def _truncated_root(stored: IntArray, given: np.float32, wanted: np.float32, at: Real) -> AnyArray:
    """The kernel refuses negative values. Here their result is that of 0."""
    return np.floor(np.sqrt(np.maximum(stored, 0).astype(F32) * given) / wanted)


CURVES: Mapping[str, Callable[[np.float32, Real], Callable[[AnyArray], AnyArray]]] = {
    "exp": _exp,
    "gelu": _gelu,
    "log": _log,
    "rsqrt": _reciprocal_root,
}
"""The f32 functions that are interpolated, by logical kernel."""
WHOLE: Mapping[str, Callable[[IntArray, np.float32, np.float32, Real], AnyArray]] = {
    "abs": fixed_point_absolute,
    "leaky_relu": fixed_point_leaky_relu,
    "logistic": _logistic,
    "sqrt": _truncated_root,
    "tanh": _tanh,
}
"""Functions that compute the integer results for all values, by logical kernel."""
F64 = np.float64
EXPONENTIALS = _points(np.exp, F64(-LARGEST_DISTANCE), F64(0), F64(1 << 15))
"""The exponential table of softmax: exp(x) for x = -10 .. 0."""
GREATEST_EXPONENTIAL = int(_between(EXPONENTIALS)[-1])
"""The exponential of the greatest score. It is interpolated, too, so it is less than the last point."""
RECIPROCALS = _points(lambda x: 1 / (1 + x), F64(0), F64(1), F64(1 << 15))
"""The reciprocal table of softmax: 1 / (1 + x) for x = 0 .. 1."""
