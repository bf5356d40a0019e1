"""The arena: values in use at the same time share no byte, but for an output written over its operand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.codegen import driver
from zeropoint.codegen.driver import _apart, needs_barrier
from zeropoint.codegen.graph import Buffer, Graph, Space, Step, View, row_major
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.memory import plan


@dataclass(frozen=True)
class Nothing:
    """A kernel of which only the buffers matter."""

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        raise AssertionError("not compiled")


def view(size: int) -> View:
    return View(Buffer(Space.ARENA, size), 0, (size,), row_major((size,), 1), np.dtype(np.int8))


def graph() -> Graph:
    return Graph([], [], INSTRUCTION_SETS["portable"])


steps = st.lists(st.tuples(st.integers(1, 2000), st.lists(st.integers(0, 5), max_size=3), st.booleans()), min_size=1)


def drawn_graph(drawn: list[tuple[int, list[int], bool]]) -> tuple[Graph, list[View]]:
    """A graph of steps that read earlier values, and its values."""
    made = graph()
    values: list[View] = []
    for size, chosen, elementwise in drawn:
        inputs = [values[-1 - back] for back in chosen if back < len(values)]
        target = view(inputs[0].shape[0] if elementwise and inputs else size)
        made.call("step", Nothing(), inputs, [target], elementwise=inputs if elementwise else [])
        values.append(target)
    return made, values


def meet(left: Buffer, right: Buffer) -> bool:
    if left.space is not Space.ARENA or right.space is not Space.ARENA:
        return left is right
    return left.offset < right.offset + right.size and right.offset < left.offset + left.size


@given(steps, st.lists(st.integers(0, 9), max_size=6))
def test_a_barrier_precedes_a_step_that_depends_on_one_since_the_last(drawn, returned):
    made, values = drawn_graph(drawn)
    for index in returned:
        value = values[index % len(values)]
        made.call("copy", Nothing(), [value], [View(Buffer(Space.OUTPUT, 1), 0, (1,), (1,), np.dtype(np.int8))])
    plan(made)
    since: list[Step] = []
    for step, barrier in zip(made.steps, needs_barrier(made), strict=True):
        pairs = [(a, b) for before in since for a in before.writes for b in (*step.reads, *step.writes)]
        pairs += [(a, b) for before in since for a in before.reads for b in step.writes]
        assert barrier == any(meet(a, b) for a, b in pairs)
        since = [step] if barrier else [*since, step]


def test_the_images_of_a_batch_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 100,000 images took minutes."""
    made, source, target, family = graph(), view(8), view(8), object()
    for _ in range(1000):
        made.call("convolution", Nothing(), [source], [target], family=family)
    made.call("sum", Nothing(), [target], [view(8)])
    plan(made)
    compared: list[Step] = []

    def apart(step: Step, other: Step) -> bool:
        compared.append(step)
        return _apart(step, other)

    monkeypatch.setattr(driver, "_apart", apart)
    assert needs_barrier(made) == [*[False] * 1000, True]
    assert len(compared) < 1000


@given(steps)
def test_what_is_in_use_together_does_not_meet(drawn):
    made, values = drawn_graph(drawn)
    arena = plan(made)
    uses = {
        v.buffer: [i for i, step in enumerate(made.steps) if v.buffer in (*step.reads, *step.writes)] for v in values
    }
    for n, first in enumerate(values):
        a = first.buffer
        assert a.offset >= 0
        assert a.offset % 64 == 0
        assert a.offset + a.size <= arena.size
        for second in values[n + 1 :]:
            b = second.buffer
            together = uses[a][0] <= uses[b][-1] and uses[b][0] <= uses[a][-1]
            meet = a.offset < b.offset + b.size and b.offset < a.offset + a.size
            if together and meet:
                step = made.steps[uses[b][0]]
                assert step.over is not None
                assert step.over.offset == b.offset
                assert uses[a][-1] == uses[b][0] or a.offset == b.offset
    assert arena.size >= arena.lower_bound


def test_an_elementwise_output_takes_the_place_of_an_operand_that_ends():
    made, first, second, third = graph(), view(100), view(100), view(100)
    made.call("first", Nothing(), [], [first])
    made.call("second", Nothing(), [first], [second], elementwise=[first])
    made.call("third", Nothing(), [second], [third], elementwise=[second])
    assert plan(made).size == 128
    assert first.buffer.offset == second.buffer.offset == third.buffer.offset


def test_the_last_step_does_not_write_over_a_value_that_is_observed_after_the_run():
    made, first, second = graph(), view(100), view(100)
    made.call("first", Nothing(), [], [first])
    made.call("second", Nothing(), [first], [second], elementwise=[first])
    made.observed = [first, second]
    arena = plan(made)
    assert first.buffer.offset != second.buffer.offset
    assert arena.size == arena.lower_bound == 256


def test_an_operand_that_is_read_later_keeps_its_place():
    made, first, second, third = graph(), view(100), view(100), view(100)
    made.call("first", Nothing(), [], [first])
    made.call("second", Nothing(), [first], [second], elementwise=[first])
    made.call("third", Nothing(), [first, second], [third])
    assert plan(made).size == 384
    assert len({first.buffer.offset, second.buffer.offset, third.buffer.offset}) == 3


def test_an_operand_that_is_read_otherwise_as_well_keeps_its_place():
    made, first, second = graph(), view(100), view(100)
    made.call("first", Nothing(), [], [first])
    made.call("second", Nothing(), [first, first], [second], elementwise=[first])
    plan(made)
    assert first.buffer.offset != second.buffer.offset


def test_operands_of_another_size_keep_their_place():
    made, first, second = graph(), view(100), view(200)
    made.call("first", Nothing(), [], [first])
    made.call("second", Nothing(), [first], [second], elementwise=[first])
    plan(made)
    assert first.buffer.offset != second.buffer.offset
