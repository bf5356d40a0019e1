"""Native programs as Python sees them: what they refuse, callers at once, the engine."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from codegen.classifier import SHAPE, classifier, image
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, SMALL_TILE, InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.runtime.native import NativeEngine, NativeProgram
from zeropoint.interp import Engine, InputError, Interpreter
from zeropoint.ir.text import parse_program


@pytest.fixture(scope="module")
def native() -> NativeProgram:
    return NativeProgram(classifier())


GOOD = image(0)["x0"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"found no inputs; expected x0: tensor<1x3x13x11xf32>"),
        ({"x1": GOOD}, r"found inputs x1; expected x0: "),
        (
            {"x0": GOOD[:, :2]},
            r"input x0: found shape 1x2x13x11, expected 1x3x13x11 \(tensor<1x3x13x11xf32>\); it has ",
        ),
        ({"x0": GOOD[0]}, r"input x0: found shape 3x13x11, expected"),
        ({"x0": GOOD.astype(np.float64)}, r"input x0: found dtype float64, expected float32 .*\.astype\('float32'\)"),
        ({"x0": GOOD.astype(">f4")}, r"input x0: found dtype >f4, expected float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(native: NativeProgram, inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        native(inputs)


def test_arrays_that_are_not_contiguous_or_not_aligned_are_taken(native: NativeProgram) -> None:
    expected = native({"x0": GOOD})["y0"]
    wide = np.zeros((*SHAPE[:-1], 2 * SHAPE[-1]), np.float32)
    wide[..., ::2] = GOOD
    backwards = np.ascontiguousarray(GOOD[..., ::-1])[..., ::-1]
    shifted = np.zeros(GOOD.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(SHAPE)
    shifted[:] = GOOD
    assert not shifted.flags.aligned
    read_only = GOOD.copy()
    read_only.flags.writeable = False
    for array in (wide[..., ::2], backwards, np.asfortranarray(GOOD), shifted, read_only):
        np.testing.assert_array_equal(native({"x0": array})["y0"], expected)


def test_results_of_one_call_stay_when_another_is_made(native: NativeProgram) -> None:
    first = native(image(1))["y0"]
    kept = first.copy()
    native(image(2))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(("threads", "callers"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_callers_at_once_get_their_own_results(threads: int, callers: int) -> None:
    samples = [image(seed, 1.0 + seed % 3) for seed in range(40)]
    interpreter = Interpreter(classifier())
    expected = [interpreter(sample)["y0"] for sample in samples]
    program = NativeProgram(classifier(), threads=threads, callers=callers)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda sample: program(sample)["y0"], samples * 3))
    np.testing.assert_array_equal(found, expected * 3)
    program.close()


FORKED = """
import os, sys
from codegen.classifier import classifier, image
from zeropoint.codegen.runtime.native import NativeProgram
program = NativeProgram(classifier(), threads=int(sys.argv[1]))
expected = program(image(0))["y0"]
child = os.fork()
if not child:
    try:
        os._exit(0 if (program(image(0))["y0"] == expected).all() else 1)
    except RuntimeError as error:
        os._exit(7 if "which was forked from" in str(error) else 8)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(("threads", "status"), [(1, 0), (2, 7)])
def test_a_forked_process_is_told_that_it_has_no_threads_instead_of_waiting_for_them(threads: int, status: int) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(threads)]
    assert subprocess.run(command, cwd=Path(__file__).parent.parent, timeout=300).returncode == status


def test_an_op_without_a_kernel_is_named_and_never_interpreted() -> None:
    held = "tensor<4xcomplex<f32>>"
    body = f'  %0 = stablehlo.tanh %a : {held} loc("act")\n  return %0 : {held}\n'
    program = parse_program(f"func.func @main(%a: {held}) -> {held} {{\n{body}}}\n")
    with pytest.raises(CodegenError, match=r"stablehlo.tanh 'act': "):
        NativeProgram(program)


@pytest.mark.parametrize(("threads", "callers"), [(0, 1), (65, 1), (1, 0)])
def test_impossible_numbers_of_threads_are_refused(threads: int, callers: int) -> None:
    with pytest.raises(ValueError, match=r"found (0|65) (threads|callers), expected"):
        NativeProgram(classifier(), threads=threads, callers=callers)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_closed_program_is_not_called(threads: int) -> None:
    program = NativeProgram(classifier(), threads=threads)
    program(image(0))
    for _ in range(2):
        program.close()
    with pytest.raises(RuntimeError, match="found a call of a program that is closed, expected an open one; load it"):
        program(image(0))


def test_native_code_is_an_engine() -> None:
    engine: Engine = NativeEngine(threads=2)
    ready = engine.prepare(classifier())
    observed: list[str] = []
    found = ready(image(3), observe=lambda key, _: observed.append(key))
    np.testing.assert_array_equal(found["y0"], Interpreter(classifier())(image(3))["y0"])
    assert not observed


def letters(isa: InstructionSet) -> int:
    """The letters of LLVM text in a program's kernels."""
    return sum(map(len, kernels_of(steps_of(classifier(), isa)).texts.values()))


def test_code_that_compiles_quickly_is_short() -> None:
    isa = INSTRUCTION_SETS["avx512-vnni"]
    assert letters(isa.unallocated) < letters(isa.unoptimized) <= letters(isa)


@pytest.mark.parametrize(("form", "expected"), [("debug", SMALL_TILE), ("light", 14), ("object", 14)])
def test_tiles_are_small_where_registers_do_not_matter(form: str, expected: int) -> None:
    program = NativeProgram(classifier(), form=form, cache=False)
    program.close()
    assert program.isa.most_pixels == expected
