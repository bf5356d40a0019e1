"""Count the trips of all loops in a run. Nested loops, and loops of parallel processes, share one limit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from zeropoint.interp.errors import TripsExceeded
from zeropoint.limits import limits

LOOPS = ("affine.for", "chlo.scan", "scf.for", "scf.while", "stablehlo.while")
"""The ops whose trips are counted. Nests of `affine.for` without carried values run at once, and are not counted."""


class Trips:
    """The number of trips that the loops of a run have made, and the limit. All threads of the run share it."""

    def __init__(self) -> None:
        self._most = limits().trips
        self._next = count(1)  # `next` is atomic

    def make(self, loop: str) -> None:
        """Count a trip of a loop. Raises TripsExceeded, which names the loop, if the limit is exceeded."""
        if next(self._next) > self._most:
            raise TripsExceeded(
                f"{loop}: found a loop that goes on after {self._most} trips of all loops in this run; max_trips "
                f"(--max-trips) allows more"
            )


_CURRENT: ContextVar[Trips | None] = ContextVar("trips", default=None)


def trips() -> Trips:
    """The counter of the current run. Outside of a run, a new one."""
    return _CURRENT.get() or Trips()


@contextmanager
def counted_trips() -> Generator[None]:
    """Count the trips of a run. A run inside of another run, such as a called function, uses the outer counter."""
    token = _CURRENT.set(trips())
    try:
        yield
    finally:
        _CURRENT.reset(token)
