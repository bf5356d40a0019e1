"""Quantized selections of constants, such as attention masks from truth values, select stored integers instead."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops

TEXT = """
func.func @main(%p: tensor<{pred}i1>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {{
  %lone = stablehlo.constant dense<{seen}> : tensor<f32>
  %seen = stablehlo.broadcast_in_dim %lone, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %hidden = stablehlo.constant dense<{hidden}> : tensor<2x4xf32>
  %0 = stablehlo.select %p, %seen, %hidden : tensor<{pred}i1>, tensor<2x4xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<{kind}>>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<2x4x!quant.uniform<{kind}>>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}}
"""
TRUTH = np.array([[True, False, True, True], [False, False, True, False]])


@pytest.mark.parametrize("kind", ["i8:f32, 78.7:127", "u8:f32, 1.3e36:255", "i8:f32, 0.3:5", "i16:f32, 0.5:-7"])
@pytest.mark.parametrize("hidden", ["-10000.0", "-3.4e38", "[[-1.0, 2.5, -30.0, 0.1], [0.2, 0.3, -0.45, 1.0e9]]"])
@pytest.mark.parametrize("pred", ["2x4x", ""])
def test_the_results_are_those_of_floats(kind: str, hidden: str, pred: str) -> None:
    text = TEXT.format(kind=kind, hidden=hidden, pred=pred, seen="0.0")
    program = lower(parse_program(text), "fixed16")
    assert float_ops(program) == []
    for truth in (TRUTH, ~TRUTH) if pred else (np.array(True), np.array(False)):
        sample = {"arg0": truth, "arg1": np.zeros((2, 4), np.float32)}
        (expected,) = Interpreter(parse_program(text))(sample).values()
        (found,) = Interpreter(program)(sample).values()
        np.testing.assert_array_equal(found, expected)


def test_a_selection_of_floats_stays_in_float() -> None:
    text = TEXT.format(kind="i8:f32, 0.3:5", hidden="-1.0", pred="2x4x", seen="0.0")
    program = lower(parse_program(text.replace("%p, %seen,", "%p, %x,")), "fixed16")
    assert float_ops(program)


def test_a_scale_for_each_channel_stays_in_float() -> None:
    kind = "i8:f32:0, {0.3:5, 0.4:6}"
    program = lower(parse_program(TEXT.format(kind=kind, hidden="-1.0", pred="2x4x", seen="0.0")), "fixed16")
    assert float_ops(program)
