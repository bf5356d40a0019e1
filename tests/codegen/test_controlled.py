"""Loops and branches in native code: the bits of the interpreter, text there and back, limits, objects for C."""

from __future__ import annotations

import ctypes
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import ParseError

from codegen.controlled_programs import controlled_program
from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, KERNEL_CASES, assert_native_is_exact, unoptimized
from codegen.loop_programs import inputs_for
from property_cases import some
from zeropoint.codegen.aot.ahead_of_time import library, write
from zeropoint.codegen.group import group
from zeropoint.codegen.kernels.control import Loop
from zeropoint.codegen.layout import layout
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError, host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.engines import ObservedProgram, QuickestEngine, Warming
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import InvalidProgram, verify
from zeropoint.limits import LimitExceeded, limited

SEEDS = st.integers(0, 100_000)


@some(3)
@given(number=SEEDS)
def test_random_programs(number: int) -> None:
    program = controlled_program(number)
    with unoptimized():  # LLVM takes its time over hundreds of small kernels
        assert_native_is_exact(program, [inputs_for(program, n) for n in range(2)], HERE[0], threads=(1, 3))


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
def test_a_random_program_on_every_instruction_set(isa: InstructionSet) -> None:
    program = controlled_program(1)
    assert_native_is_exact(program, [inputs_for(program)], isa, threads=(2,))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_random_programs_stay_inside_of_their_buffers(name: str) -> None:
    @seed(zlib.crc32(name.encode()))
    @settings(max_examples=max(1, KERNEL_CASES // 3), suppress_health_check=list(HealthCheck))
    @given(number=SEEDS)
    def exact(number: int) -> None:
        program = controlled_program(number)
        assert_native_is_exact(program, [inputs_for(program, number)], EVERYWHERE[name], guarded=True)

    exact()


@pytest.mark.parametrize("number", range(4))
def test_grouped_and_laid_out_texts_are_verified_and_continued(number: int) -> None:
    program, isa = controlled_program(number), HERE[0]
    sample = inputs_for(program)
    expected = Interpreter(program)(sample)
    grouped = group(program, isa=isa.name)
    for made in (grouped, layout(grouped)):
        verify(made.module)
        text = print_program(made, inline_weights=True)
        read = parse_program(text)
        assert print_program(read, inline_weights=True) == text
        with unoptimized():
            found = NativeProgram(read, isa=isa)(sample)
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name])


COUNTING = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%h = %x, %i = %zero) : tensor<4xf32>, tensor<i32> cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %next = stablehlo.multiply %h, %half : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %j : tensor<4xf32>, tensor<i32>
  } loc("halving")
  func.return %r#0 : tensor<4xf32>
}
"""


def counting() -> Program:
    return parse_program(COUNTING)


def test_a_loop_makes_as_many_trips_as_the_limit_and_no_more() -> None:
    with limited(trips=10):
        native = NativeProgram(counting())
    x = np.full(4, 1024, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(native({"arg0": x, "arg1": np.array(10, np.int32)})["result0"], x / 1024)
        with pytest.raises(LimitExceeded, match=r"'halving': found a loop that goes on after 10 trips .*--max-trips"):
            native({"arg0": x, "arg1": np.array(11, np.int32)})


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_objects_for_c_have_loops_and_report_too_many_trips(tmp_path: Path) -> None:
    with limited(trips=10):
        made = library(counting(), "net", host())
    assert "Returns 2, at least in one thread, if a loop goes on after 10 trips" in made.header
    write(made, tmp_path / "libnet.so", host())
    code = ctypes.CDLL(str(tmp_path / "libnet.so"))
    x, y = np.full(4, 1024, np.float32), np.zeros(4, np.float32)
    arena = np.zeros(1 << 16, np.uint8)
    place = arena.ctypes.data + -arena.ctypes.data % 64
    for trips, status in ((3, 0), (11, 2), (10, 0)):
        n = np.array(trips, np.int32)
        assert code.net_run(*map(ctypes.c_void_p, (place, x.ctypes.data, n.ctypes.data, y.ctypes.data))) == status
        if not status:
            np.testing.assert_array_equal(y, x / 2**trips)


def test_a_row_is_written_into_what_a_loop_carries_without_a_copy_of_the_rest() -> None:
    """As the outputs of a scan are collected: each trip touches one row."""
    program = parse_program("""
    func.func @main(%x: tensor<1x8xf32>) -> tensor<100x8xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %all = stablehlo.constant dense<0.0> : tensor<100x8xf32>
      %r:2 = stablehlo.while(%a = %all, %i = %zero) : tensor<100x8xf32>, tensor<i32> cond {
        %n = stablehlo.constant dense<100> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
        %s = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x8xf32>
        %row = stablehlo.add %x, %s : tensor<1x8xf32>
        %z = stablehlo.constant dense<0> : tensor<i32>
        %b = stablehlo.dynamic_update_slice %a, %row, %i, %z :
          (tensor<100x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<100x8xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %b, %j : tensor<100x8xf32>, tensor<i32>
      }
      func.return %r#0 : tensor<100x8xf32>
    }""")
    assert_native_is_exact(program, [inputs_for(program)], HERE[0])
    (loop,) = (step for step in steps_of(program, HERE[0]).steps if isinstance(step.kernel, Loop))
    assert [step.name for step in loop.inner if max(b.size for b in step.writes) >= 3200] == [
        "stablehlo.dynamic_update_slice"
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("array<i64: -1, -1>", "array<i64: -1, 2>", "expected -1, 1 or 3"),
        ('"native.yield"(%', '"native.yeld"(%', "yeld"),
        ('"carried"', '"arena"', 'expected "carried" or "output"'),
    ],
)
def test_edited_texts_are_refused(old: str, new: str, message: str) -> None:
    text = print_program(layout(group(counting(), isa="avx2")), inline_weights=True)
    assert old in text
    with pytest.raises((ParseError, InvalidProgram), match=message):
        verify(parse_program(text.replace(old, new)).module)


def test_a_carried_value_of_a_dynamic_shape_is_refused_with_its_name() -> None:
    program = parse_program("""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %p = stablehlo.constant dense<true> : tensor<i1>
      %d = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>
      %r = "stablehlo.if"(%p) ({
        stablehlo.return %d : tensor<?xf32>
      }, {
        stablehlo.return %d : tensor<?xf32>
      }) : (tensor<i1>) -> tensor<?xf32> loc("which")
      %y = stablehlo.convert %r : (tensor<?xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }""")
    with pytest.raises(CodegenError, match=r"'which': found tensor<.xf32>, expected tensors of static shapes"):
        steps_of(program, HERE[0])


def test_a_program_with_a_loop_is_compiled_from_the_start() -> None:
    """Its trips are not known, and the interpreter is slow in each."""
    prepared = QuickestEngine().prepare(counting())
    assert isinstance(prepared, Warming)
    assert isinstance(prepared.runnable, ObservedProgram)
