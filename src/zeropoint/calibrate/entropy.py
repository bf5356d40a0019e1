"""The range that keeps the distribution closest to the observed one, by relative entropy (Kullback-Leibler).

For a threshold t, P is the distribution of the values inside [-t, t] over fine bins, with the values outside added to
its ends. Q is the distribution of the values inside after rounding to 255 steps: within a step, all nonempty bins share
its mass equally. The observer chooses the threshold with the smallest sum of P log(P / Q). The range is the observed
one, cut at -t and t. Zeros are left out, because zero is exact in every range, and after a relu most values are zero.

Source: Migacz, "8-bit Inference with TensorRT", GTC 2017, slides 20 to 31.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.calibrate.distribution import Distribution
from zeropoint.calibrate.histogram import DistributionObserver, bin_edges
from zeropoint.ir.tensors import Array

STEPS = 255
"""The number of steps of 8-bit storage."""
BINS = 2048
"""The number of fine bins of the observed range."""
CANDIDATES = 112
"""The number of thresholds: multiples of 1/128 of the largest magnitude, down to an eighth of it."""
LEAST_MASS = 1e-9
"""The minimum share of a bin in Q, so that P / Q is finite in bins whose values were all clipped."""


@dataclass(eq=False)
class EntropyObserver(DistributionObserver):
    """The range, within the observed one, with the smallest relative entropy of the values in 8-bit storage."""

    def range(self) -> tuple[float, float]:
        """The two ends, each an f32. Raises ValueError if no finite value was seen."""
        minimum, maximum = self.seen.range()
        low, high = min(minimum, 0.0), max(maximum, 0.0)
        masses = self._masses(low, high)
        if not masses.any():
            return minimum, maximum
        edges = np.linspace(low, high, BINS + 1)
        greatest = max(-low, high)
        thresholds = greatest * (1 - np.arange(CANDIDATES) / 128)  # the widest first, so that it wins ties
        costs = [_divergence(masses, max(low, -t), min(high, t), edges) for t in thresholds]
        best = thresholds[int(np.argmin(costs))]
        return float(np.float32(max(minimum, -best))) + 0.0, float(np.float32(min(maximum, best))) + 0.0

    def _masses(self, low: float, high: float) -> Array:
        """The number of nonzero values in `BINS` equal parts of [low, high]."""
        found = Distribution.of(self.seen)
        assert found is not None
        starts, stops = bin_edges(found.bins)
        nonzero = np.isfinite(starts) & (starts != stops)
        if not nonzero.any():
            return np.zeros(BINS, np.int64)
        return Distribution(found.extremes, found.bins[nonzero], found.counts[nonzero]).histogram(low, high, BINS)


def _divergence(masses: Array, low: float, high: float, edges: Array) -> float:
    """The relative entropy of P with respect to Q for the range [low, high]."""
    first, last = np.searchsorted(edges, [low, high], side="right") - 1
    # at least one bin, however narrow the range is
    last = min(max(int(last), int(first) + 1), BINS)
    inside = masses[first:last]
    wanted = inside.copy()
    # Clipped values count at the ends of P but not of Q. This is the cost of clipping.
    wanted[0] += masses[:first].sum()
    wanted[-1] += masses[last:].sum()
    steps = np.arange(len(inside)) * min(STEPS, len(inside)) // len(inside)
    filled = inside > 0
    # Over the nonempty bins only, because no value of an empty bin is rounded into the step.
    shared = np.bincount(steps, inside) / np.maximum(np.bincount(steps, filled), 1)
    kept = np.where(filled, shared[steps], 0.0)
    if not kept.any():
        return np.inf
    wanted, kept = wanted / wanted.sum(), np.maximum(kept / kept.sum(), LEAST_MASS)
    some = wanted > 0
    return float((wanted[some] * np.log(wanted[some] / kept[some])).sum())
