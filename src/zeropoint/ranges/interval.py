"""Bounds on the elements of an integer tensor: one pair for all elements, per channel, or per position.

Bounds are exact up to 2^63 - 2^24 in magnitude. Greater ones become `UNBOUNDED`, which fits no type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.storage import signed_range

EXACT = (1 << 63) - (1 << 24)
"""The greatest magnitude of an exact bound. f64 estimates decide whether it is exceeded. Its distance from 2^63 is
greater than their error, whose ratio to the bound is below 2^-40."""
UNBOUNDED = (1 << 63) - 1
SMALL = 1 << 61
"""Sums and products of at most this magnitude need no f64 estimate."""
LARGEST = 1 << 16
"""The maximum number of pairs of bounds for one tensor. Beyond that, the largest dimension is collapsed to one pair."""


@dataclass(frozen=True, eq=False)
class Interval:
    """low <= x <= high: int64 arrays of the same shape, which is () or broadcasts with the tensor's."""

    low: IntArray
    high: IntArray

    @staticmethod
    def of(low: int, high: int) -> Interval:
        """The same bounds for every element."""
        return Interval(_number(low), _number(high))

    @staticmethod
    def made(low: npt.ArrayLike, high: npt.ArrayLike) -> Interval:
        """Bounds from two arrays that broadcast with each other, narrowed to at most `LARGEST` pairs."""
        arrays = np.asarray(low, np.int64), np.asarray(high, np.int64)
        if arrays[0].shape != arrays[1].shape:
            arrays = np.broadcast_arrays(*arrays)
        return Interval(*arrays).narrowed()

    @staticmethod
    def channels(low: IntArray, high: IntArray, axis: int, rank: int) -> Interval:
        """A pair of bounds for each index of dimension `axis`, of a tensor of `rank` dimensions."""
        shape = [1] * rank
        shape[axis] = low.size
        return Interval.made(low.reshape(shape), high.reshape(shape))

    def narrowed(self) -> Interval:
        """Collapse the largest dimension until there are at most `LARGEST` pairs."""
        low, high = self.low, self.high
        # Wider bounds are still valid: collapsing loses precision, not soundness.
        while low.size > LARGEST:
            axis = int(np.argmax(low.shape))
            low, high = low.min(axis=axis, keepdims=True), high.max(axis=axis, keepdims=True)
        return Interval(low, high)

    def without(self, axes: Sequence[int]) -> Interval:
        """Collapse some dimensions to one pair."""
        axes = [axis for axis in axes if self.low.ndim and self.low.shape[axis] > 1]
        if not axes:
            return self
        return Interval(self.low.min(axis=tuple(axes), keepdims=True), self.high.max(axis=tuple(axes), keepdims=True))

    @property
    def hull(self) -> Interval:
        """One pair of bounds for all elements; 0 if there are none."""
        return self if self.low.ndim == 0 else Interval.of(self.least, self.greatest)

    @cached_property
    def least(self) -> int:
        """The least lower bound."""
        return _one(self.low, np.minimum)

    @cached_property
    def greatest(self) -> int:
        """The greatest upper bound."""
        return _one(self.high, np.maximum)

    @property
    def reach(self) -> int:
        """The greatest |x| of all elements."""
        return max(self.greatest, -self.least)

    @property
    def magnitude(self) -> IntArray:
        """The greatest |x| for each pair of bounds."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def axis(self) -> int | None:
        """The only dimension with a pair of bounds per index; None if there are none or several."""
        long = [axis for axis, size in enumerate(self.low.shape) if size > 1]
        return long[0] if len(long) == 1 else None

    @property
    def worst(self) -> tuple[int, ...]:
        """The index of the pair with the greatest |x|, in the dimensions that have several pairs."""
        if self.low.size <= 1:
            return ()
        index = np.unravel_index(int(self.magnitude.argmax()), self.low.shape)
        return tuple(int(at) for at, size in zip(index, self.low.shape, strict=True) if size > 1)

    def within(self, low: int, high: int) -> bool:
        """Whether every element is in low..high."""
        return low <= self.least and self.greatest <= high

    def fits(self, bits: int) -> bool:
        """Whether every element fits a two's complement integer of that many bits."""
        # `UNBOUNDED` is a number of 64 bits, but it must not count as one that fits.
        return self.within(*signed_range(bits)) and self.is_bounded

    @property
    def is_bounded(self) -> bool:
        """Whether the bounds are exact."""
        return self.reach <= EXACT

    # Arithmetic.

    def __add__(self, other: Interval) -> Interval:
        if self.reach + other.reach <= SMALL:
            return Interval.made(self.low + other.low, self.high + other.high)
        low, high = _sum(self.low, other.low), _sum(self.high, other.high)
        # A sum with an unbounded number is unbounded.
        for bounds in (self, other):
            low = np.where(bounds.low < -EXACT, -UNBOUNDED, low)
            high = np.where(bounds.high > EXACT, UNBOUNDED, high)
        return Interval.made(low, high)

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        # A product is monotone in each factor, so its extremes are products of ends.
        multiply = np.multiply if self.reach * other.reach <= SMALL else product
        corners = [multiply(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval.made(np.minimum.reduce(corners), np.maximum.reduce(corners))

    def times(self, count: int) -> Interval:
        """The sum of `count` elements."""
        return self * Interval.of(count, count)

    def any_of(self, count: int) -> Interval:
        """All partial sums of `count` elements, in any order."""
        # An element that a partial sum leaves out counts as 0.
        return self.with_zero().times(count)

    def summed(self, shape: Sequence[int], axes: Sequence[int]) -> Interval:
        """The sum over dimensions `axes` of a tensor of the given shape; these dimensions are removed."""
        if self.low.ndim == 0:
            return self.times(math.prod(shape[axis] for axis in axes))
        # Dimensions with one pair of bounds for all indices are multiplied instead of summed.
        once = math.prod(shape[axis] for axis in axes if self.low.shape[axis] == 1)
        along = tuple(axes)
        # The f64 estimate detects overflow, because a sum of int64 may wrap. A sum with an unbounded number is
        # unbounded.
        parts = [
            np.where(
                (np.abs(bounds) > EXACT).any(axis=along),
                side,
                _checked(bounds.sum(axis=along, dtype=np.float64), bounds.sum(axis=along)),
            )
            for bounds, side in ((self.low, -UNBOUNDED), (self.high, UNBOUNDED))
        ]
        return Interval(*parts).times(once)

    def with_zero(self) -> Interval:
        """The least interval that also contains 0."""
        return Interval(np.minimum(self.low, 0), np.maximum(self.high, 0))

    def join(self, other: Interval) -> Interval:
        """The least interval that contains both."""
        return Interval.made(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def extreme(self, other: Interval, function: np.ufunc) -> Interval:
        """Elementwise `np.maximum` or `np.minimum`."""
        return Interval.made(function(self.low, other.low), function(self.high, other.high))

    def clamped(self, low: int, high: int) -> Interval:
        """The bounds after clamping elements to low..high."""
        return Interval(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def mapped(self, function: Callable[[AnyArray], AnyArray]) -> Interval:
        """The image under a nondecreasing function."""
        return Interval.made(function(self.low), function(self.high))

    def moved(self, function: Callable[[IntArray], IntArray]) -> Interval:
        """Apply a data movement function to the arrays of bounds; a single pair is unchanged."""
        return self if self.low.ndim == 0 else Interval.made(function(self.low), function(self.high))


def joined(intervals: Iterable[Interval]) -> Interval:
    """The least interval that contains all of them."""
    first, *others = intervals
    for other in others:
        first = first.join(other)
    return first


def of_array(array: AnyArray) -> Interval:
    """The bounds of a constant array: its elements, with dimensions collapsed along which they are equal."""
    if array.size == 0:
        return Interval.of(0, 0)
    # Sums with large weights get bounds per channel in `contraction.py`, from the array itself.
    if array.size > LARGEST:
        return Interval.of(int(array.min()), int(array.max()))
    whole = array.astype(np.int64)
    for axis in range(whole.ndim):
        first = whole.take([0], axis=axis)
        if whole.shape[axis] > 1 and bool((whole == first).all()):
            whole = first
    return Interval.made(whole, whole) if whole.size > 1 else Interval.of(int(whole.min()), int(whole.max()))


def product(a: IntArray, b: IntArray) -> IntArray:
    """a * b, or `UNBOUNDED` beyond `EXACT`."""
    # NumPy warns if scalars wrap around, but not if arrays do.
    with np.errstate(over="ignore"):
        return _checked(a.astype(np.float64) * b.astype(np.float64), a * b)


def _sum(a: IntArray, b: IntArray) -> IntArray:
    with np.errstate(over="ignore"):
        return _checked(a.astype(np.float64) + b.astype(np.float64), a + b)


def _checked(estimate: npt.NDArray[np.float64], exact: IntArray) -> IntArray:
    """`exact` if its f64 estimate (relative error below 2^-40) is at most `EXACT` in magnitude, else +-`UNBOUNDED`."""
    # The exact result may have wrapped around, so the f64 estimate decides. `EXACT` leaves more room than its error.
    past = np.abs(estimate) > EXACT
    return np.asarray(np.where(past, np.where(estimate > 0, UNBOUNDED, -UNBOUNDED), exact), np.int64)


def _one(bounds: IntArray, extreme: np.ufunc) -> int:
    """The extreme of bounds; 0 if there are none."""
    if bounds.ndim == 0:
        return int(bounds)
    return int(extreme.reduce(bounds, axis=None)) if bounds.size else 0


def _number(number: int) -> IntArray:
    # Python integers are unbounded, but NumPy raises an error beyond int64.
    return np.asarray(max(-UNBOUNDED, min(UNBOUNDED, number)), np.int64)
