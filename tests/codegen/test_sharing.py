"""Threads share the work of a call, whichever of them have a processor."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.classifier import classifier, image
from codegen.exactness import HERE
from zeropoint.codegen import sharing
from zeropoint.codegen.driver import needs_barrier
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import plan
from zeropoint.codegen.runtime import workers
from zeropoint.codegen.runtime.native import NativeProgram, sources_of
from zeropoint.codegen.sharing import marks_of, supersteps_of
from zeropoint.interp import Interpreter


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
    assert marks_of(graph, 1) == 0
    assert marks_of(graph, 2) % 8 == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_functions_of_two_steps_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """LLVM takes long for one function with thousands of calls, so the steps are divided into several."""
    monkeypatch.setattr(sharing, "PART", 2)
    program = NativeProgram(classifier(), threads=threads, cache=False)
    parts = [source.text() for name, source in sources_of(program.graph).items() if name.startswith("driver")]
    assert len(parts) > len(program.graph.steps) // 2
    assert max(text.count("call void @kernel_") for text in parts) <= 3 * 2  # alone, own shares, those of others
    for seed in range(3):
        expected = Interpreter(classifier())(image(seed))["y0"]
        np.testing.assert_array_equal(program(image(seed))["y0"], expected)
    program.close()


@pytest.mark.parametrize("turns", [0, 1000000])
def test_the_time_that_a_thread_waits_for_the_others_changes_no_bits(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """0: a thread looks for shares of others at once. A million: it nearly never does, as the others end theirs."""
    monkeypatch.setattr(sharing, "SOON", turns)
    program = NativeProgram(classifier(), threads=3, cache=False)
    for call in range(20):
        expected = Interpreter(classifier())(image(call % 4))["y0"]
        np.testing.assert_array_equal(program(image(call % 4))["y0"], expected)
    program.close()
