"""Percentiles of the observed values, from a histogram with fixed bins over all f32 numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from zeropoint.calibrate.bins import Bins
from zeropoint.calibrate.observers import Counted, MinMaxObserver, Observer, as_f32, in_memory_order
from zeropoint.errors import OptionError
from zeropoint.interp import BinCounter, CountingEngine, Engine, MaskedEngine
from zeropoint.ir.tensors import Array

MANTISSA_BITS = 7
"""Mantissa bits that select a histogram bin, in addition to the sign and the exponent."""
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)
"""Half the width of a bin, relative to any value in it."""
ABSOLUTE_ERROR = 2.0 ** (-126 - MANTISSA_BITS)
"""The width of a bin of subnormals. Values in the two bins next to zero count as zero."""

_EXPONENT_BITS, _F32_MANTISSA_BITS = 8, 23
_SHIFT = _F32_MANTISSA_BITS - MANTISSA_BITS  # 16, so that a bin is the upper half of a value
_HALF_LINE = 1 << (_EXPONENT_BITS + MANTISSA_BITS)
_FIRST_NON_FINITE = (2**_EXPONENT_BITS - 1) << MANTISSA_BITS


def _upper_halves(words: Array) -> Array:
    """A `BinCounter` in NumPy."""
    return np.bincount(words >> _SHIFT)


@dataclass(eq=False)
class PercentileObserver(Counted):
    """The range between the (100 - percentile)th and the percentile-th percentile of the finite values.

    Values are counted in a histogram over all f32 numbers with fixed bins: the sign, the exponent and the top
    `MANTISSA_BITS` bits of the mantissa (2^16 bins, of which only nonempty ones are stored). Percentiles are defined as
    in `numpy.percentile`, by linear interpolation between two order statistics. Each order statistic is known only up
    to its bin. An order statistic x has an error of at most RELATIVE_ERROR * |x| + ABSOLUTE_ERROR, and a percentile at
    most the larger error of its two. The result stays within the observed minimum and maximum, which are exact.
    `percentile` 100 gives exactly these.
    """

    percentile: float = 99.99
    extremes: MinMaxObserver = field(default_factory=MinMaxObserver)
    histogram: Bins = field(default_factory=Bins, repr=False)
    """Counts, indexed by the top bits of the f32: positive values first, then negative ones by increasing magnitude."""

    counter: BinCounter = field(default=_upper_halves, repr=False)
    """Finds the bins of values."""

    def __post_init__(self) -> None:
        if not 50 < self.percentile <= 100:
            raise OptionError(f"found percentile {self.percentile:g}; expected more than 50 and at most 100, as 99.99")

    @property
    def counted(self) -> MinMaxObserver:
        """The observer that counts the values."""
        return self.extremes

    def update(self, array: Array) -> None:
        """Count the values of a float array. Raises TypeError for other dtypes."""
        values = in_memory_order(as_f32(array))
        self.extremes.update(values)
        # The upper bits of the f32 are the bin: no search, and the same bin for a value on every machine.
        self.histogram.add_all(self.counter(values.view(np.uint32)))

    def merge(self, other: PercentileObserver) -> PercentileObserver:
        """An observer with the counts of both. Raises ValueError if the percentiles differ."""
        if self.percentile != other.percentile:
            raise ValueError(f"found percentiles {self.percentile:g} and {other.percentile:g}; expected equal ones")
        merged = self.extremes.merge(other.extremes)
        return PercentileObserver(self.percentile, merged, self.histogram.merge(other.histogram))

    def quantiles(self, parts: int) -> tuple[float, ...]:
        """The medians of `parts` equal-count bins, as accurate as the percentiles."""
        counts, middles = bin_middles(self)
        ranks = (np.arange(parts) + 0.5) / parts * self.count
        found = middles[np.searchsorted(counts.cumsum(), ranks, side="right")]
        # The middle of a bin may lie beyond the values in it, but no quantile lies beyond the extremes, which are
        # exact.
        kept = np.clip(found, self.extremes.minimum, self.extremes.maximum).astype(np.float32)
        return tuple(map(float, kept))

    def range(self) -> tuple[float, float]:
        """The two percentiles, rounded to f32. Raises ValueError if no finite value was seen."""
        ends = self.extremes.range()
        if self.percentile == 100.0:
            return ends
        counts, bins = _finite_bins(self)
        cumulative = counts.cumsum()
        return self._at(cumulative, bins, 100.0 - self.percentile), self._at(cumulative, bins, self.percentile)

    def _at(self, cumulative: Array, bins: Array, percent: float) -> float:
        """The percentile: linear interpolation between the order statistics around rank percent / 100 * (count - 1)."""
        rank = percent / 100.0 * (self.count - 1)
        below = math.floor(rank)
        low = self._order_statistic(cumulative, bins, below)
        high = self._order_statistic(cumulative, bins, min(below + 1, self.count - 1))
        weight = rank - below
        return float(np.float32((1.0 - weight) * low + weight * high)) + 0.0  # no -0.0, as in MinMaxObserver

    def _order_statistic(self, cumulative: Array, bins: Array, rank: int) -> float:
        """The middle of the bin with the rank-th smallest value (from 0), clamped to the observed extremes."""
        # The first and the last order statistic are known exactly.
        if rank == 0:
            return self.extremes.minimum
        if rank == self.count - 1:
            return self.extremes.maximum
        middle = float(_middles(bins[np.searchsorted(cumulative, rank, side="right")]))
        return min(max(middle, self.extremes.minimum), self.extremes.maximum)


def _finite_bins(observer: PercentileObserver) -> tuple[Array, Array]:
    """The counts of the nonempty bins of finite values, and the bins, in ascending order of the values.

    Bins are numbered from zero: 0, 1, ... upwards and -1, -2, ... downwards, as i64.
    """
    # Only the nonempty ones, because small networks have a hundred histograms of a hundred values.
    filled, counts = observer.histogram.filled.astype(np.int64), observer.histogram.counts
    magnitudes, is_negative = filled % _HALF_LINE, filled >= _HALF_LINE
    is_finite = magnitudes < _FIRST_NON_FINITE
    below, above = is_finite & is_negative, is_finite & ~is_negative
    bins = np.concatenate([-1 - magnitudes[below][::-1], magnitudes[above]])
    return np.concatenate([counts[below][::-1], counts[above]]), bins


def _middles(bins: Array) -> Array:
    """The middles, as f64, of bins numbered from zero. They are 0 for the two bins next to zero."""
    magnitudes = np.where(bins < 0, -1 - bins, bins)
    # The bin's bits followed by a one and zeros. This is the middle for subnormals, too.
    middles = ((2 * magnitudes + 1) << (_SHIFT - 1)).astype(np.uint32).view(np.float32).astype(np.float64)
    # Values in the two bins next to zero count as zeros, which are exact in every range.
    return np.where(magnitudes == 0, 0.0, np.where(bins < 0, -middles, middles))


def bin_middles(observer: PercentileObserver) -> tuple[Array, Array]:
    """The counts of the nonempty bins of finite values, and their middles in f64, in ascending order."""
    counts, bins = _finite_bins(observer)
    return counts, _middles(bins)


def bin_edges(bins: Array) -> tuple[Array, Array]:
    """The lower and upper end, as f64, of bins by their index in the histogram. The bins next to zero hold only 0."""
    magnitude = bins % _HALF_LINE
    with np.errstate(invalid="ignore"):  # bins of NaN
        near = (magnitude.astype(np.uint32) << _SHIFT).view(np.float32).astype(np.float64)
        far = ((magnitude + 1).astype(np.uint32) << _SHIFT).view(np.float32).astype(np.float64)
    far[magnitude == 0] = 0.0
    negative = bins >= _HALF_LINE
    return np.where(negative, -far, near), np.where(negative, -near, far)


def _everything() -> PercentileObserver:
    return PercentileObserver(100.0)


@dataclass(eq=False)
class DistributionObserver(Counted):
    """The base of observers that choose a range from the whole distribution of the values.

    The state is the histogram of `PercentileObserver`. Its size is bounded, it merges exactly, and it does not depend
    on the order of the samples.
    """

    seen: PercentileObserver = field(default_factory=_everything)

    @property
    def counted(self) -> MinMaxObserver:
        """The observer that counts the values."""
        return self.seen.extremes

    def update(self, array: Array) -> None:
        """Count the values of a float array. Raises TypeError for other dtypes."""
        self.seen.update(array)

    def merge(self, other: Self) -> Self:
        """An observer that has seen the values of both."""
        return type(self)(self.seen.merge(other.seen))

    def quantiles(self, parts: int) -> tuple[float, ...]:
        """The medians of `parts` equal-count bins."""
        return self.seen.quantiles(parts)


def count_by(engine: Engine, observers: Iterable[Observer]) -> None:
    """Let an engine that can count the bins of observers do so."""
    inner = engine.engine if isinstance(engine, MaskedEngine) else engine
    if not isinstance(inner, CountingEngine):
        return
    counter = inner.bin_counter()
    for observer in observers:
        seen = observer.seen if isinstance(observer, DistributionObserver) else observer
        if isinstance(seen, PercentileObserver):
            seen.counter = counter
