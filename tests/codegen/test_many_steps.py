"""Programs of thousands of steps: what is looked up for each step does not grow with their number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zeropoint.codegen.driver import needs_barrier
from zeropoint.codegen.graph import Buffer, Graph, Space, View
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.memory import plan
from zeropoint.codegen.runtime.reruns import steps_of_paths
from zeropoint.ir.kernel_path import KernelPath

MANY = 1000
FEW = 12
"""Most reads for each step."""


@dataclass(frozen=True)
class Idle:
    """A kernel of which only the buffers matter."""

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        raise AssertionError("not compiled")


class Reads:
    """Counts how often an attribute is read."""

    count = 0


def graph() -> Graph:
    return Graph([], [], INSTRUCTION_SETS["portable"])


def test_steps_without_a_barrier_are_not_compared_with_each_other() -> None:
    reads = Reads()

    class Placed(Buffer):
        def __getattribute__(self, name: str) -> object:
            reads.count += name == "offset"
            return super().__getattribute__(name)

    made = graph()
    for _ in range(MANY):
        made.call("step", Idle(), [], [View(Placed(Space.ARENA, 64), 0, (64,), (1,), np.dtype(np.int8))])
    made.observed = [View(step.writes[0], 0, (64,), (1,), np.dtype(np.int8)) for step in made.steps]
    plan(made)
    reads.count = 0
    assert needs_barrier(made) == [False] * MANY
    assert reads.count <= FEW * MANY


def test_the_observed_values_are_not_listed_for_each_kernel_that_runs_again() -> None:
    reads = Reads()

    class Observed(View):
        def __getattribute__(self, name: str) -> object:
            reads.count += name == "buffer"
            return super().__getattribute__(name)

    made = graph()
    values = [Observed(Buffer(Space.ARENA, 4), 0, (4,), (1,), np.dtype(np.int8)) for _ in range(MANY + 1)]
    for value, result in pairwise(values):
        made.call("step", Idle(), [value], [result])
    made.observed = [*values]
    reads.count = 0
    keys = [str(number) for number in range(MANY + 1)]
    paths = [KernelPath(pair) for pair in pairwise(keys)]
    found = steps_of_paths(made, keys, paths)
    assert found is not None
    assert [found[path].reading for path in paths] == [[range(number, number + 1)] for number in range(MANY)]
    assert reads.count <= FEW * MANY
