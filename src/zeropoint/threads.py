"""Work that NumPy or native code does, on the threads of this process. They release the interpreter's lock meanwhile.

Every package may import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import TypeVar

from zeropoint.workers import processors

T = TypeVar("T")
R = TypeVar("R")


def in_threads(run: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of `run` for independent items, in order. Raises the first error, once no item runs any more."""
    tasks = list(items)
    threads = min(processors(), len(tasks))
    if threads < 2:
        return [run(task) for task in tasks]
    # Each in a copy of the context, which has limits and NumPy's handling of errors.
    contexts = [copy_context() for _ in tasks]

    def within(context: Context, task: T) -> R:
        return context.run(run, task)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(within, contexts, tasks))
