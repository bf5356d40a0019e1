"""Calibration by native code: what it observes is what the interpreter observes, but for the order of float sums."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from codegen.exactness import assert_same_bits
from zeropoint import engines
from zeropoint.calibrate import collect, instrument, samples
from zeropoint.engines import ObservedProgram, observed
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.text import parse_program
from zeropoint.report.counts import multiplications
from zeropoint.simplify import simplify
from zeropoint.workers import processors

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


class Native:
    """Native code, whatever the size of the program."""

    def prepare(self, program: Program) -> ObservedProgram:
        return ObservedProgram(program)


@pytest.fixture(scope="module")
def asked() -> Program:
    return instrument(fuse(simplify(zp.load(DIGITS / "digits.onnx").program)))


def test_what_is_asked_for_is_a_further_output(asked):
    changed, keys = observed(asked)
    assert not any(isinstance(op, StatisticsRefOp) for op in changed.entry.ops)
    assert len(keys) == len(changed.outputs) - len(asked.outputs) > 5
    assert [port.name for port in changed.outputs[: len(asked.outputs)]] == [port.name for port in asked.outputs]
    assert not any(isinstance(op, QuantizeRegionOp) for op in changed.entry.ops)


def test_native_code_observes_what_the_interpreter_does(asked):
    taken = list(samples(DIGITS / "calib.npz", asked.inputs))[:8]
    native, reference = (collect(asked, taken, observer="minmax", engine=engine) for engine in (Native(), None))
    assert native.observations.keys() == reference.observations.keys()
    for key, expected in reference.observations.items():
        found = native.observations[key]
        assert (found.minimum, found.maximum) == (expected.minimum, expected.maximum)
        assert found.count == expected.count


LAST = """
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32> {
  %0 = stablehlo.negate %x : tensor<1x3x6x6xf32>
  %1 = stablehlo.abs %x : tensor<1x3x6x6xf32>
  %2 = "quant.stats_ref"(%1) {statsKey = "positive"} : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32>
  %3 = stablehlo.negate %2 : tensor<1x3x6x6xf32>
  %4 = "quant.stats_ref"(%3) {statsKey = "negative"} : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32>
  return %0 : tensor<1x3x6x6xf32>
}
"""


def test_the_last_kernel_does_not_write_over_an_observed_value() -> None:
    """The range of the first value was that of the second one."""
    program = parse_program(LAST)
    taken = [{"arg0": np.random.default_rng(seed).normal(size=(1, 3, 6, 6)).astype(np.float32)} for seed in range(2)]
    native, reference = (collect(program, taken, observer="minmax", engine=engine) for engine in (Native(), None))
    for key, expected in reference.observations.items():
        found = native.observations[key]
        assert (found.minimum, found.maximum) == (expected.minimum, expected.maximum), key


CASTS = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = quant.qcast %x : tensor<2x8xf32> to tensor<2x8x!quant.uniform<KIND>>
  %1 = quant.dcast %0 : tensor<2x8x!quant.uniform<KIND>> to tensor<2x8xf32>
  %2 = "quant.stats_ref"(%1) {statsKey = "v"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = stablehlo.add %2, %2 : tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}
"""


@pytest.mark.parametrize("profile", [None, "fixed16"])
@pytest.mark.parametrize("kind", ["i8:f32, 0.3:-5", "u8:f32, 0.3:7", "i8:f32:0, {0.3:1, 0.25:-2}", "i16:f32, 0.001"])
def test_casts_of_quantized_files_have_the_bits_of_the_interpreter(kind: str, profile: str | None) -> None:
    """Without a native form, the network of such a file was interpreted: BoTNet took eight times as long."""
    text = CASTS.replace("KIND", kind)
    if profile is not None:
        text = f'builtin.module attributes {{zeropoint.profile = "{profile}"}} {{{text}}}'
    program = parse_program(text)
    x = np.random.default_rng(0).normal(0, 20, (2, 8)).astype(np.float32)
    x[0, :6] = [np.nan, np.inf, -np.inf, 0.45, -0.45, 1e30]
    found: list[tuple[str, bytes]] = []
    for run in (Interpreter(program), ObservedProgram(program)):
        (made,) = run({"arg0": x}, observe=lambda key, array: found.append((key, np.array(array).tobytes()))).values()
        found.append(("result", made.tobytes()))
    assert found[:2] == found[2:]


def test_known_statistics_need_no_code(asked):
    """They stay in a program that is calibrated a second time, for the parts of values."""
    stated = asked.clone()
    for op in [op for op in stated.entry.ops if isinstance(op, StatisticsRefOp)][::2]:
        known = StatisticsOp(op.arg, (0.0, 1.0))
        stated.entry.insert_op_before(known, op)
        op.operands[0] = known.res
    taken = list(samples(DIGITS / "calib.npz", asked.inputs))[:2]
    found, expected = (collect(one, taken, observer="minmax", engine=Native()) for one in (stated, asked))
    assert found.observations == expected.observations


def test_the_outputs_are_those_of_the_program(asked):
    (sample,) = list(samples(DIGITS / "calib.npz", asked.inputs))[:1]
    found, expected = ObservedProgram(asked)(sample), Interpreter(asked)(sample)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert_same_bits(found[name], array, name)


def test_multiplications_are_those_of_convolutions_and_products(asked):
    # conv 16x1x3x3 on 28x28, depthwise 16 and 1x1 to 32 on 14x14, 1x1 to 96, depthwise 96, 1x1 to 32 on 14x14,
    # conv 64x32x3x3 on 7x7, product 64x10.
    expected = 784 * 16 * 9 + 196 * (16 * 9 + 32 * 16 + 96 * 32 + 96 * 9 + 32 * 96) + 49 * 64 * 32 * 9 + 640
    assert multiplications(asked) == expected


def test_small_programs_are_interpreted_then_compiled_then_optimized(asked, monkeypatch):
    (sample,) = list(samples(DIGITS / "calib.npz", asked.inputs))[:1]
    expected = Interpreter(asked)(sample)
    forms: list[bool] = []

    def compiled(program, threads, progress, *, optimized):
        forms.append(optimized)
        return ObservedProgram(program, threads=threads, optimized=optimized, progress=progress)

    monkeypatch.setattr(engines, "_compiled", compiled)
    ops = engines.size_of(asked)
    monkeypatch.setattr(engines, "CALLED", 0)
    monkeypatch.setattr(engines, "LOADING_LLVM", 0)
    monkeypatch.setattr(engines, "COMPILING", 4 * multiplications(asked) // ops)
    monkeypatch.setattr(engines, "OPTIMIZING", 8 * multiplications(asked) // ops)
    for runs, made in ((1, [[], [False], [False], [False, True], [False, True]]), (2, [[False]]), (4, [[True]])):
        forms.clear()
        warming = engines.QuickestEngine(runs).prepare(asked)
        for run in made:
            found = warming(sample)
            assert forms == run
            for name, array in expected.items():
                assert_same_bits(found[name], array, name)


def test_calls_of_ops_and_loading_llvm_count(asked, monkeypatch):
    """Small ops take the interpreter as long as their calls do: such networks were interpreted in all runs."""
    size = engines.size_of(asked)
    monkeypatch.setattr(engines, "COMPILING", 100)
    monkeypatch.setattr(engines, "CALLED", 100)
    monkeypatch.setattr(engines, "LOADING_LLVM", 50 * size)
    work = engines.RunWork.of(asked, 0)
    assert not work.justifies(0, optimized=False)
    assert work.justifies(2, optimized=False)
    assert not work.justifies(10**6, optimized=True)  # optimized code calls nothing less
    assert work.justifies(1, optimized=False) == ("llvmlite" in sys.modules)


def test_ops_of_a_form_that_others_have_count_less():
    """Their kernels are compiled once. The steps of a recurrent layer were interpreted for longer than that takes."""

    def chain(length: int) -> Program:
        steps = "\n".join(f"%v{n + 1} = stablehlo.tanh %v{n} : tensor<4xf32>" for n in range(length))
        return parse_program(
            f"func.func @main(%v0: tensor<4xf32>) -> tensor<4xf32> {{\n{steps}\nreturn %v{length} : tensor<4xf32> }}"
        )

    assert engines.size_of(chain(1 + 2 * engines.REPEATED)) == engines.size_of(chain(1)) + 2


def test_programs_with_many_operations_run_on_all_threads_with_the_same_statistics(asked, monkeypatch):
    taken, made = list(samples(DIGITS / "calib.npz", asked.inputs))[:2], []

    def compiled(program, threads, progress, *, optimized):
        made.append(threads)
        return ObservedProgram(program, threads=threads, optimized=False, progress=progress)

    monkeypatch.setattr(engines, "_compiled", compiled)
    monkeypatch.setattr(engines, "COMPILING", 1)
    reports = []
    for least in (1, 2 * multiplications(asked) + 1):
        monkeypatch.setattr(engines, "SHARED", least)
        reports.append(collect(asked, taken, observer="minmax", engine=engines.QuickestEngine(2, threads=3)))
    assert made == [3, 1]
    assert reports[0].observations == reports[1].observations


def test_an_engine_in_another_process_has_one_thread():
    assert pickle.loads(pickle.dumps(engines.QuickestEngine(5, threads=4))) == engines.QuickestEngine(5)
    assert pickle.loads(pickle.dumps(engines.QuickestEngine(5, threads=4))).threads == 1


@pytest.mark.parametrize(
    ("given", "expected"), [("3", 3), ("5,2", 5), ("9999", 64), ("", None), ("0", None), ("-1", None), ("many", None)]
)
def test_threads_are_those_of_openmp_or_one_per_processor(monkeypatch, given, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 4}, raising=False)
    assert processors() == (expected or 3)


def test_a_program_without_a_native_form_stays_interpreted(monkeypatch):
    program = parse_program("""
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = chlo.lgamma %y : tensor<4x4xf32> -> tensor<4x4xf32>
      return %z : tensor<4x4xf32>
    }""")
    monkeypatch.setattr(engines, "COMPILING", 1)
    warming = engines.QuickestEngine().prepare(program)
    for _ in range(2):
        warming({program.inputs[0].name: np.ones((4, 4), np.float32)})
    assert isinstance(warming, engines.Warming)
    assert isinstance(warming.runnable, Interpreter)
