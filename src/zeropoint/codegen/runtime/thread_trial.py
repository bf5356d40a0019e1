"""Whether the calls of a program are quicker on several threads than in their caller alone.

Threads hand work to each other at every barrier, which takes a microsecond or two: a network of a hundred small kernels
can be slower on two threads. Waking a parked thread takes longer than a short call. On a busy machine, a call waits for
a thread that lost its processor in the middle of a share, or that took the caller's when it woke up. No rule knows all
this before, so some calls are timed both ways, now and then:

| calls | |
|---|---|
| at most `WARM` | on all threads, until each has taken part; the least time says whether calls are long |
| 2 `TIMED` | on all threads and in the caller alone, in turns |
| `KEPT` | on all threads if that was clearly quicker, and, in calls shorter than `WAKING`, if none of them is parked |

After `MISSED` calls that found a parked thread although all threads are quicker, the next trial wakes it up. A choice
for calls longer than `WAKING` is kept for a fourth of the calls, because they take longer. A program whose calls take
longer than `LONG` always runs on all threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_int32
from statistics import median

LEAST_WARM, WARM, TIMED, KEPT, MISSED = 4, 64, 8, 1000, 32
WAKING = 200e-6
"""Seconds. A call that takes longer gains more from all threads than it takes to wake them up."""
LONG = 1e-3
"""Seconds. Calls that take longer have kernels that are worth sharing."""
CLEAR = 0.9
"""The greatest share of the time alone that is clearly quicker."""


class ThreadTrial:
    """Chooses for each call of a program whether its threads share it, by the times of calls before."""

    def __init__(self) -> None:
        self._is_long = self._wakes = self._is_quicker = False
        self._start()

    def _start(self) -> None:
        self.is_timed = True
        """Whether the next call is to be timed."""
        self._warming = True
        self._warm: list[float] = []
        self._times: list[float] = []
        self._kept = self._missed = 0

    def is_shared(self, parked: Iterable[c_int32]) -> bool:
        """Whether all threads take part in the next call. `parked` has a number for each, not 0 if it sleeps."""
        if self.is_timed:
            return self._warming or self._is_long or len(self._times) % 2 == 0
        if self._is_long or not self._is_quicker:
            return self._is_long
        if self._wakes:
            return True
        for one in parked:
            if one.value:
                self._missed += 1
                return False
        return True

    def ended(self, seconds: float = 0.0, *, joined: bool = False) -> None:
        """A call has ended. One that is timed took `seconds`, and `joined` says whether all threads have seen it."""
        if not self.is_timed:
            self._kept += 1
            if self._kept == (KEPT // 4 if self._wakes else KEPT) or self._missed == MISSED:
                self._start()
        elif self._warming:
            self._warm.append(seconds)
            count = len(self._warm)
            self._warming = count < LEAST_WARM or (not joined and count < WARM)
            self._is_long, self._wakes = min(self._warm) > LONG, min(self._warm) > WAKING
        else:
            self._times.append(seconds)
            if len(self._times) == 2 * TIMED:
                self.is_timed = False
                self._is_quicker = median(self._times[::2]) < CLEAR * median(self._times[1::2])
