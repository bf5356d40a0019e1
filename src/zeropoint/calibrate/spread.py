"""Calibration in chunks of samples, distributed over workers and recorded in a journal.

The states of the observers for a chunk are packed (`states.py`) and added up here. The sums are exact, so the result is
bit-identical for any number of workers, any order, and any number of resumed runs.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import length_hint
from pathlib import Path
from typing import Any

from zeropoint.calibrate.ahead import observed
from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.histogram import count_by
from zeropoint.calibrate.journal import CalibrationJournal, JournalError
from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.states import Packed, add, pack
from zeropoint.calibrate.workers import Chunk, Recorder, by_workers
from zeropoint.interp import Concurrent, Engine, MaskedEngine, Runnable
from zeropoint.ir.arguments import Sample
from zeropoint.ir.digest import array_bytes, program_digest
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.progress import Progress

CHUNK_SAMPLES = 8
CHUNK_BYTES = 64 << 20
"""The maximum number of bytes of samples in a chunk, unless a single sample is larger."""


@dataclass(frozen=True)
class Work:
    """The distribution of a calibration over processes.

    `workers` is the number of processes that run the program: 1 for this process alone, -1 for one per processor (or as
    many as joblib's backend has). `journal` is a file that records progress. With `resume`, a run continues from it.
    `chunk` is the number of samples per task; hundreds of workers need larger chunks.
    """

    workers: int = 1
    journal: Path | None = None
    resume: bool = False
    chunk: int = CHUNK_SAMPLES

    def part(self, name: str) -> Work:
        """The same for another part of a quantization. Its journal is next to this one: `model.journal.NAME`."""
        journal = None if self.journal is None else self.journal.with_name(f"{self.journal.name}.{name}")
        return replace(self, journal=journal)


@dataclass
class Spread:
    """One distributed calibration: `collect` with a `Work`."""

    program: Program
    observers: Mapping[str, str]
    """The name of each point's observer, by key."""
    engine: Engine
    work: Work
    see: Callable[[Sample], object] | None = None
    """Called with every sample, in order."""
    recorder: Recorder | None = None
    requesting: Program | None = None
    """The program with more requests, which runs in this process (`reader_requests.py`)."""
    count: int = 0
    run: Runnable | None = None
    """The program, prepared; None if no chunk ran in this process."""
    _known: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    _what: bytes = b""

    def __call__(self, samples: Iterable[Sample], progress: Progress) -> dict[str, Observer]:
        """Run all samples. Returns the observers.

        Raises JournalError and WorkerError, and passes on the errors of running the program.
        """
        states = self._states()
        journal = CalibrationJournal(self.work.journal, self._identity)
        if self.work.resume and (packed := journal.resume(states)) is not None:
            add(states, packed)
        for number, packed in _counted(self._results(samples, journal, states), samples, self._known, progress):
            if packed is not None:
                add(states, packed)
            journal.seen[number] = self._known[number][1]
            if journal.is_due():
                journal.write(pack(states))
        if journal.is_begun:
            journal.write(pack(states))
        return states

    def _states(self) -> dict[str, Observer]:
        return {key: observer_factory(name)() for key, name in self.observers.items()}

    def _results(
        self, samples: Iterable[Sample], journal: CalibrationJournal, states: Mapping[str, Observer]
    ) -> Iterator[tuple[int, Packed | None]]:
        """(number, packed states) for each chunk. The states are None if `states` were updated directly."""
        skipped: list[int] = []
        open_chunks = self._open_chunks(samples, dict(journal.seen), skipped)
        here = partial(self._here, states)
        if self.work.workers == 1:
            results: Iterator[tuple[int, Packed | None]] = ((chunk.number, here(chunk)) for chunk in open_chunks)
        else:
            results = by_workers(
                self.program, self.observers, self.engine, self.work.workers, self.work.journal, open_chunks, here
            )
        for result in results:
            yield from ((number, None) for number in _drained(skipped))
            yield result
        yield from ((number, None) for number in _drained(skipped))

    def _open_chunks(self, samples: Iterable[Sample], done: Mapping[int, bytes], skipped: list[int]) -> Iterator[Chunk]:
        """The chunks still to run. Raises JournalError if the samples differ from those of the journal."""
        for chunk in _chunks(samples, self._chunk_samples(), self.see):
            self.count += len(chunk.samples)
            self._known[chunk.number] = len(chunk.samples), chunk.digest
            if chunk.number not in done:
                yield chunk
            elif done[chunk.number] == chunk.digest:
                skipped.append(chunk.number)
            else:
                raise JournalError(
                    f"{self.work.journal}: found other samples in chunk {chunk.number} than the "
                    f"journal, expected the same; run without resume (--resume) to start over"
                )
        missing = done.keys() - self._known.keys()
        if missing:
            raise JournalError(
                f"{self.work.journal}: found {self.count} samples, expected more: the journal has chunk {max(missing)} "
                f"of them; run without resume (--resume) to start over"
            )

    def _chunk_samples(self) -> int:
        """Samples per chunk. Independent of the number of workers, so that any number can resume a journal."""
        types = [port.type for port in self.program.inputs]
        size = sum(math.prod(shape_of(found)) * element_dtype(element_of(found)).itemsize for found in types)
        return max(1, min(self.work.chunk, CHUNK_BYTES // max(size, 1)))

    def _here(self, states: Mapping[str, Observer], chunk: Chunk) -> None:
        """Run a chunk in this process and update the observers directly."""
        if self.run is None:
            self.run = self.engine.prepare(self.requesting or self.program)
            count_by(self.engine, states.values())
        callers = self.run.callers if isinstance(self.run, Concurrent) else 1
        deque(observed(self.run, states, chunk.samples, self.recorder, callers), maxlen=0)

    def _identity(self) -> bytes:
        """The identity of a journal: a digest of chunk size, observers, program and weights."""
        if not self._what:
            mask = self.engine.mask if isinstance(self.engine, MaskedEngine) else ""
            self._what = program_digest(self.program, f"{self._chunk_samples()} {dict(self.observers)}{mask}")
        return self._what


def _drained(numbers: list[int]) -> list[int]:
    found = numbers.copy()
    del numbers[: len(found)]
    return found


def _chunks(samples: Iterable[Sample], size: int, see: Callable[[Sample], object] | None) -> Iterator[Chunk]:
    number, held, digest = 0, list[Sample](), hashlib.sha256()
    for sample in samples:
        if see is not None:
            see(sample)
        held.append(sample)
        for name in sorted(sample):
            digest.update(name.encode() + b"\0")
            digest.update(array_bytes(sample[name]))
        if len(held) == size:
            yield Chunk(number, held, digest.digest())
            number, held, digest = number + 1, list[Sample](), hashlib.sha256()
    if held:
        yield Chunk(number, held, digest.digest())


@dataclass
class _Hinted:
    """Items, one per finished sample, with the length hint of the samples."""

    items: Iterator[Any]
    samples: Iterable[Sample]

    def __iter__(self) -> Iterator[Any]:
        return self.items

    def __length_hint__(self) -> int:
        found = length_hint(self.samples, -1)
        return NotImplemented if found < 0 else found


def _counted(
    results: Iterator[tuple[int, Packed | None]],
    samples: Iterable[Sample],
    known: Mapping[int, tuple[int, bytes]],
    progress: Progress,
) -> Iterator[tuple[int, Packed | None]]:
    """The results, with one item per sample for `progress`."""

    def items() -> Iterator[tuple[int, Packed | None] | None]:
        for result in results:
            yield result
            yield from [None] * (known[result[0]][0] - 1)

    return (item for item in progress(_Hinted(items(), samples), "calibrate") if item is not None)
