"""The steps of a program as a table of numbers, for the function that runs them in this process (`sharing.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from zeropoint.codegen.driver import needs_barrier
from zeropoint.codegen.graph import Graph, Parameters, Step, every_step, place_of
from zeropoint.codegen.llvm.checked import Layout
from zeropoint.codegen.llvm.machine import Loaded
from zeropoint.ir.tensors import Array

LINE = 8
"""Marks, which are i64, in a cache line."""
SOON = 50
"""Turns of waiting for the end of a superstep, about two microseconds, before a thread looks for shares of others.

After a wait in vain, it looks at once in the following superstep: another thread may have no processor."""


def supersteps_of(graph: Graph) -> list[list[int]]:
    """The numbers of the steps of every superstep: those between two barriers."""
    supersteps: list[list[int]] = []
    for number, barrier in enumerate(needs_barrier(graph)):
        if barrier or not supersteps:
            supersteps.append([])
        supersteps[-1].append(number)
    return supersteps


class TableHeader:
    """The places of the numbers at the start of a table."""

    SUPERSTEPS, STEPS, MARKS, ROW, INPUTS, FIRST, SOON, SPINS = range(8)
    """Numbers of supersteps and of steps; bytes of the marks of supersteps, and of those of a thread; the number of
    inputs; the offset in bytes of the first step; `SOON`; how often a worker polls for the next call. The first steps
    of the supersteps follow the header."""
    SIZE = 8


class TableStep:
    """The places of the numbers of a step."""

    KERNEL, TASKS, COUNT, ARGUMENTS, BOUNDS = range(5)
    """The address of the kernel; the numbers of tasks and of arguments; the offsets in bytes of the first argument in
    the table and of the step's block in the table of bounds."""
    SIZE = 5


class TableArgument:
    """The places of the numbers of an argument: a table of addresses, the place in it, and the offset in bytes."""

    SPACE, INDEX, OFFSET = range(3)
    SIZE = 3


def block_bytes(graph: Graph) -> int:
    """The size in bytes of the block with the memory ranges that a step of a checked program may access."""
    return Layout.RANGES + Layout.ENTRY * max((len(step.arguments) for step in every_step(graph.steps)), default=0)


@dataclass(frozen=True)
class StepTable:
    """The steps of a program as i64, for the function that runs them: header, first steps of the supersteps, steps,
    arguments."""

    array: Array

    @staticmethod
    def of(graph: Graph, names: Sequence[str], code: Loaded, spins: int) -> StepTable:
        """The table of a graph whose arena is planned; `names` are the functions of the steps in `code`.

        A worker polls `spins` times for the next call before it parks.
        """
        supersteps, count = supersteps_of(graph), len(graph.steps)
        starts = [0, *accumulate(map(len, supersteps))]
        first = TableHeader.SIZE + len(starts)
        header = [0] * TableHeader.SIZE
        header[TableHeader.SUPERSTEPS], header[TableHeader.STEPS] = len(supersteps), count
        header[TableHeader.MARKS], header[TableHeader.ROW] = _lines(len(supersteps)), _lines(count)
        header[TableHeader.INPUTS], header[TableHeader.FIRST] = len(graph.inputs), 8 * first
        header[TableHeader.SOON], header[TableHeader.SPINS] = SOON, spins
        numbers = [len(step.arguments) for step in graph.steps]
        arguments = accumulate(
            (TableArgument.SIZE * number for number in numbers), initial=first + TableStep.SIZE * count
        )
        # Steps inside of loops and branches have blocks of bounds, too.
        places = accumulate((step.count for step in graph.steps), initial=0)
        size = block_bytes(graph)
        steps = [
            [code.address(name), tasks, number, 8 * at, place * size]
            for tasks, name, number, at, place in zip(_tasks(graph), names, numbers, arguments, places, strict=False)
        ]
        given = (place_of(argument) for step in graph.steps for argument in step.arguments)
        return StepTable(np.array([*header, *starts, *chain(*steps), *chain(*given)], np.int64))

    def copy(self) -> StepTable:
        """The same table, to be changed."""
        return StepTable(self.array.copy())

    def select(self, first: int, last: int) -> None:
        """Make it a table of the steps from `first` to before `last`, for one thread. All steps are selected first."""
        supersteps = int(self.array[TableHeader.SUPERSTEPS])
        start = TableHeader.SIZE + supersteps + 1 + TableStep.SIZE * first
        self.array[TableHeader.STEPS], self.array[TableHeader.FIRST] = last - first, 8 * start

    def replace(self, number: int, address: int, step: Step, parameters: tuple[int, int]) -> None:
        """Replace a step by one of as many arguments, whose parameters are at a place of the tables of addresses."""
        supersteps = int(self.array[TableHeader.SUPERSTEPS])
        entry = self.array[TableHeader.SIZE + supersteps + 1 + TableStep.SIZE * number :]
        entry[TableStep.KERNEL] = address
        first = int(entry[TableStep.ARGUMENTS]) // 8
        places = [
            (*parameters, argument.offset) if isinstance(argument, Parameters) else place_of(argument)
            for argument in step.arguments
        ]
        assert len(places) == entry[TableStep.COUNT]
        self.array[first : first + TableArgument.SIZE * len(places)] = [*chain(*places)]

    def marks(self, threads: int) -> int:
        """Marks that the threads of a call share; none for a single thread."""
        supersteps, row = int(self.array[TableHeader.MARKS]), int(self.array[TableHeader.ROW])
        # Each thread's marks begin a cache line of their own: taking a share does not touch the lines of the others.
        return (supersteps + threads * row) // 8 if threads > 1 else 0


def _tasks(graph: Graph) -> list[int]:
    """The number of tasks of each step."""
    # Once for each kernel: a batch has a step of the same one for each image.
    kernels = {id(step.kernel): step.kernel for step in graph.steps}
    tasks = {key: kernel.tasks(graph.isa) for key, kernel in kernels.items()}
    return [tasks[id(step.kernel)] for step in graph.steps]


def _lines(marks: int) -> int:
    """The bytes of marks in whole cache lines."""
    return 8 * LINE * -(-marks // LINE)
