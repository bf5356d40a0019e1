"""Whether the calls of a short program are quicker on several threads than in their caller alone.

Threads hand work to each other at every barrier, which takes a microsecond or two. Waking a parked thread takes longer
than a short call. On a busy machine, a call waits for a thread that lost its processor in the middle of a share, or that
took the caller's when it woke up. No rule knows all this before, so some calls are timed both ways, again and again:

| calls | |
|---|---|
| `WARM` | on all threads: parked threads wake up; the least time says whether calls are long |
| 2 `TIMED` | on all threads and in the caller alone, in turns |
| up to `AGAIN` | on all threads if that was clearly quicker, and if none of them is parked |

After `MISSED` calls that found a parked thread although all threads are quicker, the next trial wakes it up. A program
whose calls take longer than `LONG` always runs on all threads.
"""

from __future__ import annotations

from statistics import median

WARM, TIMED, AGAIN, MISSED = 8, 8, 1000, 32
LONG = 200e-6
"""Seconds. Threads gain more than they cost in calls that take longer."""
CLEAR = 0.9
"""The greatest share of the time alone that is clearly quicker."""


class ThreadTrial:
    """Chooses for each call of a program whether its threads share it, by the times of calls before."""

    def __init__(self) -> None:
        self._is_long = self._is_quicker = False
        self._number, self._missed, self._times = 0, 0, list[float]()

    @property
    def is_timed(self) -> bool:
        """Whether the next call is to be timed."""
        return self._number < WARM + 2 * TIMED

    def is_shared(self, *, parked: bool) -> bool:
        """Whether all threads take part in the next call. `parked` says whether one of them sleeps."""
        if self._number < WARM or self._is_long:
            return True
        if self.is_timed:
            return self._number % 2 == 0
        self._missed += self._is_quicker and parked
        return self._is_quicker and not parked

    def ended(self, seconds: float) -> None:
        """The call has ended. `seconds` is the time that it took, if it was to be timed."""
        if self.is_timed:
            self._times.append(seconds)
        self._number += 1
        if self._number == WARM:
            self._is_long = min(self._times) > LONG
        elif self._number == WARM + 2 * TIMED:
            together, alone = self._times[WARM::2], self._times[WARM + 1 :: 2]
            self._is_quicker = median(together) < CLEAR * median(alone)
        elif self._number == AGAIN or self._missed == MISSED:
            self._number, self._missed, self._times = 0, 0, []
