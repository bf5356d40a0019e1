"""Integer outputs of a program that was quantized with float ones: an output that a float op computes is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import zeropoint as zp
from zeropoint.export import ExportError
from zeropoint.ir.tensors import Array

TARGETS = {".tflite": "litert", ".onnx": "onnxruntime", ".tosa.mlir": "tosa"}


def _model(function: str) -> ModelProto:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4,6,6] x) => (float[1,4,6,6] y) {{ c = Conv(x, w)
 y = {function}(c) }}"""
    model = parser.parse_model(text)
    weights = np.random.default_rng(0).normal(0, 0.5, (4, 4, 1, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


def samples() -> list[dict[str, Array]]:
    """Samples for the networks here."""
    return [{"x": np.random.default_rng(seed).normal(0, 1, (1, 4, 6, 6)).astype(np.float32)} for seed in range(4)]


def quantized(function: str, suffix: str) -> zp.Model:
    """A convolution and a function, for the target of a format."""
    return zp.quantize(_model(function), samples(), target=TARGETS[suffix], effort="none")


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_float_output_is_refused(suffix: str, tmp_path: Path) -> None:
    """The file had a float output, and nothing said so."""
    path = tmp_path / f"m{suffix}"
    with pytest.raises(ExportError, match=r"output 'y': found .*, which computes in float; keep io float \(--io\)"):
        quantized("Cos", suffix).export(path, io="integer")
    assert not path.exists()


@pytest.mark.parametrize("suffix", TARGETS)
def test_an_output_of_a_kernel_is_stored(suffix: str, tmp_path: Path) -> None:
    quantized("Relu", suffix).export(tmp_path / f"m{suffix}", io="integer")
    assert (tmp_path / f"m{suffix}").exists()
