"""Constants that are broadcast before a kernel have the integers that files have, also in the middle of two of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.interp import Interpreter

DIFFERENCE = """func.func @main(%x: tensor<70x6xf32> {zeropoint.name = "x"})
    -> (tensor<70x6xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.constant dense<[[7.0, 14.0, 0.0, 4.0, 4.0, 1.0], [1.0, 0.0, 2.0, 7.0, 9.0, 13.0],
    [7.0, 9.0, 14.0, 10.0, 9.0, 8.0]]> : tensor<3x6xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<3x6xf32>) -> tensor<3x32x6xf32>
  %2 = stablehlo.reshape %1 : (tensor<3x32x6xf32>) -> tensor<96x6xf32>
  %3 = stablehlo.slice %2 [0:70, 0:6] : (tensor<96x6xf32>) -> tensor<70x6xf32>
  %4 = stablehlo.subtract %x, %3 : tensor<70x6xf32>
  return %4 : tensor<70x6xf32>
}"""
"""The step of the constant is fl(14 / 255), so 7 is between 127 and 128 steps, nearer to 127 by one rounding."""
DATA = [{"x": np.random.default_rng(seed).integers(0, 16, (70, 6)).astype(np.float32)} for seed in range(4)]


def test_files_and_programs_have_the_same_integers(tmp_path: Path) -> None:
    """The program had 128 steps, because its cast divided in f32: 4 % of the differences were a step off."""
    pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")
    model = zp.quantize(DIFFERENCE, DATA, target="litert", effort="none")
    assert model.quantization is not None
    model.export(tmp_path / "m.tflite")
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    again = zp.quantize(tmp_path / "m.tflite", target="litert", effort="none")
    native = NativeProgram(model.program)
    for sample in DATA:
        wanted = file(sample)["y"]
        for run in (Interpreter(model.quantization.quantized), Interpreter(model.program), native, again):
            np.testing.assert_array_equal(run(sample)["y"], wanted)
