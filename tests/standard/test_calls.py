"""Functions that an integer program calls are in standard form, too."""

from __future__ import annotations

import numpy as np

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.standard import lower_to_standard

CALLS = """module {
  func.func private @twice(%a: tensor<4xi32>, %b: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
    %s = stablehlo.add %a, %b : tensor<4xi32>
    %d = stablehlo.subtract %a, %b : tensor<4xi32>
    return %s, %d : tensor<4xi32>, tensor<4xi32>
  }
  func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
    %c = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    %y = stablehlo.multiply %x, %c : tensor<4xi32>
    %z:2 = func.call @twice(%y, %c) : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
    %w:2 = func.call @twice(%z#1, %z#0) : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
    %r = stablehlo.add %w#0, %z#1 : tensor<4xi32>
    return %r : tensor<4xi32>
  }
}"""
X = [np.array([3, -2, 0, 7], np.int32)]


def test_calls_have_the_same_results() -> None:
    program = parse_program(CALLS)
    lowered = lower_to_standard(program)
    text = print_program(lowered)
    assert "stablehlo" not in text
    assert text.count("call @twice") == 2
    (expected,) = Interpreter(program).run_values(X)
    for form in (lowered, parse_program(text)):
        np.testing.assert_array_equal(Interpreter(form).run_values(X)[0], expected)


def test_upstream_runs_the_calls() -> None:
    program = parse_program(CALLS)
    (expected,) = Interpreter(program).run_values(X)
    (found,) = mlir.ORACLE.call(lower_to_standard(program), [X])[0]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
