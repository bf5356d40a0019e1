"""Tasks run by local or remote processes, in any order; tasks of killed workers are run again.

joblib starts the processes: local ones, unless `joblib.parallel_config` selects another backend (Dask, Ray).
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from zeropoint.errors import Error, summary

MOST_WORKERS = 1000
"""All processes are started at once, whether there is work for them or not."""
DEATHS = 3
"""Give up after this many worker crashes with no task finished in between."""
WAVE = 4
"""Tasks per worker submitted at a time, for joblib backends without streaming."""
PATIENCE = 120.0
"""Seconds without a result of a Ray cluster, after which this process runs tasks, too."""

T = TypeVar("T")
R = TypeVar("R")


class WorkerError(Error, RuntimeError):
    """Workers keep crashing."""


def completed(run: Callable[[T], R], tasks: Iterator[T], workers: int, what: str = "tasks") -> Iterator[tuple[T, R]]:
    """Each task with its result, in order of completion.

    `run`, tasks and results are sent between processes. `workers` is -1 for one per processor (or as many as joblib's
    backend has). `what` names the tasks in errors. Raises WorkerError, what `run` raises if it fails in every worker,
    and what iterating the tasks raises.
    """
    pending, deaths = _Pending(tasks), 0
    while not pending.is_done():
        results = _parallel(partial(_numbered, run), workers, pending)
        try:
            while (found := _next(results, pending, deaths, what)) is not None:
                number, result = found
                if number in pending.tasks:  # else a late result of an abandoned worker
                    task, deaths = pending.tasks.pop(number), 0
                    yield task, result
        finally:
            _close(results)
        deaths += 1
    if pending.error is not None:
        raise pending.error


def worker_count(workers: int) -> int:
    """The number of processes that -1 stands for; other numbers are returned unchanged."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    if (ray := _ray()) is not None and not ray.is_initialized():
        ray.init()
    count: Any = joblib.effective_n_jobs
    return int(count(workers))


def _numbered(run: Callable[[T], R], number: int, task: T) -> tuple[int, R]:
    return number, run(task)


def _next(results: Iterator[tuple[int, R]], pending: _Pending[T], deaths: int, what: str) -> tuple[int, R] | None:
    """The next result; None at the end or if workers crashed. Raises WorkerError if they keep crashing."""
    try:
        return next(results, None)
    except Exception as error:  # each joblib backend has its own exception for a crashed worker
        if deaths + 1 < DEATHS:
            return None
        raise WorkerError(
            f"found workers that died {DEATHS} times ({summary(error)}), expected them to run {len(pending.tasks)} "
            f"{what}; fewer workers need less memory"
        ) from error


def _close(results: Iterator[tuple[int, R]]) -> None:
    """Stop the workers, and suppress joblib's warning about discarded results."""
    close = getattr(results, "close", None)
    if close is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close()


class _Pending(Generic[T]):
    """Tasks that were given to workers and are not finished, by number; `to_do` iterates over the remaining work.

    An exception from the tasks ends the iteration and is kept in `error`: joblib iterates in its own threads, where it
    would be lost.
    """

    def __init__(self, source: Iterator[T]):
        self.tasks: dict[int, T] = {}
        self.error: BaseException | None = None
        self._source = source
        self._given = 0
        self._exhausted = False
        self._lock = threading.Lock()

    def is_done(self) -> bool:
        """Whether every task is finished."""
        return self._exhausted and not self.tasks

    def to_do(self) -> Iterator[tuple[int, T]]:
        """Unfinished tasks of crashed workers first, then the rest."""
        return chain(list(self.tasks.items()), iter(self._next, None))  # pyright: ignore[reportReturnType] (ends at None)

    def _next(self) -> tuple[int, T] | None:
        with self._lock:
            if self._exhausted:
                return None
            try:
                task = next(self._source)
            except StopIteration:
                self._exhausted = True
                return None
            except BaseException as error:
                self.error, self._exhausted = error, True
                return None
            self._given += 1
            self.tasks[self._given] = task
            return self._given, task


def _parallel(run: Callable[[int, T], tuple[int, R]], workers: int, pending: _Pending[T]) -> Iterator[tuple[int, R]]:
    """The results of the workers, in order of completion."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    if _ray() is not None:
        return _on_ray(run, worker_count(workers), pending)
    delayed: Any = joblib.delayed(run)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] (no stubs)
    settings: dict[str, Any] = {"n_jobs": workers, "batch_size": 1, "max_nbytes": None}
    tasks = (delayed(number, task) for number, task in pending.to_do())
    try:
        parallel: Any = joblib.Parallel(return_as="generator_unordered", **settings)
    except ValueError:  # a backend that only returns lists
        return _in_waves(joblib.Parallel(**settings), tasks, WAVE * worker_count(workers))
    with _ignored_interrupts():
        return iter(parallel(tasks))


@contextmanager
def _ignored_interrupts() -> Generator[None]:
    """Ignore SIGINT while processes are started, which inherit this.

    Ctrl-C reaches every process of a terminal. This one ends its workers; they would print tracebacks. Only the main
    thread can say so; joblib's processes undo a mask of signals.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_waves(parallel: Any, tasks: Iterator[Any], size: int) -> Iterator[tuple[int, Any]]:
    while wave := list(islice(tasks, size)):
        yield from parallel(wave)


def _active_backend() -> Any:
    """joblib's backend that `joblib.parallel_config` selects."""
    parallel: Any = import_module("joblib.parallel")  # only needed here
    return parallel.get_active_backend()[0]


def _ray() -> Any:
    """Ray, if its backend is active, else None."""
    return import_module("ray") if type(_active_backend()).__module__.startswith("ray.") else None


def _on_ray(run: Callable[[int, T], tuple[int, R]], count: int, pending: _Pending[T]) -> Iterator[tuple[int, R]]:
    """The results of `count` workers of the active Ray cluster. A task whose worker is killed raises.

    These are Ray's own tasks. joblib's backend makes a pool of actors, waits without limit until all have started,
    and waits for all tasks of a list. A cluster without resources, or on a busy machine (Ray's workers have the least
    priority), may start no worker for a long time. After PATIENCE this process runs the task that was given last, and
    others until the cluster gives a result.
    """
    ray, backend, to_do, patience = _ray(), _active_backend(), pending.to_do(), PATIENCE
    options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, **(getattr(backend, "ray_remote_args", None) or {})}
    remote, shared = ray.remote(**options)(_called), ray.put(run)
    given: dict[Any, tuple[int, T]] = {}
    try:
        while True:
            given |= {remote.remote(shared, *task): task for task in islice(to_do, count - len(given))}
            if not given:
                return
            if done := ray.wait(list(given), timeout=patience)[0]:
                del given[done[0]]
                patience = PATIENCE
                yield ray.get(done[0])
            else:
                late, task = given.popitem()
                ray.cancel(late, force=True)
                patience = 0
                yield run(*task)
    finally:
        for late in given:
            ray.cancel(late, force=True)


def _called(run: Callable[[int, T], tuple[int, R]], number: int, task: T) -> tuple[int, R]:
    return run(number, task)
