"""Loops of integer programs are `scf.while`, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.standard import lower_to_loops, lower_to_standard

LOOP = """func.func @main(%x: tensor<4xi32>, %trips: tensor<i32>) -> (tensor<4xi32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %step = stablehlo.add %x, %x : tensor<4xi32>
  %out:2 = stablehlo.while(%a = %x, %n = %zero) : tensor<4xi32>, tensor<i32>
  cond {
    %again = stablehlo.compare LT, %n, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %product = stablehlo.multiply %a, %x : tensor<4xi32>
    %next = stablehlo.add %product, %step : tensor<4xi32>
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %next, %m : tensor<4xi32>, tensor<i32>
  }
  %last = stablehlo.subtract %out#0, %step : tensor<4xi32>
  return %last, %out#1 : tensor<4xi32>, tensor<i32>
}"""

NESTED = """func.func @main(%x: tensor<6xi32>, %i: tensor<6xi32>) -> (tensor<6xi32>, tensor<6xi32>, tensor<6xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %o:4 = stablehlo.while(%a = %x, %b = %x, %c = %i, %k = %zero)
    : tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<i32>
  cond { %q = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1> }
  do {
    %s = "stablehlo.scatter"(%a, %i, %b) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%u: tensor<i32>, %v: tensor<i32>):
        %w = stablehlo.subtract %u, %v : tensor<i32>
        stablehlo.return %w : tensor<i32>
    }) : (tensor<6xi32>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %r = stablehlo.remainder %k, %two : tensor<i32>
    %p = stablehlo.compare EQ, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t = "stablehlo.if"(%p) ({
      %y = "stablehlo.sort"(%s) ({ ^bb0(%u: tensor<i32>, %v: tensor<i32>):
        %w = stablehlo.compare LT, %u, %v : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %w : tensor<i1> }) : (tensor<6xi32>) -> tensor<6xi32>
      stablehlo.return %y : tensor<6xi32>
    }, { stablehlo.return %b : tensor<6xi32> }) : (tensor<i1>) -> tensor<6xi32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %t, %s, %a, %m : tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<i32>
  }
  return %o#0, %o#1, %o#2 : tensor<6xi32>, tensor<6xi32>, tensor<6xi32>
}"""
"""A scatter into memory that the next trip reads under another name, beside a sort in a branch."""


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop_has_the_same_results(trips: int) -> None:
    program = parse_program(LOOP)
    arrays = [np.array([3, -2, 0, 7], np.int32), np.array(trips, np.int32)]
    expected = Interpreter(program).run_values(arrays)
    lowered = lower_to_standard(program)
    assert "stablehlo" not in print_program(lowered)
    for found in (Interpreter(lowered), Interpreter(parse_program(print_program(lowered)))):
        for ours, theirs in zip(found.run_values(arrays), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_upstream_runs_the_loop() -> None:
    program = parse_program(LOOP)
    arrays = [np.array([3, -2, 0, 7], np.int32), np.array(3, np.int32)]
    found = mlir.ORACLE.call(lower_to_standard(program), [arrays])[0]
    for ours, theirs in zip(Interpreter(program).run_values(arrays), found, strict=True):
        np.testing.assert_array_equal(theirs.reshape(ours.shape), ours)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("upstream", [False, True])
def test_scatters_and_sorts_in_a_loop_keep_what_its_other_values_hold(loops: bool, upstream: bool) -> None:
    program = parse_program(NESTED)
    arrays = [np.array([5, -3, 9, 2, -7, 1], np.int32), np.array([3, 0, 5, 3, -1, 7], np.int32)]
    lowered = (lower_to_loops if loops else lower_to_standard)(program)
    if upstream:
        mlir.require()
        found = mlir.ORACLE.call(lowered, [arrays], "func.func(lower-affine)," if loops else "")[0]
    else:
        found = Interpreter(parse_program(print_program(lowered))).run_values(arrays)
    for ours, theirs in zip(Interpreter(program).run_values(arrays), found, strict=True):
        np.testing.assert_array_equal(theirs, ours)
