"""Ranges to choose from by what they cost the kernels that read the value, and the samples to judge them with."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import length_hint

import numpy as np

from zeropoint.calibrate.histogram import PercentileObserver
from zeropoint.calibrate.mse import MeanSquareObserver
from zeropoint.ir.tensors import Array

JUDGED = 8
"""Samples that ranges are judged with."""
MOST_BYTES = 128 << 20
"""Fewer samples are kept where they would take more, but not fewer than `JUDGED`."""
PERCENTILES = (100.0, 99.99, 99.9)
"""Of the ranges that are tried beside that of least error of the value itself."""
CLOSE = 0.01
"""Two ranges whose ends differ by less than this share of the wider one are one."""
BETTER = 0.98
"""A range is taken before one that stands earlier in the list if its noise is so many times that one's, or less."""

Range = tuple[float, float]


@dataclass(eq=False)
class OutputObserver(MeanSquareObserver):
    """Several ranges, of which the one with the least noise behind the value's readers is taken.

    Alone it says that of the least squared error of the value; `collect` has the candidates judged.
    """

    def merge(self, other: MeanSquareObserver) -> OutputObserver:
        """What both have seen."""
        return OutputObserver(self.seen.merge(other.seen))

    def candidates(self) -> list[Range]:
        """The range of least squared error, then those of percentiles; those that hardly differ once."""
        found = [self.range()]
        for percentile in PERCENTILES:
            limits = _percentile(self.seen, percentile)
            if not any(_is_close(limits, other) for other in found):
                found.append(limits)
        return found


def _percentile(seen: PercentileObserver, percentile: float) -> Range:
    low, high = replace(seen, percentile=percentile).range()
    return min(low, 0.0), max(high, 0.0)


def _is_close(first: Range, second: Range) -> bool:
    width = max(first[1], second[1]) - min(first[0], second[0])
    return abs(first[0] - second[0]) <= CLOSE * width and abs(first[1] - second[1]) <= CLOSE * width


def best(noise: list[float]) -> int:
    """The number of the range to take: the earliest that no later one beats clearly."""
    chosen = 0
    for number, found in enumerate(noise):
        if found < BETTER * noise[chosen]:
            chosen = number
    return chosen


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
