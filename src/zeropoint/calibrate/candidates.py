"""Candidate ranges, chosen by the noise they cause in the readers of the value, and the samples that judge them."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint

import numpy as np

from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.range_noise import RangeNoise
from zeropoint.interp import has_padding
from zeropoint.ir.tensors import Array
from zeropoint.numerics.ranges import RealRange

JUDGED = 8
"""The maximum number of samples for judging ranges.

About a quarter of all samples are used, so that judging takes about as long as observing.
"""
LEAST_JUDGED = 4
CANDIDATES = 2
"""The maximum number of ranges among which one is chosen. The kernels that read the value run once for each."""
MOST_BYTES = 128 << 20
"""The maximum number of bytes of kept samples. At least `JUDGED` samples may be kept in any case."""
CLOSE = 0.01
"""Two ranges count as equal if their ends differ by at most this share of the width of both together."""
BETTER = 0.8
"""A range replaces the one with the least squared error if its noise is at most this factor of the other's (1 dB)."""


@dataclass(eq=False)
class OutputObserver(MeanSquareObserver):
    """An observer with several candidate ranges. The range with the least noise at the value's readers is chosen.

    `range` alone gives the range with the least squared error of the value. `collect` judges the candidates.
    """

    def candidates(self) -> list[RealRange]:
        """The range of least squared error, and the observed range if that is clearly wider."""
        narrow, (low, high) = self.range(), self.seen.range()
        # A stored range always contains 0, so this is the range without clipping.
        wide = min(low, 0.0), max(high, 0.0)
        return [narrow] if _is_close(narrow, wide) else [narrow, wide]

    def choice(self, ranges: Sequence[RealRange], noise: RangeNoise) -> RealRange:
        """The range with the least noise at the readers.

        A few samples rarely contain the outliers that a narrow range clips. So the samples only determine which share
        of the value's noise reaches its readers. The amount of clipping comes from the histogram of all samples.
        """
        own, lacking = noise.own.sum(axis=1), [self.cut_off(limits) * noise.size for limits in ranges]
        lacking -= noise.cut.sum(axis=1)
        # A range without any error on these samples gives no ratio to extrapolate from.
        if not own.all():
            return ranges[0]
        # The readers' noise is scaled by the ratio of the error in the histogram to that on these samples.
        return ranges[best(noise.readers * (1 + lacking / own)[:, None])]


def _is_close(first: RealRange, second: RealRange) -> bool:
    width = max(first[1], second[1]) - min(first[0], second[0])
    return abs(first[0] - second[0]) <= CLOSE * width and abs(first[1] - second[1]) <= CLOSE * width


def best(costs: Array) -> int:
    """The index of the range to choose, from costs (ranges, samples).

    0, unless another range is clearly cheaper: by the factor `BETTER` in total, and by more than the standard error of
    the mean over the samples.
    """
    totals, gains = costs.sum(axis=1), costs[0] - costs
    count = costs.shape[1]
    # The standard error of the mean gain prevents that one of eight samples decides.
    errors = gains.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(costs))
    clear = (totals <= BETTER * totals[0]) & (gains.mean(axis=1) > errors)
    return int(np.where(clear, totals, np.inf).argmin()) if clear.any() else 0


def runs_with_judging(samples: int) -> int:
    """About how many runs of the network observing and judging so many samples takes as long as."""
    judged = min(samples, JUDGED, max(LEAST_JUDGED, samples // 4))
    return samples + (1 + CANDIDATES) * judged


@dataclass
class Kept:
    """Keeps the samples with the smallest digests, so that the choice does not depend on the order of the samples.

    `padded` says whether the input `mask` was 0 anywhere in the samples seen.
    """

    most: int = JUDGED
    mask: str | None = None
    entries: list[tuple[int, int, Mapping[str, Array]]] = field(
        default_factory=list[tuple[int, int, Mapping[str, Array]]]
    )
    count: int = 0
    padded: bool = False

    def see(self, sample: Mapping[str, Array]) -> None:
        """Keep a sample if its digest is among the smallest seen so far."""
        self.padded = self.padded or has_padding(sample, self.mask)
        if not self.most:
            return
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(sample):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(sample[name]).tobytes())
        # Negated, because heapq removes the smallest entry first, and the largest digest has to be removed. Counts
        # break ties, so that two equal samples are never compared by their arrays.
        entry = (-int.from_bytes(digest.digest(), "big"), self.count, sample)
        self.count += 1
        size = sum(array.nbytes for array in sample.values())
        if len(self.entries) < min(self.most, max(JUDGED, MOST_BYTES // max(size, 1))):
            heapq.heappush(self.entries, entry)
        else:
            heapq.heappushpop(self.entries, entry)

    def watch(self, samples: Iterable[Mapping[str, Array]]) -> Iterable[Mapping[str, Array]]:
        """Pass the samples on, and see each of them."""
        return _Watched(self, samples)

    @property
    def judged(self) -> list[Mapping[str, Array]]:
        """The samples to judge ranges with, in ascending order of digest."""
        return self.samples[: max(LEAST_JUDGED, self.count // 4)]

    @property
    def samples(self) -> list[Mapping[str, Array]]:
        """The kept samples, in ascending order of digest."""
        return [sample for _, _, sample in sorted(self.entries, key=lambda entry: (-entry[0], entry[1]))]

    @property
    def in_order(self) -> list[Mapping[str, Array]]:
        """The kept samples, in the order in which they were seen."""
        return [sample for _, _, sample in sorted(self.entries, key=lambda entry: entry[1])]


@dataclass(frozen=True)
class _Watched:
    """An iterable that passes samples on. It has the length hint of its source."""

    kept: Kept
    samples: Iterable[Mapping[str, Array]]

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for sample in self.samples:
            self.kept.see(sample)
            yield sample

    def __length_hint__(self) -> int:
        found = length_hint(self.samples, -1)
        return NotImplemented if found < 0 else found
