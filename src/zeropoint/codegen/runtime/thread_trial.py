"""Whether the calls of a short program are quicker on several threads than in their caller alone.

Threads hand work to each other at every barrier, which takes a microsecond or two. If calls are rare, the other threads
have to be woken up. On a busy machine, a call waits for a thread that lost its processor in the middle of a share. No
rule knows all this before, so some calls are timed both ways, again and again:

| calls | |
|---|---|
| `WARM` | on all threads, not timed: parked threads wake up |
| `TIMED` | on all threads |
| `TIMED` | in the caller alone |
| up to `AGAIN` | the way that took less time in total |

A program whose calls take longer than `LONG` always runs on all threads.
"""

from __future__ import annotations

WARM, TIMED, AGAIN = 8, 8, 4096
LONG = 200e-6
"""Seconds. Threads gain more than they cost in calls that take longer."""


class ThreadTrial:
    """Chooses for each call of a program whether its threads share it, by the times of calls before."""

    def __init__(self) -> None:
        self._kept = True
        self._start()

    def _start(self) -> None:
        self._number = 0
        self._together: list[float] = []
        self._alone: list[float] = []

    @property
    def is_timed(self) -> bool:
        """Whether the next call is to be timed."""
        return WARM <= self._number < WARM + 2 * TIMED

    @property
    def is_shared(self) -> bool:
        """Whether all threads take part in the next call."""
        if self._number < WARM + TIMED:
            return True
        return self._is_long if self._number < WARM + 2 * TIMED else self._kept

    @property
    def _is_long(self) -> bool:
        # The least time: a call of a short program may take long because a thread had no processor.
        return min(self._together) > LONG

    def ended(self, seconds: float) -> None:
        """The call has ended. `seconds` is the time that it took, if it was to be timed."""
        if self.is_timed:
            (self._together if len(self._together) < TIMED else self._alone).append(seconds)
        self._number += 1
        if len(self._alone) == TIMED and self._number == WARM + 2 * TIMED:
            self._kept = self._is_long or sum(self._together) < sum(self._alone)
        if self._number == AGAIN:
            self._start()
