"""Windows over one dimension of five, as PyTorch's LocalResponseNorm has over channels, are windows over an image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracle.litert import evaluate
from zeropoint.export import export_program
from zeropoint.export.litert.model import litert_model
from zeropoint.export.tosa.runtime import TosaFile, tools
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize

SHAPE = (1, 1, 9, 4, 5)
MEAN = """func.func @main(%x: tensor<1x1x9x4x5xf32> {zeropoint.name = "x"})
    -> (tensor<1x1x4x4x5xf32> {zeropoint.name = "y"}) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 1, 3, 1, 1>,
    window_strides = array<i64: 1, 1, 2, 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<1x1x9x4x5xf32>, tensor<f32>) -> tensor<1x1x4x4x5xf32>
  %n = stablehlo.constant dense<3.0> : tensor<f32>
  %m = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<1x1x4x4x5xf32>
  %y = stablehlo.divide %s, %m : tensor<1x1x4x4x5xf32>
  return %y : tensor<1x1x4x4x5xf32>
}"""
GREATEST = MEAN.replace("dense<0.0>", "dense<0xFF800000>").replace("stablehlo.add", "stablehlo.maximum")
GREATEST = GREATEST[: GREATEST.index("  %n =")] + "  return %s : tensor<1x1x4x4x5xf32>\n}"
SAMPLES = [{"x": np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)} for seed in range(3)]


def quantized(text: str, target: str) -> Quantization:
    result = quantize(parse_program(text), SAMPLES, Options(target=target))
    assert [op.name for op in result.propagated.entry.ops].count("quant.region") == 1
    return result


@pytest.mark.parametrize("text", [MEAN, GREATEST], ids=["mean", "greatest"])
def test_litert_computes_our_bytes(text: str) -> None:
    result = quantized(text, "litert")
    content = litert_model(result.propagated)
    for sample in SAMPLES:
        (found,) = evaluate(content, sample["x"])
        np.testing.assert_array_equal(found, Interpreter(result.quantized)(sample)["y"])


@pytest.mark.skipif(tools() is None, reason="tosa-tools (in the environment that ZEROPOINT_TOSA names) are missing")
def test_tosa_computes_our_bytes(tmp_path: Path) -> None:
    result = quantized(MEAN, "tosa")
    export_program(result.propagated, tmp_path / "mean.tosa.mlir")
    found = TosaFile(tmp_path / "mean.tosa.mlir")(SAMPLES[0])["y"]
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(SAMPLES[0])["y"])
