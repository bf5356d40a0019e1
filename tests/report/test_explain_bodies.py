"""Explanations of programs whose loops and branches read values from outside of their bodies."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.explain import explain

TEXT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}, %n: tensor<i64> {zeropoint.name = "n"})
    -> tensor<1x4xf32> {
  %0 = stablehlo.logistic %x : tensor<1x4xf32> loc("gate")
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %1:2 = stablehlo.while(%i = %zero, %s = %0) : tensor<i64>, tensor<1x4xf32> cond {
    %2 = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %3 = stablehlo.add %i, %one : tensor<i64>
    %4 = stablehlo.subtract %s, %x : tensor<1x4xf32>
    %5 = stablehlo.multiply %4, %0 : tensor<1x4xf32>
    stablehlo.return %3, %5 : tensor<i64>, tensor<1x4xf32>
  } loc("loop")
  %6 = stablehlo.tanh %1#1 : tensor<1x4xf32> loc("end")
  return %6 : tensor<1x4xf32>
}
"""
SAMPLES = [
    {"x": np.linspace(-2, 2, 4, dtype=np.float32).reshape(1, 4), "n": np.array(number, np.int64)} for number in (2, 3)
]


@pytest.fixture(scope="module")
def result() -> Quantization:
    return quantize(parse_program(TEXT), SAMPLES, Options(effort="none"))


@pytest.mark.parametrize("stage", ["propagated", "quantized", "integer"])
def test_a_loop_reads_the_values_that_its_body_reads(result: Quantization, stage: str) -> None:
    found = explain(getattr(result, stage))
    readers = {value.name: value.read_by for value in found.values}
    assert "loop#1" in readers["x"]
    assert "gate" in readers["x"]
    assert readers["gate"] == ("loop#0", "loop#1")
    assert readers["n"] == ("loop#0", "loop#1")
