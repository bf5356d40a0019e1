"""Threads share the work of a call, whichever of them have a processor."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.classifier import classifier, image
from codegen.exactness import HERE
from zeropoint.codegen import step_table
from zeropoint.codegen.driver import needs_barrier
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import plan
from zeropoint.codegen.runtime import workers
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.sharing import ARGUMENTS, most_arguments
from zeropoint.codegen.step_table import supersteps_of
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program


def test_a_call_ends_though_no_worker_ever_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_serve", lambda *_: None)
    program = NativeProgram(classifier(), threads=4)
    for seed in range(3):
        expected = Interpreter(classifier())(image(seed))["y0"]
        np.testing.assert_array_equal(program(image(seed))["y0"], expected)
    program.close()


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_many_short_calls_give_the_same_bits(threads: int) -> None:
    """More threads than processors: in many calls a thread comes late, or after the call has ended."""
    program = NativeProgram(classifier(), threads=threads)
    expected = [Interpreter(classifier())(image(seed))["y0"] for seed in range(4)]
    for call in range(200):
        np.testing.assert_array_equal(program(image(call % 4))["y0"], expected[call % 4])
    program.close()


def test_supersteps_are_the_steps_between_barriers() -> None:
    graph = steps_of(classifier(), HERE[-1])
    plan(graph)
    supersteps = supersteps_of(graph)
    assert [step for superstep in supersteps for step in superstep] == list(range(len(graph.steps)))
    assert [superstep[0] for superstep in supersteps][1:] == [
        n for n, barrier in enumerate(needs_barrier(graph)) if barrier
    ]


def test_steps_of_many_arguments_give_the_same_bits() -> None:
    """The function that runs the steps is written for eight arguments of each, or a multiple."""
    inputs = ", ".join(f"%x{n}: tensor<4xf32>" for n in range(19))
    lines = [f"%y{n} = stablehlo.add %{'x0' if n == 1 else f'y{n - 1}'}, %x{n} : tensor<4xf32>" for n in range(1, 19)]
    body = "\n".join([*lines, "return %y18 : tensor<4xf32>"])
    program = parse_program(f"func.func @main({inputs}) -> tensor<4xf32> {{\n{body}\n}}")
    native = NativeProgram(program, threads=2, cache=False)
    assert most_arguments(native.graph.steps) > ARGUMENTS
    values = [np.full(4, n, np.float32) for n in range(19)]
    np.testing.assert_array_equal(native.run_values(values)[0], np.full(4, 171, np.float32))
    native.close()


@pytest.mark.parametrize("turns", [0, 1000000])
def test_the_time_that_a_thread_waits_for_the_others_changes_no_bits(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """0: a thread looks for shares of others at once. A million: it nearly never does, as the others end theirs."""
    monkeypatch.setattr(step_table, "SOON", turns)
    program = NativeProgram(classifier(), threads=3, cache=False)
    for call in range(20):
        expected = Interpreter(classifier())(image(call % 4))["y0"]
        np.testing.assert_array_equal(program(image(call % 4))["y0"], expected)
    program.close()
