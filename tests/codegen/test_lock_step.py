"""A native program contraction by contraction: what each reads, and another bias."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import HERE, unoptimized
from zeropoint.codegen.runtime.lock_step import LockStep
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.engines import ObservedProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

LINES = """
func.func @main(%x: tensor<3x8xi8> {{zeropoint.name = "x"}}) -> (tensor<3x4xi8> {{zeropoint.name = "y"}}) {{
  %v = stablehlo.constant dense<{first}> : tensor<8x4xi8>
  %w = stablehlo.constant dense<{second}> : tensor<4x4xi8>
  %m = stablehlo.constant dense<[16384, 20000, 30000, 32000]> : tensor<4xi32>
  %s = stablehlo.constant dense<{shifts}> : tensor<4xi32>
  %t = stablehlo.constant dense<[9, 8, 7, 9]> : tensor<4xi32>
  %b = stablehlo.constant dense<{bias}> : tensor<4xi32>
  %c = stablehlo.constant dense<[7, -5, 300, 0]> : tensor<4xi32>
  %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<3x8xi8>, tensor<8x4xi8>) -> tensor<3x4xi32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32>
  %2 = stablehlo.add %0, %1 : tensor<3x4xi32>
  %3 = "fxpmath.requantize"(%2, %m, %s) <{{axis = 1 : i64, behaviour = "fixed16", zero_point = -3 : i64,
    storage_min = -128 : i64, storage_max = 127 : i64}}>
    : (tensor<3x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<3x4xi8>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<3x4xi8>, tensor<4x4xi8>) -> tensor<3x4xi32>
  %5 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32>
  %6 = stablehlo.add %4, %5 : tensor<3x4xi32>
  %7 = "fxpmath.requantize"(%6, %m, %t) <{{axis = 1 : i64, behaviour = "fixed16", zero_point = 5 : i64,
    storage_min = -128 : i64, storage_max = 127 : i64}}>
    : (tensor<3x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<3x4xi8>
  {rest}
}}
"""
RANDOM = np.random.default_rng(2)
FIRST, SECOND = (RANDOM.integers(-127, 128, shape).tolist() for shape in ((8, 4), (4, 4)))
SAMPLES = [{"x": RANDOM.integers(-128, 128, (3, 8)).astype(np.int8)} for _ in range(3)]


RETURN = "return %7 : tensor<3x4xi8>"
BRANCH = """%z = stablehlo.constant dense<0> : tensor<i8>
  %first = stablehlo.reduce(%7 init: %z) applies stablehlo.maximum across dimensions = [0, 1]
    : (tensor<3x4xi8>, tensor<i8>) -> tensor<i8>
  %p = stablehlo.compare GT, %first, %z : (tensor<i8>, tensor<i8>) -> tensor<i1>
  %8 = "stablehlo.if"(%p) ({
    %9 = stablehlo.dot_general %7, %w, contracting_dims = [1] x [0]
      : (tensor<3x4xi8>, tensor<4x4xi8>) -> tensor<3x4xi32>
    %10 = "fxpmath.requantize"(%9, %m, %t) <{axis = 1 : i64, behaviour = "fixed16", zero_point = 0 : i64,
      storage_min = -128 : i64, storage_max = 127 : i64}>
      : (tensor<3x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<3x4xi8>
    stablehlo.return %10 : tensor<3x4xi8>
  }, {
    stablehlo.return %7 : tensor<3x4xi8>
  }) : (tensor<i1>) -> tensor<3x4xi8>
  return %8 : tensor<3x4xi8>"""
LOOP = """%z = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %o = stablehlo.constant dense<1> : tensor<i32>
  %8:2 = stablehlo.while(%i = %z, %h = %7) : tensor<i32>, tensor<3x4xi8>
    cond {
      %9 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %10 = stablehlo.add %i, %o : tensor<i32>
      %11 = stablehlo.minimum %h, %3 : tensor<3x4xi8>
      stablehlo.return %10, %11 : tensor<i32>, tensor<3x4xi8>
    }
  return %8#1 : tensor<3x4xi8>"""


def network(bias: Array, shifts: str = "[8, 9, 9, 8]", rest: str = RETURN) -> Program:
    return parse_program(LINES.format(first=FIRST, second=SECOND, bias=bias.tolist(), shifts=shifts, rest=rest))


def signed(array: Array) -> Array:
    """Integers as they are in memory, without the offset of u8."""
    return array.astype(np.int64) - (128 if array.dtype == np.uint8 else 0)


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
# The sums exceed what a left shift of three bits holds with the second change only: another kernel is compiled.
@pytest.mark.parametrize("change", [[40, -900, 3, 0], [1 << 29, -(1 << 29), 0, 1 << 28]], ids=str)
@pytest.mark.parametrize("shifts", ["[8, 9, 9, 8]", "[8, -3, 9, -3]"])
def test_another_bias_gives_the_bits_of_the_program_with_that_bias(isa, change: list[int], shifts: str) -> None:
    bias, more = np.array([100, -20, 5, 0]), np.array(change)
    with unoptimized():
        steps = LockStep(NativeProgram(network(bias, shifts), isa=isa, adjustable=True), SAMPLES)
        assert [added.tolist() for added in steps.biases] == [bias.tolist(), [7, -5, 300, 0]]
        for found, sample in zip(steps.sources(0), SAMPLES, strict=True):
            np.testing.assert_array_equal(signed(found), sample["x"])
        steps.add(0, more)
    changed = Interpreter(network(bias + more, shifts))
    # The second contraction reads what the first one with the other bias makes.
    between = Interpreter(network(bias + more, shifts, "return %3 : tensor<3x4xi8>"))
    for found, sample in zip(steps.sources(1), SAMPLES, strict=True):
        np.testing.assert_array_equal(signed(found), between(sample)["y"])
    for sample in [*SAMPLES, {"x": np.full((3, 8), 17, np.int8)}]:
        np.testing.assert_array_equal(steps(sample)["y"], changed(sample)["y"])
    with pytest.raises(ValueError, match="found contraction 1 to be read after the last step, expected it before"):
        steps.sources(1)  # its arena is gone


def test_what_a_branch_computes_is_no_contraction_of_the_program() -> None:
    bias, more = np.array([100, -20, 5, 0]), np.array([40, -900, 3, 0])
    with unoptimized():
        steps = LockStep(NativeProgram(network(bias, rest=BRANCH), adjustable=True), SAMPLES)
    assert len(steps.biases) == 2
    steps.add(0, more)
    changed = Interpreter(network(bias + more, rest=BRANCH))
    for sample in SAMPLES:
        np.testing.assert_array_equal(steps(sample)["y"], changed(sample)["y"])


def test_a_program_has_no_lock_step_with_loops_or_without_contractions_or_memory() -> None:
    none = parse_program("""func.func @main(%x: tensor<3x8xi8> {zeropoint.name = "x"}) -> tensor<3x8xi8> {
      %0 = stablehlo.minimum %x, %x : tensor<3x8xi8>
      return %0 : tensor<3x8xi8>
    }""")
    zeros = np.zeros(4, np.int64)
    memory = 1 << 20
    found = [
        ObservedProgram(program, optimized=False).lock_step(SAMPLES, room) is not None
        for program, room in (
            (network(zeros), memory),
            (network(zeros), 1),
            (network(zeros, rest=LOOP), memory),
            (none, memory),
        )
    ]
    assert found == [True, False, False, False]


def test_a_contraction_that_has_run_keeps_its_bias() -> None:
    with unoptimized():
        program = NativeProgram(network(np.zeros(4, np.int64)), adjustable=True)
    steps = LockStep(program, SAMPLES)
    steps.sources(1)
    with pytest.raises(ValueError, match="expected one that has not run"):
        steps.add(0, np.ones(4, np.int64))


def test_programs_that_are_not_to_be_changed_keep_nothing_for_it() -> None:
    with unoptimized():
        assert NativeProgram(network(np.zeros(4, np.int64))).graph.contractions == []
