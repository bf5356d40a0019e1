"""Collect cyclic garbage less often while programs are transformed.

Ops, values and their uses form cycles, so only Python's cyclic collector frees copies of programs. By default it runs
after every few hundred new objects. Each run visits live objects, most of which are ops that stay alive.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

OBJECTS = 50_000
"""The number of new objects between two collections of the youngest generation. A program of some thousand ops has as
many."""
_LOCK = threading.Lock()
_inside, _before = 0, gc.get_threshold()


@contextmanager
def seldom_collected() -> Generator[None]:
    """Raise the threshold of the collector to `OBJECTS`, for all threads; also a decorator.

    If there are several users, in one or more threads, the last one restores the threshold that the first one found. A
    disabled collector, or one with a higher threshold, is not changed.
    """
    global _inside, _before
    with _LOCK:
        if not _inside:
            _before = gc.get_threshold()
            if _before[0]:  # 0: the collector is disabled
                gc.set_threshold(max(_before[0], OBJECTS), *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_before)
