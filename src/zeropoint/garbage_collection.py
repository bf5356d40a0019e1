"""Collect cyclic garbage less often while programs are transformed.

Ops, values and their uses form cycles, so copies of programs are garbage that only Python's collector frees. It runs
after every few hundred new objects and visits all that are alive, most of them ops that stay.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

OBJECTS = 50_000
"""New objects between two collections of the youngest generation. Programs of some thousand ops are as large."""
_LOCK = threading.Lock()
_inside, _before = 0, gc.get_threshold()


@contextmanager
def seldom_collected() -> Generator[None]:
    """Raise the threshold of the collector to `OBJECTS`, for all threads; also a decorator.

    The last of several users, in one thread or more, restores the threshold that the first one found. A collector that
    is off, or has a higher threshold, stays as it is.
    """
    global _inside, _before
    with _LOCK:
        if not _inside:
            _before = gc.get_threshold()
            if _before[0]:  # 0: it never runs
                gc.set_threshold(max(_before[0], OBJECTS), *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_before)
