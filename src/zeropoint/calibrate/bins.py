"""Counts of the nonempty bins of a histogram, because a network of thousands of ops has thousands of histograms."""

from __future__ import annotations

import numpy as np

from zeropoint.ir.tensors import Array

BINS = 1 << 16
"""The greatest number of bins."""
_HALF = BINS // 2


class _Half:
    """The counts of one half of the bins: of its first bin, and of a window around all others that are filled.

    The first bin is far from the others: it has the zeros of one sign.
    """

    def __init__(self) -> None:
        self.first = 0
        self.start = 1
        self.window: Array = np.zeros(0, np.int64)

    def add(self, counts: Array) -> None:
        """Add the counts of all bins, up to the last one that is filled."""
        if not len(counts):
            return
        self.first += int(counts[0])
        end = self.start + len(self.window)
        if counts[end:].any() or counts[1 : self.start].any():
            self._widen(np.flatnonzero(counts[1:] != 0) + 1)
        inside = counts[self.start : self.start + len(self.window)]
        self.window[: len(inside)] += inside

    def _widen(self, filled: Array) -> None:
        """Widen the window to these bins, ascending."""
        start, end = int(filled[0]), int(filled[-1]) + 1
        if len(self.window):
            start, end = min(start, self.start), max(end, self.start + len(self.window))
        widened = np.zeros(end - start, np.int64)
        widened[self.start - start :][: len(self.window)] = self.window
        self.start, self.window = start, widened

    def filled(self) -> tuple[Array, Array]:
        """The bins with a count above 0, ascending, and their counts."""
        inside = np.flatnonzero(self.window != 0)
        bins, counts = inside + self.start, self.window[inside]
        return (np.append(0, bins), np.append(self.first, counts)) if self.first else (bins, counts)


class Bins:
    """A histogram of up to 2^16 bins. `filled` u16 are bins with counts above 0, each once, and `counts` these."""

    def __init__(self, filled: Array | None = None, counts: Array | None = None):
        self._halves = _Half(), _Half()
        if filled is not None and counts is not None:
            self.add(filled, counts)

    @property
    def filled(self) -> Array:
        """The indices of bins with a count above 0, ascending, u16."""
        low, high = (half.filled()[0] for half in self._halves)
        return np.concatenate([low, high + _HALF]).astype(np.uint16)

    @property
    def counts(self) -> Array:
        """The counts of these bins, i64."""
        return np.concatenate([half.filled()[1] for half in self._halves])

    def add(self, filled: Array, counts: Array) -> None:
        """Add counts above 0 to bins, given by their indices, each once."""
        every = np.zeros(int(filled.max()) + 1 if len(filled) else 0, np.int64)
        every[filled] = counts
        self.add_all(every)

    def add_all(self, counts: Array) -> None:
        """Add the counts of all bins, up to the last one that is filled."""
        for half, part in zip(self._halves, (counts[:_HALF], counts[_HALF:]), strict=True):
            half.add(part)

    def merge(self, other: Bins) -> Bins:
        """The counts of both."""
        merged = Bins(self.filled, self.counts)
        merged.add(other.filled, other.counts)
        return merged

    def clear(self) -> None:
        """Forget all counts."""
        self._halves = _Half(), _Half()

    def dense(self, size: int) -> Array:
        """The counts of all bins, as i64."""
        found = np.zeros(size, np.int64)
        found[self.filled] = self.counts
        return found
