"""The range with the least mean squared quantization error, from a histogram.

In a range of `STEPS` steps of size s, a value inside has a mean squared error of s^2 / 12. The error of a value outside
is its squared distance from the nearer end. A narrower range has smaller steps but clips more. Zero is exact in every
range that contains it, so it costs nothing. After a relu, most values are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zeropoint.calibrate.histogram import DistributionObserver, bin_middles
from zeropoint.ir.tensors import Array

STEPS = 255
"""The number of steps of 8-bit storage."""
CANDIDATES = 96
"""The number of candidate ends per side: multiples of 1/CANDIDATES of the observed end, down to a quarter of it."""
LEAST_SHARE = 0.25


@dataclass(eq=False)
class MeanSquareObserver(DistributionObserver):
    """The range, within the observed one, with the smallest expected squared error in 8-bit storage."""

    _found: tuple[int, tuple[float, float]] | None = field(default=None, init=False, repr=False)
    """The number of values when the range was last asked for, and the range."""

    def range(self) -> tuple[float, float]:
        """The two ends, each an f32. Raises ValueError if no finite value was seen."""
        if self._found is None or self._found[0] != self.count:
            self._found = self.count, self._search()
        return self._found[1]

    def _search(self) -> tuple[float, float]:
        minimum, maximum = self.seen.range()
        counts, values = bin_middles(self.seen)
        low_ends, low_cost = _ends(max(-minimum, 0.0), counts[values < 0][::-1], -values[values < 0][::-1])
        high_ends, high_cost = _ends(max(maximum, 0.0), counts[values > 0], values[values > 0])
        # All pairs of a candidate low end and a candidate high end. Ends are magnitudes.
        step = (low_ends[:, None] + high_ends[None, :]) / STEPS
        # Zeros are exact, so they have no rounding error and do not favour smaller steps.
        rounded = float(counts[values != 0].sum())
        # The clipping errors of the two sides are independent. Only the step couples them, so all pairs are one outer
        # sum.
        error = low_cost[:, None] + high_cost[None, :] + rounded * step**2 / 12.0
        low, high = np.unravel_index(int(error.argmin()), error.shape)
        return float(np.float32(-low_ends[low])) + 0.0, float(np.float32(high_ends[high]))

    def cut_off(self, limits: tuple[float, float]) -> float:
        """The clipping error of a range: the mean over all values of the squared distance from the range."""
        counts, values = bin_middles(self.seen)
        extremes = self.seen.extremes
        values = np.clip(values, extremes.minimum, extremes.maximum)  # the middle of a bin may lie outside
        return float((counts * (values - np.clip(values, *limits)) ** 2).sum() / self.count)


def _ends(extreme: float, counts: Array, magnitudes: Array) -> tuple[Array, Array]:
    """Candidate ends on one side, as magnitudes, and the clipping error of each: the sum of (x - end)^2 over x > end.

    `magnitudes` is ascending. `extreme` is the largest magnitude seen, 0 if there is none on this side. With S0, S1 and
    S2 the sums of 1, x and x^2 over the values above an end, the error is S2 - 2 end S1 + end^2 S0.
    """
    if extreme == 0.0:
        return np.zeros(1), np.zeros(1)
    shares = np.arange(int(np.ceil(LEAST_SHARE * CANDIDATES)), CANDIDATES + 1) / CANDIDATES
    ends = extreme * shares
    moments = counts * np.stack([np.ones_like(magnitudes), magnitudes, magnitudes**2])
    tails = np.zeros((3, len(magnitudes) + 1))
    tails[:, :-1] = moments[:, ::-1].cumsum(axis=1)[:, ::-1]
    s0, s1, s2 = tails[:, np.searchsorted(magnitudes, ends, side="right")]
    # The difference of nearly equal sums may be slightly negative.
    cut = np.maximum(s2 - 2.0 * ends * s1 + ends**2 * s0, 0.0)
    cut[-1] = 0.0  # the observed extreme clips nothing, but the middle of its bin may lie above it
    return ends, cut
