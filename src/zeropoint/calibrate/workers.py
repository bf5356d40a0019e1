"""Workers of a calibration: processes that run a program on chunks of samples.

They load the program from a file, so that they share its weights by memory mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.states import Packed, take
from zeropoint.interp import Engine, Runnable
from zeropoint.ir.arguments import Sample
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.outputs import remove_leftovers, temporary_folder, workspace
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.limits import Limits, limited, limits
from zeropoint.workers import completed

Here = Callable[["Chunk"], None]


@dataclass(frozen=True)
class Chunk:
    """Consecutive samples and their digest."""

    number: int
    samples: list[Sample]
    digest: bytes


@dataclass(frozen=True)
class Job:
    """What a worker needs besides samples: the program's file, the engine, observer names by key, and limits."""

    program: Path
    engine: Engine
    observers: Mapping[str, str]
    limits: Limits


_PREPARED: dict[Path, tuple[Runnable, dict[str, Observer]]] = {}
"""The prepared program and observers of the last job, in each worker."""


class Recorder(Protocol):
    """Sees the runs of a calibration, in order, if all of them are in one process."""

    def observe(self, key: str, array: Array) -> None:
        """A requested value of the sample that runs; the array may be overwritten later."""
        ...

    def ran(self, sample: Sample, outputs: dict[str, Array]) -> None:
        """A sample has run."""
        ...


def observe(
    run: Runnable, states: Mapping[str, Observer], samples: Iterable[Sample], recorder: Recorder | None = None
) -> None:
    """Run samples and update the observers. Values without an observer are not seen (`reader_requests.py`)."""

    def see(key: str, array: Array) -> None:
        if key not in states:
            return
        states[key].update(array)
        if recorder is not None:
            recorder.observe(key, array)

    for sample in samples:
        outputs = run(sample, observe=see)
        if recorder is not None:
            recorder.ran(sample, outputs)


def _work(job: Job, chunk: Chunk) -> Packed | None:
    """Run a chunk in a worker. Returns None on failure; the parent then runs it itself and gets the exception."""
    try:
        with limited(memory=job.limits.memory, trips=job.limits.trips):
            if job.program not in _PREPARED:
                _PREPARED.clear()
                states = {key: observer_factory(name)() for key, name in job.observers.items()}
                _PREPARED[job.program] = job.engine.prepare(load_program(job.program)), states
            run, states = _PREPARED[job.program]
            observe(run, states, chunk.samples)
            return take(states)
    except Exception:
        _PREPARED.clear()
        return None


def by_workers(
    program: Program,
    observers: Mapping[str, str],
    engine: Engine,
    workers: int,
    journal: Path | None,
    chunks: Iterator[Chunk],
    here: Here,
) -> Iterator[tuple[int, Packed | None]]:
    """(number, packed states) for each chunk, in order of completion. The states are None if `here` ran it in this
    process.

    Raises WorkerError, and passes on the errors of iterating the chunks and of `here`.
    """
    with folder_for_workers(journal) as folder:
        save_program(program, folder / "program.mlir")
        job = Job(folder / "program.mlir", engine, observers, limits())
        for chunk, packed in completed(partial(_work, job), chunks, workers, "chunks of samples"):
            if packed is None:
                here(chunk)
            yield chunk.number, packed


@contextmanager
def folder_for_workers(journal: Path | None) -> Generator[Path]:
    """A folder for the program: next to the journal, which all machines can read, or else among temporary files."""
    if journal is not None:
        remove_leftovers(journal.parent)
    with temporary_folder() if journal is None else workspace(journal) as folder:
        yield Path(folder).resolve()
