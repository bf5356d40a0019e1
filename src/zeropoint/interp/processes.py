"""Parallel processes: a grid of replicas and partitions, and their communication.

Each process is a thread. An exchange is a rendezvous: every process of a group contributes a value, and continues with
all values when the last process has arrived. The results do not depend on the order of arrival. If a process waits for
one that has ended, failed, or waits itself, the run ends with an error instead of a deadlock.

Source: the StableHLO specification, "Execution": parallel execution, collective ops and their process groups.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

from zeropoint.interp.errors import ExecutionError

ProcessId = tuple[int, int]
"""(replica id, partition id)."""


@dataclass
class ProcessGrid:
    """The processes of one run, and their communication."""

    replicas: int
    partitions: int
    infeed: deque[Any] = field(default_factory=deque[Any])
    outfeed: list[Any] = field(default_factory=list[Any])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _meetings: dict[Hashable, dict[ProcessId, Any]] = field(default_factory=dict[Hashable, dict[ProcessId, Any]])
    _channels: dict[int, deque[Any]] = field(default_factory=dict[int, deque[Any]])
    _counts: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _waiting: list[Callable[[], bool]] = field(default_factory=list[Callable[[], bool]])
    _running: int = 1
    _broken: str | None = None

    def meet(self, process: ProcessId, group: Sequence[ProcessId], key: Hashable, value: Any) -> list[Any]:
        """Wait for all processes of a group, and return their values in the order of the group.

        Raises ExecutionError if a process can no longer arrive.
        """
        members = tuple(group)
        if process not in members:
            raise ExecutionError(f"found process {process} in an exchange of {members}, expected one of these")
        for replica, partition in members:
            if replica >= self.replicas or partition >= self.partitions:
                raise ExecutionError(
                    f"found process {(replica, partition)} in a group, expected a grid of {self.replicas} replicas "
                    f"and {self.partitions} partitions; run the program with interpreter.run_parallel"
                )
        with self._changed:
            turn = self._counts.get((key, members, process), 0)
            self._counts[(key, members, process)] = turn + 1
            meeting = self._meetings.setdefault((key, members, turn), {})
            meeting[process] = value
            self._changed.notify_all()
            self._wait(lambda: len(meeting) == len(members), f"process {process} waits for others in {key}")
            return [meeting[member] for member in members]

    def send(self, channel: int, values: Any) -> None:
        """Send values to a channel."""
        with self._changed:
            self._channels.setdefault(channel, deque()).append(values)
            self._changed.notify_all()

    def receive(self, channel: int) -> Any:
        """Receive the oldest values of a channel. Waits until there are some."""
        with self._changed:
            queue = self._channels.setdefault(channel, deque())
            self._wait(lambda: len(queue) > 0, f"nothing comes on channel {channel}")
            return queue.popleft()

    def feed(self) -> Any:
        """Take the oldest value from the infeed."""
        with self._changed:
            if not self.infeed:
                raise ExecutionError("found an empty infeed; expected a value for every stablehlo.infeed")
            return self.infeed.popleft()

    def _wait(self, ready: Callable[[], bool], complaint: str) -> None:
        """Sleep until `ready()` is true. The caller holds the lock under which all changes are made and notified."""
        self._waiting.append(ready)
        while not ready() and self._broken is None:
            if len(self._waiting) == self._running and not any(other() for other in self._waiting):
                self._broken = complaint
                self._changed.notify_all()
            else:
                self._changed.wait()
        self._waiting.remove(ready)
        if not ready():
            raise ExecutionError(str(self._broken))

    def run(self, programs: Sequence[tuple[ProcessId, Callable[[], Any]]]) -> list[Any]:
        """Run the programs under the limits of this thread, and return their results in order.

        If programs fail, the first error is raised.
        """
        results: list[Any] = [None] * len(programs)
        errors: list[Exception] = []
        self._running = len(programs)

        def work(index: int, process: ProcessId, program: Callable[[], Any]) -> None:
            CURRENT.set((self, process))
            try:
                results[index] = program()
            except Exception as error:
                with self._changed:
                    errors.append(error)
                    self._broken = self._broken or f"process {process} failed: {error}"
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

        threads = [
            threading.Thread(target=copy_context().run, args=(work, index, process, program), daemon=True)
            for index, (process, program) in enumerate(programs)
        ]
        for number, thread in enumerate(threads):
            try:
                thread.start()
            except RuntimeError as error:  # the system allows no more threads; the started processes end, too
                with self._changed:
                    self._broken = f"found {len(threads)} processes, expected up to {number}, which this machine runs"
                    self._changed.notify_all()
                raise ExecutionError(self._broken) from error
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results


CURRENT: ContextVar[tuple[ProcessGrid, ProcessId]] = ContextVar("process", default=(ProcessGrid(1, 1), (0, 0)))
"""The grid, and the id of the current process. A program outside of `run_parallel` is the only process of its grid."""


def cross_replica(groups: Sequence[Sequence[int]], process: ProcessId, grid: ProcessGrid) -> list[ProcessId] | None:
    """The group of a process if groups list replica ids, within each partition; None if it is in no group."""
    replica, partition = process
    return next(([(other, partition) for other in group] for group in groups if replica in group), None)


def cross_partition(groups: Sequence[Sequence[int]], process: ProcessId, grid: ProcessGrid) -> list[ProcessId] | None:
    """The group of a process if groups list partition ids, within each replica."""
    replica, partition = process
    return next(([(replica, other) for other in group] for group in groups if partition in group), None)


def cross_replica_and_partition(
    groups: Sequence[Sequence[int]], process: ProcessId, grid: ProcessGrid
) -> list[ProcessId] | None:
    """The group of a process if groups list replica ids, each of which stands for all its partitions."""
    replica, _ = process
    found = next((group for group in groups if replica in group), None)
    if found is None:
        return None
    return [(other, partition) for partition in range(grid.partitions) for other in found]


def flattened_ids(groups: Sequence[Sequence[int]], process: ProcessId, grid: ProcessGrid) -> list[ProcessId] | None:
    """The group of a process if groups list process ids, numbered replica by replica."""
    number = process[0] * grid.partitions + process[1]
    found = next((group for group in groups if number in group), None)
    return None if found is None else [(other // grid.partitions, other % grid.partitions) for other in found]
