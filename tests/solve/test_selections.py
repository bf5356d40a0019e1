"""Selections on our own targets: integers, also those that insert what a function gives for -inf."""

from __future__ import annotations

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.ir.stablehlo import SelectOp
from zeropoint.ir.tensors import element_of

PROGRAM = """func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<8x8xf32>
  %m = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %number = stablehlo.constant dense<NUMBER> : tensor<f32>
  %numbers = stablehlo.broadcast_in_dim %number, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
  %row = stablehlo.constant dense<[true, true, false, true, true, false, true, false]> : tensor<8xi1>
  %shown = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<8xi1>) -> tensor<2x8xi1>
  %a = stablehlo.select %shown, %m, %numbers : tensor<2x8xi1>, tensor<2x8xf32>
  %b = stablehlo.FUNCTION %a : tensor<2x8xf32>
  %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
"""
CASES = [(number, name) for number in ("0xFF800000", "0.25", "-1.5") for name in ("exponential", "logistic", "tanh")]
CASES += [("0.25", "abs"), ("-1.5", "abs")]


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "cpu-wide"])
@pytest.mark.parametrize(("number", "function"), CASES)
def test_a_selection_between_kernels_is_integer(number: str, function: str, target: str) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.3, (8, 8)).round(4).tolist()
    text = PROGRAM.replace("NUMBER", number).replace("FUNCTION", function).replace("WEIGHTS", str(weights))
    data = random.normal(size=(32, 2, 8)).astype(np.float32)
    quantized = zp.quantize(text, data, target=target, effort="none")
    selections = [op for op in quantized.program.module.walk() if isinstance(op, SelectOp)]
    assert selections
    assert all("f32" not in str(element_of(op.result)) for op in selections)
    (output,) = zp.compare(zp.load(text), quantized, data).outputs
    assert output.sqnr > 30
    native = quantized.native()
    for sample in data[:4]:
        np.testing.assert_array_equal(native(x=sample)["result0"], quantized(x=sample)["result0"])
