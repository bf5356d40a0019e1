"""Elementwise ops on dynamic shapes have a standard form."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.standard import lower_to_standard

PROGRAM = """func.func @main(%x: tensor<?x3xi32>, %y: tensor<?x3xi32>) -> (tensor<?x3xi8>, tensor<?x3xi32>) {
  %s = stablehlo.add %x, %y : tensor<?x3xi32>
  %m = stablehlo.constant dense<[1073741824, 1173741824, 1273741824]> : tensor<3xi32>
  %n = stablehlo.constant dense<[33, 34, 35]> : tensor<3xi32>
  %q = "fxpmath.requantize"(%s, %m, %n) <{axis = 1 : i64, behaviour = "fixed32", storage_max = 127 : i64,
       storage_min = -128 : i64, zero_point = 3 : i64}> : (tensor<?x3xi32>, tensor<3xi32>, tensor<3xi32>)
       -> tensor<?x3xi8>
  %w = stablehlo.convert %q : (tensor<?x3xi8>) -> tensor<?x3xi32>
  %d = stablehlo.subtract %w, %y : tensor<?x3xi32>
  return %q, %d : tensor<?x3xi8>, tensor<?x3xi32>
}"""


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_elementwise_ops_have_the_sizes_of_their_operands(rows: int) -> None:
    program = parse_program(PROGRAM)
    arrays = [np.arange(3 * rows, dtype=np.int32).reshape(rows, 3) * factor for factor in (40, -7)]
    expected = Interpreter(program).run_values(arrays)
    lowered = lower_to_standard(program)
    text = print_program(lowered)
    assert "stablehlo" not in text
    assert "tensor.dim" in text
    for form in (lowered, parse_program(text)):
        for ours, theirs in zip(Interpreter(form).run_values(arrays), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_upstream_reads_the_text() -> None:
    outcome = mlir.ORACLE.module(print_program(lower_to_standard(parse_program(PROGRAM))))
    assert outcome.error is None
    assert "tensor.dim" in (outcome.text or "")
