"""What is kept of the values seen at one point of a program, and the range that follows from it.

Every observer has a state of fixed size that depends on the multiset of the values only: the order of the samples, and
how they were split among observers that are merged later, change no bit of it. Values are observed in f32, in which
`quant.stats` states them; f16 and bf16 widen exactly, f64 rounds (and saturates).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np

from zeropoint.ir.tensors import Array

_F32 = np.dtype(np.float32)
_FLOAT_NAMES = ("float16", "bfloat16", "float32", "float64")


class Observer(Protocol):
    """Counts and a range, in constant memory."""

    @property
    def count(self) -> int:
        """The number of finite values seen."""
        ...

    @property
    def nan_count(self) -> int:
        """The number of NaN seen; they take no part in the range."""
        ...

    @property
    def infinite_count(self) -> int:
        """The number of infinities seen; they take no part in the range."""
        ...

    def update(self, array: Array) -> None:
        """See the values of a float array of any shape."""
        ...

    def merge(self, other: Self) -> Self:
        """An observer that has seen what both have; neither changes."""
        ...

    def range(self) -> tuple[float, float]:
        """(minimum, maximum) to represent, each a f32. Raises ValueError where no finite value was seen."""
        ...


ObserverFactory = Callable[[], Observer]


@dataclass
class MinMaxObserver:
    """The least and the greatest finite value."""

    minimum: float = math.inf
    maximum: float = -math.inf
    count: int = 0
    nan_count: int = 0
    infinite_count: int = 0

    def update(self, array: Array) -> None:
        """See the values of a float array. Raises TypeError for one that holds no floats."""
        values = as_f32(array)
        if values.size == 0:
            return
        low, high = values.min(), values.max()  # NaN wins in both, so two finite extremes prove every value finite
        if not (np.isfinite(low) and np.isfinite(high)):
            nan_count = int(np.count_nonzero(np.isnan(values)))
            finite = values[np.isfinite(values)]
            self.nan_count += nan_count
            self.infinite_count += values.size - finite.size - nan_count
            values = finite
            if values.size == 0:
                return
            low, high = values.min(), values.max()
        self.count += values.size
        # Adding 0.0 turns -0.0 into 0.0: which of the two a minimum finds depends on the order.
        self.minimum = min(self.minimum, float(low) + 0.0)
        self.maximum = max(self.maximum, float(high) + 0.0)

    def merge(self, other: MinMaxObserver) -> MinMaxObserver:
        """The extremes of both."""
        return MinMaxObserver(
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.count + other.count,
            self.nan_count + other.nan_count,
            self.infinite_count + other.infinite_count,
        )

    def range(self) -> tuple[float, float]:
        """The least and the greatest finite value. Raises ValueError where there was none."""
        if not self.count:
            raise ValueError("found no finite value; expected at least one before the range is asked for")
        return self.minimum, self.maximum


MANTISSA_BITS = 7
"""How many bits of the mantissa tell the histogram's bins apart, beside the sign and the exponent."""
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)
"""Half the width of a bin, relative to any value in it."""
ABSOLUTE_ERROR = 2.0 ** (-126 - MANTISSA_BITS)
"""The width of a bin of subnormals; the two that meet at zero count as zero."""

_EXPONENT_BITS, _F32_MANTISSA_BITS = 8, 23
_SHIFT = _F32_MANTISSA_BITS - MANTISSA_BITS
_HALF_LINE = 1 << (_EXPONENT_BITS + MANTISSA_BITS)
_FIRST_NON_FINITE = (2**_EXPONENT_BITS - 1) << MANTISSA_BITS


def _new_histogram() -> Array:
    return np.zeros(2 * _HALF_LINE, dtype=np.int64)


@dataclass(eq=False)
class PercentileObserver:
    """The range between the (100 - percentile)th and the percentile-th percentile of the finite values.

    The values are counted in a histogram over the f32 number line whose bins are fixed: sign, exponent and the top
    `MANTISSA_BITS` bits of the mantissa (2^16 counts, 512 KiB). A percentile is the one of `numpy.percentile` (linear
    interpolation between two order statistics), with each order statistic known up to its bin: an order statistic x is
    off by at most RELATIVE_ERROR * |x| + ABSOLUTE_ERROR, and a percentile by no more than the worse of its two. The
    result never leaves the observed minimum and maximum, which are exact; `percentile` 100 gives just these.
    """

    percentile: float = 99.99
    extremes: MinMaxObserver = field(default_factory=MinMaxObserver)
    histogram: Array = field(default_factory=_new_histogram, repr=False)
    """Counts by the top bits of the f32: positive values upwards from 0, negative ones downwards in the second half."""

    def __post_init__(self) -> None:
        if not 50 < self.percentile <= 100:
            raise ValueError(f"found percentile {self.percentile:g}; expected more than 50 and at most 100, as 99.99")

    @property
    def count(self) -> int:
        """The number of finite values seen."""
        return self.extremes.count

    @property
    def nan_count(self) -> int:
        """The number of NaN seen."""
        return self.extremes.nan_count

    @property
    def infinite_count(self) -> int:
        """The number of infinities seen."""
        return self.extremes.infinite_count

    def update(self, array: Array) -> None:
        """See the values of a float array. Raises TypeError for one that holds no floats."""
        values = np.ascontiguousarray(as_f32(array)).reshape(-1)
        self.extremes.update(values)
        self.histogram += np.bincount(values.view(np.uint32) >> _SHIFT, minlength=self.histogram.size)

    def merge(self, other: PercentileObserver) -> PercentileObserver:
        """The sum of the counts. Raises ValueError where the percentiles differ."""
        if self.percentile != other.percentile:
            raise ValueError(f"found percentiles {self.percentile:g} and {other.percentile:g}; expected equal ones")
        merged = self.extremes.merge(other.extremes)
        return PercentileObserver(self.percentile, merged, self.histogram + other.histogram)

    def range(self) -> tuple[float, float]:
        """The two percentiles, rounded to f32. Raises ValueError where no finite value was seen."""
        self.extremes.range()
        negative = self.histogram[_HALF_LINE : _HALF_LINE + _FIRST_NON_FINITE]
        cumulative = np.concatenate([negative[::-1], self.histogram[:_FIRST_NON_FINITE]]).cumsum()
        return self._at(cumulative, 100.0 - self.percentile), self._at(cumulative, self.percentile)

    def _at(self, cumulative: Array, percent: float) -> float:
        """Linear interpolation between the order statistics on both sides of rank percent / 100 * (count - 1)."""
        rank = percent / 100.0 * (self.count - 1)
        below = math.floor(rank)
        low = self._order_statistic(cumulative, below)
        high = self._order_statistic(cumulative, min(below + 1, self.count - 1))
        weight = rank - below
        return float(np.float32((1.0 - weight) * low + weight * high)) + 0.0  # no -0.0, as in MinMaxObserver

    def _order_statistic(self, cumulative: Array, rank: int) -> float:
        """The middle of the bin with the rank-th smallest value (from 0), or the extreme that cuts it off."""
        if rank == 0:
            return self.extremes.minimum
        if rank == self.count - 1:
            return self.extremes.maximum
        place = int(np.searchsorted(cumulative, rank, side="right")) - _FIRST_NON_FINITE
        middle = _bin_middle(place) if place >= 0 else -_bin_middle(-place - 1)
        return min(max(middle, self.extremes.minimum), self.extremes.maximum)


def _bin_middle(index: int) -> float:
    """The middle of the index-th bin above zero; zero for the first one, in which zero itself is."""
    # The f32 whose mantissa goes on with a one and then zeros, which is half way up in a bin of subnormals too.
    return float(np.uint32((2 * index + 1) << (_SHIFT - 1)).view(np.float32)) if index else 0.0


def as_f32(array: Array) -> Array:
    """The values of a float array in f32; f64 is rounded, and finite values past the range of f32 saturate.

    Raises TypeError where the array holds no floats.
    """
    array = np.asarray(array)
    if array.dtype == _F32:
        return array
    if array.dtype.name not in _FLOAT_NAMES:
        raise TypeError(f"found values of dtype {array.dtype}; expected floats, only they have a range to observe")
    if array.dtype == np.float64:
        limit = float(np.finfo(np.float32).max)
        array = np.where(np.isinf(array), array, np.clip(array, -limit, limit))
    return array.astype(np.float32)


def _minmax(argument: str) -> ObserverFactory:
    if argument:
        raise ValueError(f"found observer 'minmax:{argument}'; expected 'minmax', which takes no argument")
    return MinMaxObserver


def _percentile(argument: str) -> ObserverFactory:
    try:
        percentile = float(argument) if argument else PercentileObserver.percentile
    except ValueError:
        raise ValueError(f"found observer 'percentile:{argument}'; expected a number, as 'percentile:99.9'") from None
    PercentileObserver(percentile)  # raises for a percentile that makes no sense
    return lambda: PercentileObserver(percentile)


OBSERVERS: dict[str, Callable[[str], ObserverFactory]] = {"minmax": _minmax, "percentile": _percentile}
"""By name: from what follows the colon ("99.9" of "percentile:99.9") to a maker of observers."""


def observer_factory(text: str) -> ObserverFactory:
    """The maker of observers that `text` names: "minmax", "percentile", "percentile:99.9".

    Raises ValueError, naming the choices.
    """
    name, _, argument = text.partition(":")
    if name not in OBSERVERS:
        raise ValueError(f"found observer '{text}'; expected one of: {', '.join(OBSERVERS)} (or percentile:99.9)")
    return OBSERVERS[name](argument)
