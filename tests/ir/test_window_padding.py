"""The padding of convolutions and windows as that of a `pad`, also with an attribute without entries."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Operation

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionOp, ReduceWindowOp
from zeropoint.ir.text import parse_program
from zeropoint.ir.window_padding import padding_of, pads


def convolution(padding: str, size: int) -> Program:
    """A convolution in generic form, with a result of `size` rows and columns."""
    types = "(tensor<1x2x4x4xf32>, tensor<3x2x2x2xf32>)"
    result = f"tensor<1x3x{size}x{size}xf32>"
    return parse_program(f"""
func.func @main(%x: tensor<1x2x4x4xf32>) -> {result} {{
  %w = stablehlo.constant dense<0.5> : tensor<3x2x2x2xf32>
  %y = "stablehlo.convolution"(%x, %w) <{{batch_group_count = 1 : i64, feature_group_count = 1 : i64, {padding}
    dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>}}> : {types} -> {result}
  return %y : {result}
}}
""")


def windows(padding: str) -> Program:
    """Sums over windows of two rows, in generic form."""
    return parse_program(f"""
func.func @main(%x: tensor<4x3xf32>) -> tensor<3x3xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x, %zero) <{{{padding} window_dimensions = array<i64: 2, 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}}
""")


def _op(program: Program) -> Operation:
    return next(op for op in program.entry.ops if isinstance(op, ConvolutionOp | ReduceWindowOp))


NONE = "padding = dense<> : tensor<0x2xi64>,"


def test_a_convolution_pads_and_dilates_its_spatial_dimensions():
    op = _op(convolution("padding = dense<[[1, 0], [1, 0]]> : tensor<2x2xi64>,", 4))
    assert isinstance(op, ConvolutionOp)
    assert pads(op)
    assert padding_of(op) == ([0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0])
    dilated = "padding = dense<2> : tensor<2x2xi64>, lhs_dilation = array<i64: 2, 2>,"
    op = _op(convolution(dilated, 10))
    assert isinstance(op, ConvolutionOp)
    assert padding_of(op) == ([0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 1, 1])


@pytest.mark.parametrize("program", [convolution(NONE, 3), convolution("", 3), windows(NONE), windows("")])
def test_padding_without_entries_is_none_in_native_code_too(program: Program):
    op = _op(program)
    assert isinstance(op, ConvolutionOp | ReduceWindowOp)
    assert not pads(op)
    assert not any(map(any, padding_of(op)))
    shape = (4, 3) if isinstance(op, ReduceWindowOp) else (1, 2, 4, 4)
    inputs = {program.inputs[0].name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    expected = Interpreter(program)(inputs)
    found = NativeProgram(program)(inputs)
    np.testing.assert_array_equal(*(next(iter(results.values())) for results in (expected, found)))
