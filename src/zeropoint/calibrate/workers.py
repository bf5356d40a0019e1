"""Workers of a calibration: local or remote processes that run a program on chunks of samples.

joblib starts them: local processes, unless `joblib.parallel_config` selects another backend (Dask, Ray). They load the
program from a file, so that its weights are memory-mapped and not copied to each. If a worker is killed, its chunk is
run again.
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
"""Number of worker crashes, without a finished chunk in between, after which to give up."""

WAVE = 4
"""Chunks per worker submitted at a time, for joblib backends without streaming."""


class WorkerError(Error, RuntimeError):
    """Workers keep crashing."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive samples and their digest."""

    number: int
    samples: list[Sample]
    digest: bytes


@dataclass(frozen=True)
class Job:
    """All that a worker needs besides samples: the program's file, the engine, observer names by key, and limits."""

    program: Path
    engine: Engine
    observers: Mapping[str, str]
    limits: Limits


_PREPARED: dict[Path, tuple[Runnable, dict[str, Observer]]] = {}
"""The prepared program and observers of the last job, in each worker."""


def observe(run: Runnable, states: Mapping[str, Observer], samples: Iterable[Sample]) -> None:
    """Run samples and update the observers."""

    def see(key: str, array: Array) -> None:
        states[key].update(array)

    for sample in samples:
        run(sample, observe=see)


def _work(job: Job, number: int, samples: list[Sample]) -> tuple[int, Packed | None]:
    """Run a chunk in a worker. Returns None on failure; the parent then runs it itself and gets the exception."""
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
    """(number, packed states) for each chunk, in order of completion; None if `here` ran it in this process.

    Raises WorkerError, and what iterating the chunks or `here` raises.
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
                    if number in pending.chunks:  # else a late result of an abandoned worker
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
    """The next result; None at the end or if workers crashed. Raises WorkerError if they keep crashing."""
    try:
        return next(results, None)
    except Exception as error:  # each joblib backend has its own exception for a crashed worker
        if deaths + 1 < DEATHS:
            return None
        raise WorkerError(
            f"found workers that died {DEATHS} times ({summary(error)}), expected them to run {len(pending.chunks)} "
            f"chunks of samples; fewer workers need less memory"
        ) from error


def _close(results: Iterator[tuple[int, Packed | None]]) -> None:
    """Stop the workers, and suppress joblib's warning about discarded results."""
    close = getattr(results, "close", None)
    if close is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close()


class _Pending:
    """Chunks that were given to workers and are not finished; `to_do` iterates over the remaining work.

    An exception from the samples ends the iteration and is kept in `error`: joblib iterates in its own threads, where
    it would be lost.
    """

    def __init__(self, source: Iterator[Chunk]):
        self.chunks: dict[int, Chunk] = {}
        self.error: BaseException | None = None
        self._source = source
        self._exhausted = False
        self._lock = threading.Lock()

    def is_done(self) -> bool:
        """Whether every chunk is finished."""
        return self._exhausted and not self.chunks

    def to_do(self) -> Iterator[Chunk]:
        """Unfinished chunks of crashed workers first, then the rest."""
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
    """The results of the workers, in order of completion."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    delayed: Any = joblib.delayed  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] (no stubs)
    run = delayed(partial(_work, job))
    settings: dict[str, Any] = {"n_jobs": workers, "batch_size": 1, "max_nbytes": None}
    tasks = (run(chunk.number, chunk.samples) for chunk in pending.to_do())
    try:
        parallel: Any = joblib.Parallel(return_as="generator_unordered", **settings)
    except ValueError:  # Ray's backend only returns lists
        count: Any = joblib.effective_n_jobs
        return _in_waves(joblib.Parallel(**settings), tasks, WAVE * count(workers))
    return iter(parallel(tasks))


def _in_waves(parallel: Any, tasks: Iterator[Any], size: int) -> Iterator[tuple[int, Packed | None]]:
    while wave := list(islice(tasks, size)):
        yield from parallel(wave)


@contextmanager
def _folder(journal: Path | None) -> Generator[Path]:
    """A folder for the program: next to the journal, which all machines can read, else a temporary folder."""
    if journal is None:
        with tempfile.TemporaryDirectory(prefix="zeropoint-") as name:
            yield Path(name)
    else:
        remove_leftovers(journal)
        with workspace(journal) as folder:
            yield folder.resolve()
