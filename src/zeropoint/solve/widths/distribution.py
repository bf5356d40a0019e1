"""The distribution of a value, and the error that rounding the value causes in the result of a function.

Calibration states the medians of equal-count bins (`zeropoint.quantiles`). If only a range is known, the distribution
is assumed uniform over it, or log-uniform if all values have the same sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np

from zeropoint.ir.quant import Storage
from zeropoint.ir.tensors import Array
from zeropoint.numerics import dequantize, quantize
from zeropoint.numerics.noise import decibels
from zeropoint.numerics.ranges import asymmetric
from zeropoint.solve.value_constraint import NARROW

ASSUMED = 64
"""Number of points to assume if only a range is known."""
ROUNDINGS = 4.0
"""A multiple of the noise of rounding the result itself to 8 bits. Noise below it does not justify a wider operand."""
STEPS = 255

BETWEEN = 8
"""Points per observed point where the values are dense (`PointDistribution.dense`)."""
FAR = 8.0
"""A gap between observed points is empty if it is this many times as wide as the gaps on both sides of it."""

RealFunction = Callable[[Array], Array]
"""An elementwise function, from points of its operand to results."""
Noisy = Iterable[tuple[float, Array]]
"""Perturbed points, as (weight, points)."""


@dataclass(frozen=True, eq=False)
class PointDistribution:
    """Points of equal weight (f32), and the range that the value will be stored with.

    `extremes` are the minimum and maximum observed value if the range leaves some out. Storages of more than 8 bits
    hold them (`ValueConstraint.within`). `observed` are they in any case; None if they are unknown.
    """

    points: Array
    minimum: float
    maximum: float
    extremes: tuple[float, float] | None = None
    observed: tuple[float, float] | None = None

    @staticmethod
    def of(
        minimum: float,
        maximum: float,
        quantiles: Iterable[float] = (),
        extremes: tuple[float, float] | None = None,
        observed: tuple[float, float] | None = None,
    ) -> PointDistribution:
        """The distribution with these quantiles, or assumed from the range alone."""
        points = np.array(list(quantiles), np.float32)
        if not points.size:
            shares = (np.arange(ASSUMED) + 0.5) / ASSUMED
            if minimum > 0 or maximum < 0:
                points = minimum * (maximum / minimum) ** shares
            else:
                points = minimum + (maximum - minimum) * shares
        return PointDistribution(points.astype(np.float32), minimum, maximum, extremes, observed)

    def within(self, storage: Storage) -> PointDistribution:
        """The distribution with the range that a storage holds."""
        if self.extremes is None or storage.type.width <= NARROW:
            return self
        low, high = self.extremes
        return replace(self, minimum=low, maximum=high, extremes=None)

    def with_tails(self, storage: Storage) -> PointDistribution:
        """The distribution with the extremes as points, if the storage holds them and the range does not."""
        if (held := self.within(storage)) is self:
            return self
        return replace(held, points=np.append(held.points, np.array([held.minimum, held.maximum], np.float32)))

    def ends(self, storage: Storage) -> tuple[Array, Array]:
        """The extremes, each twice, and the same moved down and up by the standard deviation of their rounding.

        Empty for storages that do not hold the extremes. The medians of bins leave the extremes out, but the smallest
        divisor may contribute most of the power of the quotients. The extremes are moved both ways because the distance
        of the observed one to the next step is a coincidence: other values like it are rounded differently.
        """
        if storage.type.width <= NARROW:
            return np.empty(0, np.float32), np.empty(0, np.float32)
        held = self.within(storage)
        ends = np.repeat(np.array([held.minimum, held.maximum], np.float32), 2)
        moved = ends + np.array([-1, 1, -1, 1]) * (self.step(storage) / np.sqrt(12.0))
        return ends, np.clip(moved, min(held.minimum, 0.0), max(held.maximum, 0.0)).astype(np.float32)

    @cached_property
    def dense(self) -> PointDistribution:
        """The distribution with `BETWEEN` points per observed one, interpolated linearly between neighbours.

        The function may have a peak that the observed points miss: the 64 medians of a product's results step over most
        of the peak of 1 / sqrt(x^2 + 1e-4) at 0. Where the values have a gap, such as those of a mask, points are
        repeated instead.
        """
        points = np.sort(self.points.astype(np.float64))
        if points.size < 4:
            return self
        gaps = np.diff(points)
        beside = np.maximum(np.append(gaps[1:], 0.0), np.append(0.0, gaps[:-1]))
        filled = np.where(gaps <= FAR * beside, gaps, 0.0)
        shares = np.arange(BETWEEN) / BETWEEN
        made = points[:-1, None] + filled[:, None] * shares
        # Each observed point has half of its points below it and half above it.
        below, above = self.observed or (points[0], points[-1])
        ends = [_towards_zero(points[0], below), _towards_zero(points[-1], above)]
        return replace(self, points=np.concatenate([made.reshape(-1), *ends]).astype(np.float32))

    def step(self, storage: Storage) -> float:
        """The scale of the range in a storage type."""
        held = self.within(storage)
        return _scale_and_zero_point(held.minimum, held.maximum, storage.minimum, storage.maximum)[0]

    def rounded(self, storage: Storage) -> Array:
        """The points after a round trip through a storage type."""
        return self.rounded_points(self.points, storage)

    def rounded_points(self, points: Array, storage: Storage) -> Array:
        """Any points after a round trip through a storage type with this range."""
        held, bounds = self.within(storage), (storage.minimum, storage.maximum)
        scale, zero_point = _scale_and_zero_point(held.minimum, held.maximum, *bounds)
        stored = quantize(points, scale, zero_point, *bounds, expressed=np.float64)
        return dequantize(stored, scale, zero_point, np.float64).astype(np.float32)

    def rounded_noise(self, storage: Storage, deviation: float = 0.0) -> list[tuple[float, Array]]:
        """Like `rounded`, for points with normal noise of a standard deviation. Returns (weight, points) pairs."""
        if not deviation:
            return [(1.0, self.rounded(storage))]
        weights, noisy = zip(*with_noise(self.points, deviation), strict=True)
        return list(zip(weights, _at(partial(self.rounded_points, storage=storage), noisy), strict=True))

    @property
    def power(self) -> float:
        """The mean square."""
        return float((self.points.astype(np.float64) ** 2).mean())


@lru_cache(1 << 10)
def _scale_and_zero_point(minimum: float, maximum: float, low: int, high: int) -> tuple[float, int]:
    """The parameters of a range: those of a value are asked for by every reader, storage and kind of noise."""
    chosen = asymmetric(minimum, maximum, low, high)
    return float(chosen.scale), int(chosen.zero_point)


def _towards_zero(outermost: float, end: float) -> Array:
    """The outer half of the points of an outermost bin: evenly from its median to the observed end if that is nearer
    to 0, else its median, repeated.

    Values near 0 that 8 bits round to 0 decide what a logarithm or a reciprocal loses, however few they are. Values far
    from 0 count where a storage holds them (`with_tails`, `ends`).
    """
    count = BETWEEN // 2
    if not min(outermost, 0.0) <= end <= max(outermost, 0.0):
        return np.repeat(outermost, count)
    return end + (outermost - end) * (np.arange(count) + 0.5) / count


def loss(function: RealFunction, points: Array, changed: Noisy, computed: RealFunction | None = None) -> float:
    """The SQNR in dB of a function's results when its points are perturbed.

    The signal power is the variance of the results. If the results are constant, for example because a clamp saturates
    every point, it is their mean square. `changed` lists perturbed points with their weights. Points whose unperturbed
    result is not finite are ignored. The SQNR is -inf if a perturbation makes a result non-finite. It is +inf if the
    noise is small compared with rounding the result itself to 8 bits (`ROUNDINGS`). `computed` is the function that the
    kernel computes, if it differs from `function`.
    """
    weights, forms = zip(*changed, strict=True)
    with np.errstate(all="ignore"):
        if computed is None:
            expected, *found = _at(function, [points, *forms])
        else:
            expected, found = function(points), _at(computed, forms)
    expected = expected.astype(np.float64)
    kept = np.isfinite(expected)
    if not kept.any():
        return np.inf
    expected, found = expected[kept], [results.astype(np.float64)[kept] for results in found]
    if not all(np.isfinite(results).all() for results in found):
        return -np.inf
    terms = zip(weights, found, strict=True)
    noise = sum(weight * float(((results - expected) ** 2).mean()) for weight, results in terms)
    width = max(expected.max(), 0.0) - min(expected.min(), 0.0)
    if noise <= ROUNDINGS * (width / STEPS) ** 2 / 12:
        return np.inf
    signal = float(expected.var()) or float((expected**2).mean())
    return decibels(signal, noise)


def _at(function: RealFunction, parts: Sequence[Array]) -> list[Array]:
    """The results of an elementwise function at several arrays of points, from one call: for so few points, the number
    of calls counts."""
    results = function(np.concatenate(parts))
    # A function that is evaluated at all points of another operand has several results for a point.
    each = len(results) // max(1, sum(map(len, parts)))
    ends = np.cumsum([len(part) * each for part in parts])
    return [results[end - len(part) * each : end] for part, end in zip(parts, ends, strict=True)]


def normalized_loss(function: RealFunction, points: Array, changed: Noisy, variances: Array) -> float:
    """The SQNR in dB of rows that are divided by their own standard deviation, if the function before that is
    perturbed.

    `variances` are those of the rows, which all have the same noise. The result of a row has power 1. Its error is
    noise / variance, limited to 1: a row cannot be worse than lost.
    """
    with np.errstate(all="ignore"):
        expected = function(points).astype(np.float64)
        noise = sum(weight * float(((function(form) - expected) ** 2).mean()) for weight, form in changed)
    if not np.isfinite(noise):
        return -np.inf
    lost = float(np.minimum(noise / variances.astype(np.float64), 1.0).mean())
    return decibels(1.0, lost)


def with_noise(points: Array, deviation: float) -> list[tuple[float, Array]]:
    """Points with normal noise added, as (weight, points) at the three nodes of Gauss-Hermite quadrature."""
    far = np.float32(np.sqrt(3.0) * deviation)
    return [(1 / 6, points - far), (2 / 3, points), (1 / 6, points + far)]


def interpolated(function: RealFunction, seen: PointDistribution, segments: int) -> RealFunction:
    """A function that a kernel interpolates linearly between the ends of equal segments of a symmetric range.

    Where the function has no value, such as the logarithm of negative numbers, the kernel uses that of the next point.
    The type of the results is symmetric and holds the results of the observed points and ends. So log(1 + x) of
    positive numbers is stored from -max to max, and log(0) becomes -max. The difference of two neighbouring results is
    stored in as many bits as a result, and wraps around if it needs more.
    """
    greatest = max(abs(seen.minimum), abs(seen.maximum))
    ends = np.linspace(-greatest, greatest, segments + 1)
    with np.errstate(all="ignore"):
        observed = np.append(seen.points, np.array([seen.minimum, seen.maximum], np.float32))
        known, found = function(observed), function(ends).astype(np.float64)
    known = known[np.isfinite(known)]
    numbers = np.flatnonzero(~np.isnan(found))
    if not known.size or not numbers.size or not greatest:
        return function
    following = numbers[np.minimum(np.searchsorted(numbers, np.arange(ends.size)), numbers.size - 1)]
    bound = float(np.abs(known).max())
    values, period = np.clip(found[following], -bound, bound), 2.0 * bound or 1.0
    rises = _wrapped(np.diff(values), period)

    def computed(points: Array) -> Array:
        place = np.clip((points.astype(np.float64) / greatest + 1.0) / 2.0, 0.0, 1.0) * segments
        index = np.minimum(place.astype(np.int64), segments - 1)
        return _wrapped(values[index] + rises[index] * (place - index), period)

    return computed


def _wrapped(values: Array, period: float) -> Array:
    """Values wrapped into one period around 0. Values whose magnitude is at most half a period stay as they are."""
    return np.where(np.abs(values) > period / 2.0, values - period * np.round(values / period), values)
