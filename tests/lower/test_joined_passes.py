"""The outputs of the passes that write casts go through `lower` and native code, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program, lower
from zeropoint.opt import parse_passes, run_passes
from zeropoint.report.counts import count_ops

SHAPE, MOVED = "tensor<1x4x4x2xf32>", "tensor<1x2x4x4xf32>"
NETWORK = f"""func.func @main(%x: {SHAPE}) -> {MOVED} {{
  %0 = "quant.stats"(%x) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({SHAPE}) -> {SHAPE}
  %t = stablehlo.transpose %0, dims = [0, 3, 1, 2] : ({SHAPE}) -> {MOVED}
  %w = stablehlo.constant dense<[[[[0.5]], [[-0.25]]], [[[1.0]], [[2.0]]]]> : tensor<2x2x1x1xf32>
  %1 = stablehlo.convolution(%t, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({MOVED}, tensor<2x2x1x1xf32>) -> {MOVED}
  %2 = "quant.stats"(%1) {{layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>}} : ({MOVED}) -> {MOVED}
  %3 = stablehlo.logistic %2 : {MOVED}
  %4 = "quant.stats"(%3) {{layerStats = dense<[0.0, 1.0]> : tensor<2xf32>}} : ({MOVED}) -> {MOVED}
  %5 = stablehlo.transpose %4, dims = [0, 1, 3, 2] : ({MOVED}) -> {MOVED}
  %6 = "quant.stats"(%5) {{layerStats = dense<[0.0, 1.0]> : tensor<2xf32>}} : ({MOVED}) -> {MOVED}
  %7 = stablehlo.multiply %2, %6 : {MOVED}
  %8 = "quant.stats"(%7) {{layerStats = dense<[-1.0, 3.0]> : tensor<2xf32>}} : ({MOVED}) -> {MOVED}
  return %8 : {MOVED}
}}"""
DECIDED = "fuse{{target={0}}},propagate{{target={0}}},move-rescales"
PIPELINES = {
    "litert": "litert",
    "litert, then transform": "litert,transform",
    "casts around kernels": f"{DECIDED.format('cpu')},insert-casts,materialize",
    "movement on storage": f"{DECIDED.format('cpu')},materialize,transform",
    "movement on unsigned storage": f"{DECIDED.format('onnxruntime')},materialize,transform",
    "casts of unsigned storage": f"{DECIDED.format('onnxruntime')},insert-casts,materialize",
}


def agrees(program: Program, *arrays: np.ndarray) -> Program:
    expected = Interpreter(program).run_values(arrays)[0]
    lowered = run_passes(program, parse_passes("integer-program"))
    np.testing.assert_array_equal(Interpreter(lowered).run_values(arrays)[0], expected)
    feed = {port.name: array for port, array in zip(lowered.inputs, arrays, strict=True)}
    np.testing.assert_array_equal(next(iter(NativeProgram(lowered)(feed).values())), expected)
    return lowered


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_what_a_pass_writes_is_lowered_and_compiled(pipeline: str) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)
    program = run_passes(parse_program(NETWORK), parse_passes(PIPELINES[pipeline]))
    assert any(op.name.startswith("quant.") for op in program.entry.ops)
    lowered = agrees(program, x)
    assert not [op for op in lowered.entry.ops if op.name in ("quant.qcast", "quant.dcast", "quant.region")]
    if "onnxruntime" not in PIPELINES[pipeline]:  # its profile multiplies in f32
        assert count_ops(lowered).floats == 0


CHANNELS, TURNED = "!quant.uniform<i8:f32:0, {0.5:1,0.25:-3}>", "!quant.uniform<i8:f32:1, {0.5:1,0.25:-3}>"
BY_CHANNEL = f"""func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {{
  %0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x{CHANNELS}>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3x{CHANNELS}>) -> tensor<3x2x{TURNED}>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<3x2x{TURNED}>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}}"""


def test_values_with_scales_per_channel_are_moved_on_storage() -> None:
    program = run_passes(parse_program(BY_CHANNEL), parse_passes("transform"))
    (moved,) = [op for op in program.entry.ops if op.name == "stablehlo.transpose"]
    assert str(moved.results[0].type) == "tensor<3x2xi8>"
    x = np.random.default_rng(0).uniform(-9, 9, (2, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        Interpreter(program).run_values([x])[0], Interpreter(parse_program(BY_CHANNEL)).run_values([x])[0]
    )
    agrees(program, x)


I8, I32 = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i32:f32, 0.5:3>"
CALLED = f"""func.func private @f(%x: tensor<4x6x{I8}>, %i: tensor<{I8}>) -> tensor<4x{I8}> {{
  %0 = "stablehlo.reduce"(%x, %i) ({{
  ^bb0(%a: tensor<{I32}>, %b: tensor<{I32}>):
    %s = stablehlo.add %a, %b : tensor<{I32}>
    stablehlo.return %s : tensor<{I32}>
  }}) {{dimensions = array<i64: 1>}} : (tensor<4x6x{I8}>, tensor<{I8}>) -> tensor<4x{I8}>
  return %0 : tensor<4x{I8}>
}}
func.func @main(%x: tensor<4x6xf32>, %i: tensor<f32>) -> tensor<4xf32> {{
  %0 = stablehlo.uniform_quantize %x : (tensor<4x6xf32>) -> tensor<4x6x{I8}>
  %1 = stablehlo.uniform_quantize %i : (tensor<f32>) -> tensor<{I8}>
  %2 = call @f(%0, %1) : (tensor<4x6x{I8}>, tensor<{I8}>) -> tensor<4x{I8}>
  %3 = stablehlo.uniform_dequantize %2 : (tensor<4x{I8}>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}}"""


def test_quantized_ops_in_a_called_function_are_lowered() -> None:
    x = np.random.default_rng(0).uniform(-9, 9, (4, 6)).astype(np.float32)
    lowered = agrees(parse_program(CALLED), x, np.float32(0))
    assert not [op for op in lowered.module.walk() if op.name == "func.call"]
    assert "i32" in next(str(op.results[0].type) for op in lowered.entry.ops if op.name == "stablehlo.reduce")


def test_lower_alone_inlines_calls() -> None:
    lowered = lower(parse_program(CALLED))
    assert not [op for op in lowered.module.walk() if op.name == "func.call"]


@pytest.mark.parametrize("kind", ["i8:f32, 0.5:3", "u8:f32, 0.5:128", "i8:f32:0, {0.5:1, 0.25:2, 1.0:-3, 0.5, 0.5:9}"])
@pytest.mark.parametrize("cast", ["quant.qcast", "stablehlo.uniform_quantize"])
def test_nan_is_quantized_alike_before_and_after_lowering_without_a_profile(kind: str, cast: str) -> None:
    quantized = f"tensor<5x!quant.uniform<{kind}>>"
    types = f"tensor<5xf32> to {quantized}" if cast == "quant.qcast" else f"(tensor<5xf32>) -> {quantized}"
    program = parse_program(f"""func.func @main(%x: tensor<5xf32>) -> {quantized} {{
      %0 = {cast} %x : {types}
      return %0 : {quantized}
    }}""")
    x = np.array([np.nan, np.inf, np.nan, -0.25, np.nan], np.float32)
    (expected,) = Interpreter(program).run_values([x])
    lowered = integer_program(program)
    native = next(iter(NativeProgram(lowered)({lowered.inputs[0].name: x}).values()))
    for found in (Interpreter(lowered).run_values([x])[0], native):
        np.testing.assert_array_equal(found, expected)
