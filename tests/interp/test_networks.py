"""Whole small networks against StableHLO's interpreter: float, and quantized under StableHLO's own semantics."""

from __future__ import annotations

import numpy as np

from interp.programs import upstream
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program

FLOAT = """
func.func @main(%x: tensor<1x3x10x10xf32>) -> tensor<1x4xf32> {{
  %w0 = stablehlo.constant dense<{w0}> : tensor<8x3x3x3xf32>
  %b0 = stablehlo.constant dense<{b0}> : tensor<8xf32>
  %w1 = stablehlo.constant dense<{w1}> : tensor<8x1x3x3xf32>
  %w2 = stablehlo.constant dense<{w2}> : tensor<8x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %six = stablehlo.constant dense<6.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %count = stablehlo.constant dense<9.0> : tensor<1x8xf32>
  %0 = stablehlo.convolution(%x, %w0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{stride = [1, 1], pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x3x10x10xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x10x10xf32>
  %1 = stablehlo.broadcast_in_dim %b0, dims = [1] : (tensor<8xf32>) -> tensor<1x8x10x10xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x8x10x10xf32>
  %3 = stablehlo.clamp %zero, %2, %six : (tensor<f32>, tensor<1x8x10x10xf32>, tensor<f32>) -> tensor<1x8x10x10xf32>
  %4 = stablehlo.convolution(%3, %w1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{stride = [2, 2], pad = [[0, 1], [0, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 8 : i64}}
    : (tensor<1x8x10x10xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x5x5xf32>
  %5 = stablehlo.logistic %4 : tensor<1x8x5x5xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<1x8x5x5xf32>
  %7 = "stablehlo.reduce_window"(%6, %low) <{{window_dimensions = array<i64: 1, 1, 3, 3>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) : (tensor<1x8x5x5xf32>, tensor<f32>) -> tensor<1x8x3x3xf32>
  %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [2, 3]
    : (tensor<1x8x3x3xf32>, tensor<f32>) -> tensor<1x8xf32>
  %9 = stablehlo.divide %8, %count : tensor<1x8xf32>
  %10 = stablehlo.dot_general %9, %w2, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
  return %10 : tensor<1x4xf32>
}}"""


def test_a_float_network_is_close_to_upstream():
    rng = np.random.default_rng(1)
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 1, 3, 3), "w2": (8, 4)}
    text = FLOAT.format(**{name: rng.standard_normal(shape).round(3).tolist() for name, shape in shapes.items()})
    x = rng.standard_normal((1, 3, 10, 10)).astype(np.float32)
    ours = Interpreter(parse_program(text)).run_values([x])[0]
    np.testing.assert_allclose(ours, upstream(text, x)[0], rtol=2e-6, atol=2e-6)


X, Y = "!quant.uniform<i8:f32, 0.03:5>", "!quant.uniform<i8:f32, 0.11:-128>"
W = "!quant.uniform<i8<-127:127>:f32, 0.01>"  # upstream's interpreter fails on weights per channel
ACC = BIAS = f"!quant.uniform<i32:f32, {0.03 * 0.01!r}>"
QUANTIZED = f"""
func.func @main(%x: tensor<1x2x6x6xf32>) -> tensor<1x4x6x6xf32> {{
  %q = stablehlo.uniform_quantize %x : (tensor<1x2x6x6xf32>) -> tensor<1x2x6x6x{X}>
  %w = stablehlo.constant() <{{value = dense<WEIGHTS> : tensor<4x2x3x3xi8>}}> : () -> tensor<4x2x3x3x{W}>
  %b = stablehlo.constant() <{{value = dense<BIASES> : tensor<4xi32>}}> : () -> tensor<4x{BIAS}>
  %low = stablehlo.constant() <{{value = dense<-128> : tensor<i8>}}> : () -> tensor<{Y}>
  %high = stablehlo.constant() <{{value = dense<-74> : tensor<i8>}}> : () -> tensor<{Y}>
  %0 = stablehlo.convolution(%q, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x2x6x6x{X}>, tensor<4x2x3x3x{W}>) -> tensor<1x4x6x6x{ACC}>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4x{BIAS}>) -> tensor<1x4x6x6x{ACC}>
  %2 = stablehlo.add %0, %1 : tensor<1x4x6x6x{ACC}>
  %3 = stablehlo.uniform_quantize %2 : (tensor<1x4x6x6x{ACC}>) -> tensor<1x4x6x6x{Y}>
  %4 = stablehlo.clamp %low, %3, %high : (tensor<{Y}>, tensor<1x4x6x6x{Y}>, tensor<{Y}>) -> tensor<1x4x6x6x{Y}>
  %5 = stablehlo.uniform_dequantize %4 : (tensor<1x4x6x6x{Y}>) -> tensor<1x4x6x6xf32>
  return %5 : tensor<1x4x6x6xf32>
}}"""


def test_a_quantized_network_equals_upstream_but_for_the_rounding_of_f32():
    rng = np.random.default_rng(2)
    w, b = rng.integers(-127, 128, (4, 2, 3, 3)), rng.integers(-3000, 3000, 4)
    text = QUANTIZED.replace("WEIGHTS", str(w.tolist())).replace("BIASES", str(b.tolist()))
    x = rng.standard_normal((1, 2, 6, 6)).astype(np.float32)
    ours = Interpreter(parse_program(text)).run_values([x])[0]
    theirs = upstream(text, x, passes="stablehlo-legalize-quantized-op-to-qdq")[0]
    steps = np.abs(ours - theirs) / 0.11
    assert steps.max() < 1.01
    assert (steps > 0.01).mean() < 0.02
    assert len(np.unique(ours)) > 20
