"""Workers of a calibration: processes, of this machine or of others, that run a program on chunks of samples.

joblib starts them: processes of this machine unless `joblib.parallel_config` names another backend (Dask, Ray). They
read the program from a file, so that its weights are mapped, not copied to each. A worker that is killed takes its
chunk with it; the chunk is run again.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.states import Packed, take
from zeropoint.errors import Error, summary
from zeropoint.interp import Engine, Runnable
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.outputs import remove_leftovers, workspace
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.limits import Limits, limited, limits

Sample = Mapping[str, Array]
Here = Callable[["Chunk"], None]

DEATHS = 3
"""How often workers may die without a chunk done in between."""

WAVE = 4
"""Chunks for each worker at a time, where a backend of joblib does not take a stream of them."""


class WorkerError(Error, RuntimeError):
    """Workers die, however often the work is given to them."""


@dataclass(frozen=True)
class Chunk:
    """Samples that follow each other, and their digest."""

    number: int
    samples: list[Sample]
    digest: bytes


@dataclass(frozen=True)
class Job:
    """All that a worker needs beside samples: where the program lies, what runs it, the observers' names by key."""

    program: Path
    engine: Engine
    observers: Mapping[str, str]
    limits: Limits


_PREPARED: dict[Path, tuple[Runnable, dict[str, Observer]]] = {}
"""The program of the last job, ready to run; in each worker."""


def observe(run: Runnable, states: Mapping[str, Observer], samples: Iterable[Sample]) -> None:
    """Let the observers see what there is in these samples."""

    def see(key: str, array: Array) -> None:
        states[key].update(array)

    for sample in samples:
        run(sample, observe=see)


def _work(job: Job, number: int, samples: list[Sample]) -> tuple[int, Packed | None]:
    """In a worker: a chunk. None where it fails; the process that asked then runs it, and meets the error itself."""
    try:
        with limited(memory=job.limits.memory, trips=job.limits.trips):
            if job.program not in _PREPARED:
                _PREPARED.clear()
                states = {key: observer_factory(name)() for key, name in job.observers.items()}
                _PREPARED[job.program] = job.engine.prepare(load_program(job.program)), states
            run, states = _PREPARED[job.program]
            observe(run, states, samples)
            return number, take(states)
    except Exception:
        _PREPARED.clear()
        return number, None


def by_workers(
    program: Program,
    observers: Mapping[str, str],
    engine: Engine,
    workers: int,
    journal: Path | None,
    chunks: Iterator[Chunk],
    here: Here,
) -> Iterator[tuple[int, Packed | None]]:
    """What is seen in each chunk, by its number, as they are done; None where `here` ran one in this process.

    Raises WorkerError, and what iterating the chunks or `here` raise.
    """
    pending, deaths = _Pending(chunks), 0
    with _folder(journal) as folder:
        save_program(program, folder / "program.mlir")
        job = Job(folder / "program.mlir", engine, observers, limits())
        while not pending.is_done():
            results = _parallel(job, workers, pending)
            try:
                while (found := _next(results, pending, deaths)) is not None:
                    number, packed = found
                    if number in pending.chunks:  # not by a worker that was given up
                        chunk, deaths = pending.chunks.pop(number), 0
                        if packed is None:
                            here(chunk)
                        yield number, packed
            finally:
                _close(results)
            deaths += 1
    if pending.error is not None:
        raise pending.error


def _next(
    results: Iterator[tuple[int, Packed | None]], pending: _Pending, deaths: int
) -> tuple[int, Packed | None] | None:
    """The next result; None where there is none, or the workers have died. Raises WorkerError where they always do."""
    try:
        return next(results, None)
    except Exception as error:  # each of joblib's backends has an exception of its own for a worker that has died
        if deaths + 1 < DEATHS:
            return None
        raise WorkerError(
            f"found workers that died {DEATHS} times ({summary(error)}), expected them to run {len(pending.chunks)} "
            f"chunks of samples; fewer workers need less memory"
        ) from error


def _close(results: Iterator[tuple[int, Packed | None]]) -> None:
    """End what workers still do, without joblib's warning that it was for nothing."""
    close = getattr(results, "close", None)
    if close is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close()


class _Pending:
    """Chunks that were given to workers and are not done; iterated, what there is to do.

    An error of the samples ends the iteration and is kept: joblib iterates in threads of its own, which would lose it.
    """

    def __init__(self, source: Iterator[Chunk]):
        self.chunks: dict[int, Chunk] = {}
        self.error: BaseException | None = None
        self._source = source
        self._exhausted = False
        self._lock = threading.Lock()

    def is_done(self) -> bool:
        """Whether every chunk is done."""
        return self._exhausted and not self.chunks

    def to_do(self) -> Iterator[Chunk]:
        """What was given to a worker that died, then the rest."""
        return chain(list(self.chunks.values()), iter(self._next, None))  # pyright: ignore[reportReturnType] (ends at None)

    def _next(self) -> Chunk | None:
        with self._lock:
            try:
                chunk = None if self._exhausted else next(self._source, None)
            except BaseException as error:
                self.error, chunk = error, None
            if chunk is None:
                self._exhausted = True
            else:
                self.chunks[chunk.number] = chunk
            return chunk


def _parallel(job: Job, workers: int, pending: _Pending) -> Iterator[tuple[int, Packed | None]]:
    """The chunks as workers have done them, in the order in which they are."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    delayed: Any = joblib.delayed  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    run = delayed(partial(_work, job))
    settings: dict[str, Any] = {"n_jobs": workers, "batch_size": 1, "max_nbytes": None}
    tasks = (run(chunk.number, chunk.samples) for chunk in pending.to_do())
    try:
        parallel: Any = joblib.Parallel(return_as="generator_unordered", **settings)
    except ValueError:  # the backend of Ray gives a list only
        count: Any = joblib.effective_n_jobs
        return _in_waves(joblib.Parallel(**settings), tasks, WAVE * count(workers))
    return iter(parallel(tasks))


def _in_waves(parallel: Any, tasks: Iterator[Any], size: int) -> Iterator[tuple[int, Packed | None]]:
    while wave := list(islice(tasks, size)):
        yield from parallel(wave)


@contextmanager
def _folder(journal: Path | None) -> Generator[Path]:
    """A folder for the program: beside the journal, which all machines see, else one for temporary files."""
    if journal is None:
        with tempfile.TemporaryDirectory(prefix="zeropoint-") as name:
            yield Path(name)
    else:
        remove_leftovers(journal)
        with workspace(journal) as folder:
            yield folder.resolve()
