"""The distribution of the values at one point in compact form, for reports: the nonempty bins of an observer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.calibrate.bins import Bins
from zeropoint.calibrate.histogram import DistributionObserver, PercentileObserver, bin_edges
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.observers import MinMaxObserver, Observer
from zeropoint.ir.tensors import Array

PERCENTILES = (99.9, 99.99)
"""Percentiles whose ranges are shown next to those of the other observers."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of the finite values at one point.

    `bins` has the indices of the nonempty bins of `PercentileObserver`'s histogram, and `counts` their counts.
    """

    extremes: MinMaxObserver
    bins: Array
    counts: Array

    @staticmethod
    def of(observer: Observer) -> Distribution | None:
        """The distribution that an observer has seen; None if it has seen nothing or keeps no histogram."""
        if isinstance(observer, DistributionObserver):
            observer = observer.seen
        if not isinstance(observer, PercentileObserver) or not observer.count:
            return None
        return Distribution(observer.extremes, observer.histogram.filled.astype(np.int64), observer.histogram.counts)

    def _ends(self) -> tuple[Array, Array, Array]:
        """The lower and upper end of each nonempty bin of finite values, within the extremes, and its count."""
        low, high = bin_edges(self.bins)
        order = np.argsort(low, kind="stable")
        # The bin of the largest floats ends at infinity, and the bin of infinities has no finite end.
        keep = order[np.isfinite(high[order]) | np.isfinite(low[order])]
        least, most = self.extremes.minimum, self.extremes.maximum
        return low[keep].clip(least, most), high[keep].clip(least, most), self.counts[keep]

    def histogram(self, low: float, high: float, bins: int) -> Array:
        """Counts in `bins` bins of equal width from `low` to `high`. The values of each observer bin count as evenly
        spread in it."""
        starts, stops, counts = self._ends()
        reached = np.cumsum(counts, dtype=np.float64)
        bounds = np.stack([starts, np.maximum(stops, np.nextafter(starts, np.inf))], axis=1).reshape(-1)
        below = np.stack([reached - counts, reached], axis=1).reshape(-1)
        edges = np.linspace(low, high, bins + 1)
        edges[0], edges[-1] = -np.inf, np.inf  # the extremes belong to the outer bins
        return np.diff(np.rint(np.interp(edges, bounds, below))).astype(np.int64)

    def outside(self, low: float, high: float) -> float:
        """The share of values below `low` or above `high`, accurate to the width of a bin (0.8 % of the value)."""
        starts, stops, counts = self._ends()
        return float(counts[(starts > high) | (stops < low)].sum() / counts.sum())

    def ranges(self) -> dict[str, tuple[float, float]]:
        """The ranges that observers choose for these values, by the observers' names."""
        seen = PercentileObserver(100.0, self.extremes, Bins(self.bins.astype(np.uint16), self.counts))
        found = {"minmax": seen.range(), "mse": MeanSquareObserver(seen).range()}
        for percentile in PERCENTILES:
            observer = PercentileObserver(percentile, self.extremes, seen.histogram)
            found[f"percentile:{percentile:g}"] = observer.range()
        return found
