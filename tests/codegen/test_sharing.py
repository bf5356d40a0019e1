"""Threads share the work of a call, whichever of them have a processor."""

from __future__ import annotations

import threading
import time
from ctypes import c_int32

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
from zeropoint.codegen.runtime.thread_trial import KEPT, LONG, MISSED, WAKING, WARM, ThreadTrial
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


@pytest.mark.parametrize("bells", ["futexes", "queues"])
def test_parked_workers_take_part_again(bells: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And end when the program is closed, even if they are parked."""
    if bells == "queues":
        monkeypatch.setattr(workers, "FUTEXES", {})
    before = set(threading.enumerate())
    program = NativeProgram(classifier(), threads=3, spins=0)
    (slot,) = program._slots
    expected = Interpreter(classifier())(image(1))["y0"]
    for _ in range(3):
        deadline = time.monotonic() + 10
        while not all(one.value for one in slot._workers._parked) and time.monotonic() < deadline:
            time.sleep(0.01)
        np.testing.assert_array_equal(program(image(1))["y0"], expected)
        while not slot._workers._have_joined() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert slot._workers._have_joined()
    program.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def decided(trial: ThreadTrial, together: float, alone: float, *, joined: bool = True) -> None:
    """A whole trial with calls that take these seconds."""
    while trial.is_timed:
        trial.ended(together if trial.is_shared([]) else alone, joined=joined)


AWAKE, ASLEEP = [c_int32(0), c_int32(0)], [c_int32(0), c_int32(1)]


def test_a_short_program_runs_on_all_threads_if_that_is_clearly_quicker() -> None:
    for together, alone, shared in ((1e-5, 2e-5, True), (2e-5, 1e-5, False), (1e-5, 1.05e-5, False)):
        trial = ThreadTrial()
        decided(trial, together, alone)
        assert trial.is_shared(AWAKE) == shared


def test_a_call_that_lost_its_processor_does_not_decide() -> None:
    trial = ThreadTrial()
    times = iter([1.0, 1e-5, 1e-5, 1e-5, 1.0])  # of shared calls
    while trial.is_timed:
        trial.ended(next(times, 1e-5) if trial.is_shared([]) else 2e-5, joined=True)
    assert trial.is_shared(AWAKE)


def test_a_long_program_runs_on_all_threads() -> None:
    trial = ThreadTrial()
    decided(trial, 2 * LONG, LONG)  # on a busy machine
    assert trial.is_shared(ASLEEP)


@pytest.mark.parametrize("asleep", [False, True])
def test_a_program_of_many_small_kernels_runs_on_all_threads_only_if_that_is_quicker(asleep: bool) -> None:
    for together, alone in ((1.5, 3), (3, 1.5), (1.5, 1.55)):
        trial = ThreadTrial()
        decided(trial, together * WAKING, alone * WAKING)
        assert trial.is_shared(ASLEEP if asleep else AWAKE) == (together < 0.9 * alone)


def test_a_short_call_wakes_no_thread_but_many_do() -> None:
    trial = ThreadTrial()
    decided(trial, 1e-5, 2e-5)
    for _ in range(MISSED):
        assert not trial.is_shared(ASLEEP)
        trial.ended()
    assert trial.is_shared(ASLEEP)


def test_workers_have_some_calls_to_wake_up_before_they_are_judged() -> None:
    trial = ThreadTrial()
    for _ in range(WARM - 1):
        trial.ended(2e-5, joined=False)
        assert trial.is_shared([])
    trial.ended(2e-5, joined=True)
    decided(trial, 1e-5, 2e-5)
    assert trial.is_shared(AWAKE)


@pytest.mark.parametrize(("unit", "kept"), [(1e-5, KEPT), (1.5 * WAKING, KEPT // 4)], ids=["short", "longer"])
def test_a_program_is_judged_again(unit: float, kept: int) -> None:
    trial = ThreadTrial()
    decided(trial, 2 * unit, unit)
    for _ in range(kept):
        assert not trial.is_shared(AWAKE)
        trial.ended()
    decided(trial, unit, 2 * unit)
    assert trial.is_shared(AWAKE)
