"""Programs in loops compute what the integer programs compute, in our interpreter and compiled by C++ MLIR."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import mlir
from standard.programs import PROGRAMS, arguments, signless
from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.interp.execute import execute
from zeropoint.ir.text import parse_program, print_program
from zeropoint.standard import lower_to_loops

DIALECTS = {"affine", "arith", "bufferization", "builtin", "func", "math", "memref", "scf"}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_the_loops_have_the_same_results(text: str) -> None:
    program = parse_program(text)
    lowered = lower_to_loops(program)
    assert {op.name.partition(".")[0] for op in lowered.module.walk()} <= DIALECTS
    read = parse_program(print_program(lowered), weights=lowered.weights)
    values = arguments(program, np.random.default_rng(0))
    expected, found = signless(Interpreter(program).run_values(values)), Interpreter(read).run_values(signless(values))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(other, one)
        assert other.dtype == one.dtype


COMPILED = (
    *("matrices", "convolution", "maximum", "rows", "pad", "concatenate", "reshape", "branches", "scatter of rows"),
    *("scatter of batches", "sort", "float remainders", "total order"),
    *("greatest of windows", "powers", "padding with a computed number", "products of booleans"),
)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_loops_have_our_bits(name: str) -> None:
    mlir.require()
    program = parse_program(PROGRAMS[name])
    values = arguments(program, np.random.default_rng(1))
    (found,) = mlir.ORACLE.call(lower_to_loops(program), [signless(values)], "func.func(lower-affine),")
    np.testing.assert_array_equal(found[0], signless(Interpreter(program).run_values(values))[0])


def test_requantization_is_in_the_loop_nest_that_reads_the_sums() -> None:
    text = """func.func @main(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>) -> tensor<2x4xi8> {
      %m = stablehlo.constant dense<[1073741824, 1073741825, 1073741826, 1073741827]> : tensor<4xi32>
      %n = stablehlo.constant dense<[32, 33, 34, 35]> : tensor<4xi32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
      %1 = "fxpmath.requantize"(%0, %m, %n) <{axis = 1 : i64, behaviour = "fixed32", zero_point = 3 : i64,
        storage_min = -128 : i64, storage_max = 127 : i64}>
        : (tensor<2x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x4xi8>
      return %1 : tensor<2x4xi8>
    }"""
    program = parse_program(text)
    values = arguments(program, np.random.default_rng(2))
    lowered = lower_to_loops(program)
    (expected,), (found,) = (Interpreter(each).run_values(values) for each in (program, lowered))
    np.testing.assert_array_equal(found, expected)
    assert sum(op.name == "affine.for" for op in lowered.module.walk()) == 5


CALL = """module {
  func.func private @same(%a: tensor<4xi32>) -> tensor<4xi32> {
    return %a : tensor<4xi32>
  }
  func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
    %y = func.call @same(%x) : (tensor<4xi32>) -> tensor<4xi32>
    return %y : tensor<4xi32>
  }
}"""
LOOP = """func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %y:2 = stablehlo.while(%a = %x, %n = %zero) : tensor<4xi32>, tensor<i32>
  cond {
    %again = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %b = stablehlo.multiply %a, %x : tensor<4xi32>
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %b, %m : tensor<4xi32>, tensor<i32>
  }
  return %y#0 : tensor<4xi32>
}"""
DYNAMIC = """func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {
  %y = stablehlo.add %x, %x : tensor<?xi32>
  return %y : tensor<?xi32>
}"""
REFUSED = {
    "found loops that read the memory that they write": """
      %0 = bufferization.to_buffer %x : tensor<4xi8> to memref<4xi8>
      affine.for %i = 0 to 3 {
        %1 = affine.load %0[%i] : memref<4xi8>
        affine.store %1, %0[%i + 1] : memref<4xi8>
      }
      %2 = bufferization.to_tensor %0 restrict : memref<4xi8> to tensor<4xi8>
      return %2 : tensor<4xi8>""",
    r"found index 4 of a memref of shape \[4\]": """
      %0 = bufferization.to_buffer %x : tensor<4xi8> to memref<4xi8>
      %1 = memref.alloc() : memref<4xi8>
      affine.for %i = 0 to 4 {
        %2 = affine.load %0[%i + 1] : memref<4xi8>
        affine.store %2, %1[%i] : memref<4xi8>
      }
      %3 = bufferization.to_tensor %1 restrict : memref<4xi8> to tensor<4xi8>
      return %3 : tensor<4xi8>""",
    "found a loop beside other ops": """
      %0 = bufferization.to_buffer %x : tensor<4xi8> to memref<4xi8>
      %1 = memref.alloc() : memref<4xi8>
      affine.for %i = 0 to 4 {
        %2 = affine.load %0[%i] : memref<4xi8>
        affine.for %j = 0 to 4 {
          affine.store %2, %1[%j] : memref<4xi8>
        }
      }
      %3 = bufferization.to_tensor %1 restrict : memref<4xi8> to tensor<4xi8>
      return %3 : tensor<4xi8>""",
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_loops_that_cannot_run_at_once_are_refused(sentence: str) -> None:
    text = f"func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {{{REFUSED[sentence]}\n}}"
    with pytest.raises(Error, match=sentence):
        list(execute(parse_program(text), [np.zeros(4, np.int8)]))


SAME_MEMORY = """func.func @main(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %y:2 = scf.for %i = %zero to %three step %one iter_args(%a = %x, %b = %x) -> (tensor<4xi32>, tensor<4xi32>) {
    %0 = tensor.extract %b[%i] : tensor<4xi32>
    %1 = arith.addi %0, %0 : i32
    %2 = tensor.insert %1 into %a[%i] : tensor<4xi32>
    scf.yield %2, %2 : tensor<4xi32>, tensor<4xi32>
  }
  return %y#0, %y#1 : tensor<4xi32>, tensor<4xi32>
}"""


@pytest.mark.parametrize("text", [LOOP, CALL])
def test_loops_and_calls_carry_memory(text: str) -> None:
    program = parse_program(text)
    values = [np.array([3, -2, 0, 7], np.int32)]
    (expected,) = Interpreter(program).run_values(values)
    (found,) = Interpreter(lower_to_loops(program)).run_values(values)
    np.testing.assert_array_equal(found, expected)


def test_a_loop_that_carries_one_tensor_twice_keeps_both() -> None:
    program = parse_program(SAME_MEMORY)
    values = [np.array([3, -2, 0, 7], np.int32)]
    expected = Interpreter(program).run_values(values)
    for ours, theirs in zip(Interpreter(lower_to_loops(program)).run_values(values), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (DYNAMIC, "tensor.dim: found an op without a form over memrefs, expected static shapes"),
    ],
)
def test_what_has_no_form_over_memrefs_is_refused_with_its_op(text: str, sentence: str) -> None:
    with pytest.raises(Error, match=sentence):
        lower_to_loops(parse_program(text))
