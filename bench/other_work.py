"""How much of the machine other processes take while something is measured.

A measurement can't be believed while another process has its core, and whether one had is known: the kernel counts
what all cores did, and what this process did. Time that a hypervisor took away counts as other work.
"""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = (3, 4)  # of the columns of /proc/stat: idle, iowait


def busy_seconds(text: str, ticks: int) -> float:
    """Seconds that all cores together were not idle since the machine started.

    Args:
        text: /proc/stat, whose first line counts user, nice, system, idle, iowait, irq, softirq and steal time (guest
            time, after these, is part of user).
        ticks: of the counters, a second.
    """
    counters = [int(value) for value in text.split("\n", 1)[0].split()[1:9]]
    return sum(value for column, value in enumerate(counters) if column not in IDLE) / ticks


class Meter:
    """Counts from its making. Where the kernel doesn't count (no /proc/stat), there is no other work."""

    def __init__(self) -> None:
        self._started = time.perf_counter(), self._others()

    def cores(self) -> float:
        """Cores that others kept busy since, on average; 0.01 is about what the counters resolve in a second."""
        elapsed, others = time.perf_counter() - self._started[0], self._others() - self._started[1]
        return max(others / elapsed, 0.0)

    def _others(self) -> float:
        if not STAT.exists():
            return 0.0
        return busy_seconds(STAT.read_text(), os.sysconf("SC_CLK_TCK")) - time.process_time()


def wait_until_quiet(patience: float, limit: float = 0.15, sample: float = 0.1) -> float:
    """Waits until others keep fewer than `limit` cores busy for `sample` seconds; at most `patience` seconds.

    Returns:
        The seconds it took.
    """
    started = time.perf_counter()
    while (waited := time.perf_counter() - started) < patience:
        meter = Meter()
        time.sleep(sample)
        if meter.cores() < limit:
            break
    return waited
