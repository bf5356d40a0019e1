"""A native program whose kernels run again, alone, with another value in place of an observed one.

Observed values stay in memory until the end of a run. So a kernel that reads them can run again when the run is over,
by the same code: its steps are those that compute its result from observed values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zeropoint.codegen.graph import Buffer, Graph, Space, View
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.slots import aligned, observed_values, results_of
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.kernel_path import KernelPath
from zeropoint.ir.tensors import Array


@dataclass(frozen=True)
class PathSteps:
    """The steps that compute the last value of a path from its first one.

    A kernel may read a value together with what other kernels moved of it, such as `x + reverse(x)`. Then only the
    moved one is another value: `moving` are the steps that compute it, and the values of the keys `restored` are exact
    again before `reading`.
    """

    reading: Sequence[range]
    moving: Sequence[range] = ()
    restored: Sequence[str] = ()


class Reruns:
    """Runs a program on one sample at a time, and then some of its kernels again. One thread at a time may use it.

    `keys` are those of the observed values, in order. `arena` is the memory of a run, by default new memory; with that
    of an execution slot, the program must not run in the meantime.
    """

    def __init__(
        self,
        program: NativeProgram,
        keys: Sequence[str],
        steps: Mapping[KernelPath, PathSteps],
        arena: Array | None = None,
    ):
        self._program, self._graph, self._keys, self._steps = program, program.graph, keys, steps
        self._arena = aligned(max(1, program.arena.size)) if arena is None else arena
        self._weights = program.graph.weights.array
        self._results: list[Array] = [np.empty(shape, dtype) for shape, dtype in results_of(self._graph.outputs)]
        self._inputs: list[Array] = []
        self._places: dict[str, Array] = {}
        """Where the observed values are."""
        self._exact: dict[str, Array] = {}
        self._table = program.table.copy()
        ports = len(self._graph.inputs), len(self._graph.outputs)
        self._workers = Workers(
            program.code, 1, self._arena.ctypes.data, self._weights.ctypes.data, *ports, self._table
        )

    @staticmethod
    def bytes_of(program: NativeProgram) -> int:
        """The memory of one such object: values where they are computed, and their copies."""
        return 2 * program.arena.size

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Run the program on a sample. Returns the observed values by key, in the order in which they are in memory.

        The next run overwrites them.
        """
        ports = self._graph.inputs
        # Copies, in which kernels may find other values than the caller's.
        self._inputs = [np.array(each, order="C") for each in checked_arguments(in_order(sample, ports), ports)]
        found = observed_values(self._graph, self._arena, self._weights, self._inputs, self._results)
        self._places = dict(zip(self._keys, found, strict=True))
        for place in found:
            place.flags.writeable = True
        self._run(range(len(self._graph.steps)))
        for key, place in self._places.items():
            if key in self._exact:
                self._exact[key][...] = place
            else:  # copies in another order take longer than the run
                self._exact[key] = np.array(place, order="K")
        return self._exact

    def again(self, path: KernelPath, arrays: Sequence[Array]) -> list[Array]:
        """The last value of a path for each of several first ones. All other values are those of the sample's run."""
        first, last = (self._places[path.keys[end]] for end in (0, -1))
        made: list[Array] = []
        for array in arrays:
            first[...] = array
            self._run_all(self._steps[path].moving)
            for key in self._steps[path].restored:
                self._places[key][...] = self._exact[key]
            self._run_all(self._steps[path].reading)
            made.append(np.array(last, order="K"))
        for key in path.keys:
            self._places[key][...] = self._exact[key]
        return made

    def _run_all(self, ranges: Sequence[range]) -> None:
        for steps in ranges:
            self._run(steps)

    def _run(self, steps: range) -> None:
        self._table.select(steps.start, steps.stop)
        addresses = [[array.ctypes.data for array in arrays] for arrays in (self._inputs, self._results)]
        self._workers.run(*addresses, held=(self._inputs, self._results, self._arena))


def steps_of_paths(
    graph: Graph, keys: Sequence[str], paths: Collection[KernelPath]
) -> dict[KernelPath, PathSteps] | None:
    """The steps that compute the last value of each path from its first one; None if some cannot run alone."""
    views = dict(zip(keys, graph.observed, strict=True))
    writers: dict[Buffer, list[int]] = {}
    for number, step in enumerate(graph.steps):
        for buffer in step.writes:
            writers.setdefault(buffer, []).append(number)
    made = _Steps(graph, views, writers)
    found: dict[KernelPath, PathSteps] = {}
    for path in paths:
        steps = made.of_path(path)
        if steps is None:
            return None
        found[path] = steps
    return found


@dataclass(frozen=True)
class _Steps:
    graph: Graph
    views: Mapping[str, View]
    """The observed values by key."""
    writers: Mapping[Buffer, Sequence[int]]

    @cached_property
    def _observed(self) -> Set[Buffer]:
        return {view.buffer for view in self.views.values()}

    def of_path(self, path: KernelPath) -> PathSteps | None:
        """The steps of a path; None if some value is not observed, or is changed together with others."""
        if any(key not in self.views for key in (*path.keys, *path.others)):
            return None
        first, *changed = (self.views[key].buffer for key in path.keys)
        others = {self.views[key].buffer for key in path.others}
        if first.space is Space.WEIGHTS:
            return None
        if others.isdisjoint((first, *changed)):
            numbers = self._between(first, changed)
            return None if numbers is None else PathSteps(_ranges(numbers))
        return self._in_two_parts(path, others)

    def _in_two_parts(self, path: KernelPath, others: Set[Buffer]) -> PathSteps | None:
        """Steps that move a value, and those of a reader that has the original one as well."""
        first, *moved, last = (self.views[key].buffer for key in path.keys)
        if not moved or moved[-1] is first or not others.isdisjoint((moved[-1], last)):
            return None
        moving, reading = self._between(first, moved), self._between(moved[-1], [last])
        if moving is None or reading is None:
            return None
        if any(moved[-1] in self.graph.steps[number].writes for number in reading):
            return None
        restored = [key for key in path.keys[:-2] if self.views[key].buffer is not moved[-1]]
        return PathSteps(_ranges(reading), _ranges(moving), restored)

    def _between(self, first: Buffer, changed: Sequence[Buffer]) -> list[int] | None:
        """The steps that compute the last one of the changed values from the first value, in order."""
        observed = self._observed

        def stays(buffer: Buffer) -> bool:
            # A value that only has another shape is where the first one is.
            return buffer is first or (buffer in observed and buffer not in changed)

        numbers, pending = set[int](), [changed[-1]] if changed and changed[-1] is not first else []
        seen = set(pending)
        while pending:
            buffer = pending.pop()
            if buffer.inside is not None or buffer not in self.writers:
                return None
            # The padding of an observed value is still there.
            wanted = [n for n in self.writers[buffer] if not (self.graph.steps[n].halo and buffer in changed)]
            numbers.update(wanted)
            for read in (read for n in wanted for read in self.graph.steps[n].reads):
                if read not in seen and not stays(read) and read.space not in (Space.INPUT, Space.WEIGHTS):
                    seen.add(read)
                    pending.append(read)
        return sorted(numbers)


def _ranges(numbers: Sequence[int]) -> list[range]:
    """Ascending numbers as ranges."""
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found
