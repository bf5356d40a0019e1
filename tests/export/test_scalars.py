"""Exported programs whose inputs, constants and outputs are single numbers, tensors without dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile

PRODUCT = """func.func @main(%x: tensor<f32> {zeropoint.name = "x"}, %t: tensor<f32> {zeropoint.name = "t"})
    -> (tensor<f32> {zeropoint.name = "y"}) {
  %0 = stablehlo.multiply %x, %t : tensor<f32>
  %1 = stablehlo.logistic %0 : tensor<f32>
  return %1 : tensor<f32>
}"""
CHOICE = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"})
    -> (tensor<1x4xf32> {zeropoint.name = "y"}, tensor<i1> {zeropoint.name = "c"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %limit = stablehlo.constant dense<0.5> : tensor<f32>
  %w = stablehlo.constant dense<
    [[1.0, 0.5, 0.0, 0.1], [0.0, 1.0, 0.5, 0.2], [0.3, 0.2, 1.0, 0.1], [0.4, 0.1, 0.2, 1.0]]> : tensor<4x4xf32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<1x4xf32>, tensor<f32>) -> tensor<f32>
  %c = stablehlo.compare GT, %sum, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %n = stablehlo.negate %a : tensor<1x4xf32>
  %y = stablehlo.select %c, %a, %n : tensor<i1>, tensor<1x4xf32>
  return %y, %c : tensor<1x4xf32>, tensor<i1>
}"""
NUMBERS = [{"x": np.array(x, np.float32), "t": np.array(t, np.float32)} for x, t in ((1.5, 0.5), (-2.0, 1.0), (0, 3))]
RNG = np.random.default_rng(0)
ROWS = [{"x": RNG.standard_normal((1, 4)).astype(np.float32)} for _ in range(8)]
CASES = pytest.mark.parametrize(("text", "data"), [(PRODUCT, NUMBERS), (CHOICE, ROWS)], ids=["product", "choice"])


@CASES
def test_a_tflite_file_takes_and_returns_numbers_without_dimensions(text: str, data: list, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")
    model = zp.quantize(text, data, target="litert", effort="none")
    model.export(tmp_path / "m.tflite")
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    again = zp.quantize(tmp_path / "m.tflite", target="litert", effort="none")
    for sample in data:
        found, imported = file(sample), again(sample)
        for name, wanted in model(sample).items():
            assert (found[name].shape, found[name].tolist()) == (wanted.shape, wanted.tolist())
            assert (imported[name].shape, imported[name].tolist()) == (wanted.shape, wanted.tolist())


@CASES
def test_an_onnx_file_takes_and_returns_numbers_without_dimensions(text: str, data: list, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    model = zp.quantize(text, data, target="onnxruntime", effort="none")
    model.export(tmp_path / "m.onnx")
    file = OnnxFile(tmp_path / "m.onnx")
    for sample in data:
        found = file(sample)
        for name, wanted in model(sample).items():
            assert (found[name].shape, found[name].tolist()) == (wanted.shape, wanted.tolist())
