"""Kernels that only move the result of a float op to float ops stay float."""

from __future__ import annotations

import numpy as np

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.pipeline import Options, quantize

# No target has a kernel for `power` of two tensors.
TEXT = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<3x2xf32> {{
  %p = stablehlo.power %x, %y : tensor<2x3xf32>
  %t = stablehlo.transpose %p, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %q = stablehlo.power %t, %t : tensor<3x2xf32>
  return {result} : tensor<3x2xf32>
}}"""
SAMPLE = {
    "arg0": np.float32([[2, 3, 2], [1, 1.5, 2]]),
    "arg1": np.float32([[3, 1, -2], [5, 0.5, 1]]),
}


def test_a_transpose_between_float_ops_is_not_quantized() -> None:
    program = parse_program(TEXT.format(result="%q"))
    result = quantize(program, [SAMPLE], Options(target="onnxruntime"))
    text = print_program(result.quantized)
    assert "uniform_quantize" not in text
    assert 'zeropoint.float_reason = "only float ops produce and read it"' in text
    (expected,), (found,) = Interpreter(program)(SAMPLE).values(), Interpreter(result.integer)(SAMPLE).values()
    np.testing.assert_array_equal(found, expected)


def test_a_transpose_that_the_caller_reads_is_quantized() -> None:
    result = quantize(parse_program(TEXT.format(result="%t")), [SAMPLE], Options(target="onnxruntime"))
    assert "uniform_quantize" in print_program(result.quantized)
