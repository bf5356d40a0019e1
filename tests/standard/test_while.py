"""Loops of integer programs are `scf.while`, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.standard import lower_to_standard

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
