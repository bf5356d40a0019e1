"""Reversed dimensions between integer kernels, in each runtime: a Slice with steps of -1, or REVERSE_V2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.float_programs import TOSA
from zeropoint.export import export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.export.tosa.runtime import TosaFile
from zeropoint.interp import Interpreter
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize

NETWORK = """
func.func @main(%x: tensor<2x3x4x5xf32> {zeropoint.name = "x"}) -> (tensor<2x3x4x6xf32> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<[[0.5, -0.4, 0.3], [0.2, 0.7, -0.6], [-0.1, 0.8, 0.9], [0.4, 0.1, -0.3],
    [0.6, -0.8, 0.2]]> : tensor<5x3xf32>
  %v = stablehlo.constant dense<[[0.5, -0.4, 0.3, 1.0, -0.9, 0.1], [0.2, 0.7, -0.6, 0.3, 0.2, -0.5],
    [-0.1, 0.8, 0.9, -0.2, 0.4, 0.6]]> : tensor<3x6xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [3] x [0] :
    (tensor<2x3x4x5xf32>, tensor<5x3xf32>) -> tensor<2x3x4x3xf32>
  %1 = stablehlo.reverse %0, dims = DIMS : tensor<2x3x4x3xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [3] x [0] :
    (tensor<2x3x4x3xf32>, tensor<3x6xf32>) -> tensor<2x3x4x6xf32>
  return %2 : tensor<2x3x4x6xf32>
}"""
TARGETS = ["litert", "litert-16x8", "onnxruntime", pytest.param("tosa", marks=TOSA.marks)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dims", ["[3]", "[1, 2]", "[0, 3]", "[0, 1, 3]"])
def test_reversed_integers_are_our_bytes(dims: str, target: str, tmp_path: Path) -> None:
    samples = [{"x": np.random.default_rng(seed).normal(size=(2, 3, 4, 5)).astype(np.float32)} for seed in range(3)]
    made = quantize(parse_program(NETWORK.replace("DIMS", dims)), samples, Options(target=target, effort="none"))
    assert "reverse" in [region.logical_kernel.data for region in regions_of(made.propagated)]
    suffix = {"onnxruntime": ".onnx", "tosa": ".tosa.mlir"}.get(target, ".tflite")
    path = tmp_path / f"m{suffix}"
    export_program(made.propagated, path)
    run = {".onnx": OnnxFile, ".tosa.mlir": TosaFile}.get(suffix, lambda path: LiteRTFile(path, reference=True))(path)
    for sample in samples:
        np.testing.assert_array_equal(run(sample)["y"], Interpreter(made.integer)(sample)["y"])
