"""Counts of the nonempty bins of a histogram, because a network of thousands of ops has thousands of histograms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zeropoint.ir.tensors import Array

BINS = 1 << 16
"""The maximum number of bins."""


def _none(dtype: type[np.generic]) -> Array:
    return np.zeros(0, dtype)


@dataclass(eq=False)
class Bins:
    """A histogram of up to 2^16 bins.

    `filled` (u16) has the indices of the nonempty bins in ascending order, `counts` (i64) their counts.
    """

    filled: Array = field(default_factory=lambda: _none(np.uint16))
    counts: Array = field(default_factory=lambda: _none(np.int64))

    def add(self, filled: Array, counts: Array) -> None:
        """Add counts above 0 to bins. Indices are ascending and unique."""
        filled = filled.astype(np.uint16)
        # A table of all bins, of which only the entries of both sets are initialized. This is faster than a search per
        # bin.
        place = np.empty(BINS, np.int32)
        place[filled] = -1
        place[self.filled] = np.arange(len(self.filled), dtype=np.int32)
        positions = place[filled]
        known = positions >= 0
        if not known.all():
            # NumPy sorts u16 by a radix sort, which is faster than a union by hashes.
            bins = np.sort(np.concatenate([self.filled, filled[~known]]), kind="stable")
            widened = np.zeros(len(bins), np.int64)
            widened[np.searchsorted(bins, self.filled)] = self.counts
            self.filled, self.counts = bins, widened
            positions = np.searchsorted(bins, filled)
        self.counts[positions] += counts

    def merge(self, other: Bins) -> Bins:
        """A histogram with the counts of both."""
        merged = Bins(self.filled, self.counts.copy())
        merged.add(other.filled, other.counts)
        return merged

    def clear(self) -> None:
        """Reset all counts."""
        self.filled, self.counts = _none(np.uint16), _none(np.int64)

    def dense(self, size: int) -> Array:
        """The counts of all bins, as i64."""
        found = np.zeros(size, np.int64)
        found[self.filled] = self.counts
        return found
