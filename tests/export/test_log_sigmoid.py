"""Logarithms of sigmoids: the runtimes' Sigmoid is 0 below about -17, and its logarithm -inf."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize

TEXT = """func.func @main(%x: tensor<2x64xf32> {zeropoint.name = "x"}) -> (tensor<2x64xf32> {zeropoint.name = "y"}) {
  %s = stablehlo.logistic %x : tensor<2x64xf32>
  %y = stablehlo.log %s : tensor<2x64xf32>
  return %y : tensor<2x64xf32>
}"""


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_small_probabilities_have_logarithms(target: str, tmp_path: Path) -> None:
    x = np.linspace(-80, 40, 128, dtype=np.float32).reshape(2, 64)
    made = quantize(parse_program(TEXT), [{"x": x}], Options(target=target, effort="none"))
    export_program(made.propagated, tmp_path / "m.onnx")
    if target == "openvino":
        pytest.importorskip("openvino", reason="OpenVINO is the runtime")
    run = (OpenVinoFile if target == "openvino" else OnnxFile)(tmp_path / "m.onnx")
    expected = Interpreter(made.integer)({"x": x})["y"]
    np.testing.assert_allclose(run({"x": x})["y"], expected, rtol=2e-6, atol=5e-6)
