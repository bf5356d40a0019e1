"""Ranges to choose from by what they cost the kernels that read the value, and the samples to judge them with."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint

import numpy as np

from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.calibrate.output_noise import Noise, Range
from zeropoint.ir.tensors import Array

JUDGED = 8
"""The most samples that ranges are judged with: a quarter of them all, so that it takes as long as to observe them."""
LEAST_JUDGED = 4
MOST_BYTES = 128 << 20
"""Fewer samples are kept where they would take more, but not fewer than `JUDGED`."""
CLOSE = 0.01
"""Two ranges whose ends differ by less than this share of the wider one are one."""
BETTER = 0.8
"""A range is taken before that of least error of the value if its noise is so many times that one's, or less: 1 dB."""


@dataclass(eq=False)
class OutputObserver(MeanSquareObserver):
    """Several ranges, of which the one with the least noise behind the value's readers is taken.

    Alone it says that of the least squared error of the value; `collect` has the candidates judged.
    """

    def merge(self, other: MeanSquareObserver) -> OutputObserver:
        """What both have seen."""
        return OutputObserver(self.seen.merge(other.seen))

    def candidates(self) -> list[Range]:
        """The range of least squared error, and the observed one where that is wider."""
        narrow, (low, high) = self.range(), self.seen.range()
        wide = min(low, 0.0), max(high, 0.0)
        return [narrow] if _is_close(narrow, wide) else [narrow, wide]

    def choice(self, ranges: Sequence[Range], noise: Noise) -> Range:
        """The range whose readers have the least noise.

        A few samples hardly have the rare values that a narrow range cuts off. So they only tell which part of a
        value's noise its readers hand on; how much is cut off follows from the histogram of everything.
        """
        own, lacking = noise.own.sum(axis=1), [self.cut_off(limits) * noise.size for limits in ranges]
        lacking -= noise.cut.sum(axis=1)
        if not own.all():
            return ranges[0]
        return ranges[best(noise.readers * (1 + lacking / own)[:, None])]


def _is_close(first: Range, second: Range) -> bool:
    width = max(first[1], second[1]) - min(first[0], second[0])
    return abs(first[0] - second[0]) <= CLOSE * width and abs(first[1] - second[1]) <= CLOSE * width


def best(costs: Array) -> int:
    """The number of the range to take, of costs by range and sample.

    It is the first unless another one costs clearly less: by the factor `BETTER` in all, and on average over the
    samples by more than the standard error.
    """
    totals, gains = costs.sum(axis=1), costs[0] - costs
    count = costs.shape[1]
    errors = gains.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(costs))
    clear = (totals <= BETTER * totals[0]) & (gains.mean(axis=1) > errors)
    return int(np.where(clear, totals, np.inf).argmin()) if clear.any() else 0


@dataclass
class Kept:
    """The samples of the least digests among those seen: a choice that neither their order nor a merge changes."""

    most: int = JUDGED
    entries: list[tuple[int, int, Mapping[str, Array]]] = field(
        default_factory=list[tuple[int, int, Mapping[str, Array]]]
    )
    count: int = 0

    def see(self, sample: Mapping[str, Array]) -> None:
        """Keep a sample, unless the digests of as many others are less."""
        if not self.most:
            return
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(sample):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(sample[name]).tobytes())
        entry = (-int.from_bytes(digest.digest(), "big"), self.count, sample)
        self.count += 1
        size = sum(array.nbytes for array in sample.values())
        if len(self.entries) < min(self.most, max(JUDGED, MOST_BYTES // max(size, 1))):
            heapq.heappush(self.entries, entry)
        else:
            heapq.heappushpop(self.entries, entry)

    def watch(self, samples: Iterable[Mapping[str, Array]]) -> Iterable[Mapping[str, Array]]:
        """The samples, seen as they pass."""
        return _Watched(self, samples)

    @property
    def judged(self) -> list[Mapping[str, Array]]:
        """Those to judge ranges with, by rising digest."""
        return self.samples[: max(LEAST_JUDGED, self.count // 4)]

    @property
    def samples(self) -> list[Mapping[str, Array]]:
        """What was kept, by rising digest."""
        return [sample for _, _, sample in sorted(self.entries, key=lambda entry: (-entry[0], entry[1]))]

    @property
    def in_order(self) -> list[Mapping[str, Array]]:
        """What was kept, in the order in which it was seen."""
        return [sample for _, _, sample in sorted(self.entries, key=lambda entry: entry[1])]


@dataclass(frozen=True)
class _Watched:
    """An iterable that knows its length where the one behind it does."""

    kept: Kept
    samples: Iterable[Mapping[str, Array]]

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for sample in self.samples:
            self.kept.see(sample)
            yield sample

    def __length_hint__(self) -> int:
        found = length_hint(self.samples, -1)
        return NotImplemented if found < 0 else found
