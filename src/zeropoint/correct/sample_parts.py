"""The samples that corrections are fitted on, and those they are judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from zeropoint.ir.tensors import Array

Samples = Sequence[Mapping[str, Array]]
T = TypeVar("T")
PARTS = 4
"""One of this many samples is held back."""
JUDGED = 16
"""The maximum number of held-back samples for comparing outputs."""
FEW = 4
"""The maximum number of held-back samples whose channels are observed."""


def parts_of(count: int, *, validation: bool) -> tuple[list[int], list[int]]:
    """The numbers of the samples that are fitted, and of those that are held back.

    One of four is held back, unless there is validation data. With fewer than four samples, both parts have all. The
    held-back samples are chosen at random, but the choice is the same for the same number of samples. Every fourth
    sample could be of one kind if kinds alternate in the data.
    """
    every = list(range(count))
    if validation or count < PARTS:
        return every, [] if validation else every
    starts = range(0, count - PARTS + 1, PARTS)
    # Seeded by the number of samples, so that the same data always gives the same program.
    chosen = np.random.default_rng(count).integers(0, PARTS, len(starts))
    held = {start + int(offset) for start, offset in zip(starts, chosen, strict=True)}
    return [number for number in every if number not in held], sorted(held)


@dataclass(frozen=True)
class SampleParts:
    """The samples that corrections are fitted to, and those that judge them. `apart` if the two are disjoint."""

    fitted: Samples
    held: Samples
    apart: bool = True
    validation: bool = False
    every: Samples = ()
    """Both parts in the order of the data; empty if none of the data is held back."""

    @staticmethod
    def of(samples: Samples, validation: Samples = ()) -> SampleParts:
        """The parts of some samples (`parts_of`), or all of them and the validation data."""
        fitted, held = parts_of(len(samples), validation=bool(validation))
        if validation:
            return SampleParts(samples, validation, validation=True)
        if len(samples) < PARTS:
            return SampleParts(samples, samples, apart=False)
        return SampleParts([samples[number] for number in fitted], [samples[number] for number in held], every=samples)

    @cached_property
    def judging(self) -> Samples:
        """The held-back samples that corrections are judged on: one of each of `JUDGED` equal stretches.

        They are chosen at random, but the choice is the same for the same number of samples. Evenly spaced ones could
        be of one kind if kinds alternate in the data.
        """
        count = len(self.held)
        if count <= JUDGED:
            return self.held
        bounds = [number * count // JUDGED for number in range(JUDGED + 1)]
        random = np.random.default_rng(count)
        return [self.held[int(random.integers(low, high))] for low, high in pairwise(bounds)]

    @property
    def judges(self) -> str:
        """A description of the samples that corrections are judged on."""
        count = len(self.judging)
        samples = f"{count} sample{'' if count == 1 else 's'}"
        kind = "of the validation data" if self.validation else "held back" if self.apart else "of the calibration data"
        return f"{samples} {kind}"


def some(samples: Sequence[T], most: int = JUDGED) -> list[T]:
    """At most `most` samples, evenly spread."""
    count = min(len(samples), most)
    return [samples[index * len(samples) // count] for index in range(count)]
