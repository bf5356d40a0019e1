"""Tasks that are run by local or remote processes, in any order. Tasks of killed workers are run again.

joblib starts the processes: local ones, unless `joblib.parallel_config` selects another backend (Dask, Ray).
"""

from __future__ import annotations

import copy
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from zeropoint.errors import Error, summary
from zeropoint.lifetime import end_with

MOST_WORKERS = 1000
"""The maximum number of workers. All processes are started at once, even if there is no work for some."""
MOST_THREADS = 64
"""The maximum number of threads of a native program."""
DEATHS = 3
"""The number of worker crashes without a finished task in between after which the run fails."""
WAVE = 4
"""The number of tasks per worker that are submitted at a time to joblib backends without streaming."""
PATIENCE = 120.0
"""The seconds without a result from a Ray cluster, including its start, after which local processes also run tasks."""
LOCAL = "loky"
"""joblib's default backend, which starts local processes."""
HANGS = 10
"""The multiple of PATIENCE without a result after which the workers of a Ray cluster are stopped."""

T = TypeVar("T")
R = TypeVar("R")
_Run = Callable[[int, T], tuple[int, R]]
_Start = Callable[["_Pending[T]"], Iterator[tuple[int, R]]]


class WorkerError(Error, RuntimeError):
    """Workers keep crashing."""


def completed(run: Callable[[T], R], tasks: Iterator[T], workers: int, what: str = "tasks") -> Iterator[tuple[T, R]]:
    """Each task with its result, in order of completion.

    `run`, tasks and results are sent between processes. `workers` is -1 for one per processor (or as many as joblib's
    backend has). `what` names the tasks in errors. Local processes run the tasks that a Ray cluster does not finish.
    Raises WorkerError. Passes on the error of `run` if it fails in every worker, and errors of iterating the tasks.
    """
    pending, numbered = _Pending(tasks), partial(_numbered, run, os.getpid())
    if _ray() is not None:
        with suppress(WorkerError):
            yield from _rounds(partial(_on_ray, numbered, workers), pending, what)
        yield from _rounds(partial(_here, numbered, workers), pending, what)
    else:
        yield from _rounds(partial(_parallel, numbered, workers), pending, what)
    if pending.error is not None:
        raise pending.error


def _rounds(start: _Start[T, R], pending: _Pending[T], what: str) -> Iterator[tuple[T, R]]:
    """Each task with its result. `start` starts workers, and new ones if some have crashed. Raises WorkerError."""
    deaths = 0
    while not pending.is_done():
        results = start(pending)
        try:
            while (found := _next(results, pending, deaths, what)) is not None:
                number, result = found
                if number in pending.tasks:  # otherwise, it is a late result of an abandoned worker
                    task, deaths = pending.tasks.pop(number), 0
                    yield task, result
        finally:
            _close(results)
        deaths += 1


def worker_count(workers: int) -> int:
    """The number of processes that -1 stands for. Other numbers are returned unchanged."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    if (ray := _ray()) is not None and not ray.is_initialized():
        ray.init()
    count: Any = joblib.effective_n_jobs
    return int(count(workers))


def processors() -> int:
    """The number of threads for this process: `$OMP_NUM_THREADS`, or one per processor that it may use.

    joblib, Dask and Ray set the variable in their workers, so that workers do not compete for processors.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdecimal() and int(given):
        return min(int(given), MOST_THREADS)
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_THREADS)


def _numbered(run: Callable[[T], R], parent: int, number: int, task: T) -> tuple[int, R]:
    if os.getppid() == parent:  # otherwise, a process of a cluster, which stops its own
        end_with(parent)
    return number, run(task)


def _next(results: Iterator[tuple[int, R]], pending: _Pending[T], deaths: int, what: str) -> tuple[int, R] | None:
    """The next result. None at the end or if workers crashed. Raises WorkerError if they keep crashing."""
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
    """The tasks that workers have and did not finish, by number. `to_do` iterates over the remaining work.

    An exception from the iterable of tasks ends the iteration and is kept in `error`. joblib iterates in its own
    threads, where it would be lost.
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
        """The unfinished tasks of crashed workers first, then the rest."""
        left = (task for task in list(self.tasks.items()) if task[0] in self.tasks)  # others finish some meanwhile
        return chain(left, iter(self._next, None))  # pyright: ignore[reportReturnType] (ends at None)

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


def _parallel(run: _Run[T, R], workers: int, pending: _Pending[T], **more: Any) -> Iterator[tuple[int, R]]:
    """The results of the workers, in order of completion. `more` are arguments for joblib.Parallel."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    delayed: Any = joblib.delayed(run)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] (no stubs)
    settings: dict[str, Any] = {"n_jobs": workers, "batch_size": 1, "max_nbytes": None, **more}
    backend = more.get("backend") or _active_backend()  # a given backend replaces the active one
    if backend == LOCAL or type(backend).__name__ == "LokyBackend":
        settings |= {"initializer": end_with, "initargs": (os.getpid(),)}  # a worker may never get a task
    tasks = (delayed(number, task) for number, task in pending.to_do())
    try:
        parallel: Any = joblib.Parallel(return_as="generator_unordered", **settings)
    except ValueError:  # for a backend that only returns lists
        return _in_waves(joblib.Parallel(**settings), tasks, WAVE * worker_count(workers))
    with _ignored_interrupts():
        return iter(parallel(tasks))


def _here(run: _Run[T, R], workers: int, pending: _Pending[T]) -> Iterator[tuple[int, R]]:
    """The results of local processes, whatever backend is active. There are at most as many as processors."""
    import joblib  # pyright: ignore[reportMissingTypeStubs] (starts processes, and only needed here)

    most = int(joblib.cpu_count())
    return _parallel(run, most if workers < 0 else min(workers, most), pending, backend=LOCAL)


@contextmanager
def _ignored_interrupts() -> Generator[None]:
    """Ignore SIGINT while processes are started, because they inherit this.

    Ctrl-C reaches every process of a terminal. This process stops its workers, which would otherwise print tracebacks.
    Only the main thread can change the handler, and joblib's processes reset a mask of signals.
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
    """The backend that `joblib.parallel_config` selects."""
    parallel: Any = import_module("joblib.parallel")  # only needed here
    return parallel.get_active_backend()[0]


def _ray() -> Any:
    """Ray, if its backend is active, else None."""
    return import_module("ray") if type(_active_backend()).__module__.startswith("ray.") else None


def _on_ray(run: _Run[T, R], workers: int, pending: _Pending[T]) -> Iterator[tuple[int, R]]:
    """The results of joblib's Ray backend, and after PATIENCE also of local processes. Raises if a worker is killed.

    The backend waits without limit until all of its workers have started. On a cluster without resources or a busy
    machine, this may happen late or never, because Ray's workers have the lowest priority. So a separate thread waits
    for it.
    """
    if (count := min(worker_count(-1), worker_count(workers))) == 1:  # joblib would run all tasks in this process
        yield from _here(run, workers, pending)
        return
    found, abandoned = SimpleQueue[Any](), threading.Event()
    # The active backend is a setting of this thread only.
    pool = partial(_parallel, run, count, pending, backend=_lazy(_active_backend()), timeout=HANGS * PATIENCE)
    threading.Thread(target=_move, args=(pool, found, abandoned), daemon=True).start()
    try:
        while (result := found.get(timeout=PATIENCE)) is not None:
            if isinstance(result, Exception):
                raise result
            yield result
    except Empty:
        for result in _here(run, workers, pending):
            yield result
            while not found.empty():
                if isinstance(late := found.get(), tuple):
                    yield late
    finally:
        abandoned.set()


def _lazy(backend: Any) -> Any:
    """A copy of joblib's Ray backend, with its own pool, that returns results as they arrive.

    joblib limits this backend to lists, which lose all results if a worker dies.
    """
    found = copy.copy(backend)
    found.supports_return_generator = True
    return found


def _move(start: Callable[[], Iterator[Any]], found: SimpleQueue[Any], abandoned: threading.Event) -> None:
    """Put results into `found` as long as they are awaited. At the end, put None, or the exception."""
    results: Iterator[Any] = iter(())
    try:
        results = start()
        for result in results:
            found.put(result)
            if abandoned.is_set():
                return
        found.put(None)
    except Exception as error:  # each joblib backend has its own exception for a crashed worker
        found.put(error)
    finally:
        _close(results)
