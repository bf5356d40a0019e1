"""Integer outputs of a program that was quantized with float ones: an output that a float op computes is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.export import ExportError

TARGETS = {".tflite": "litert", ".onnx": "onnxruntime", ".tosa.mlir": "tosa"}


def _quantized(function: str, suffix: str) -> zp.Model:
    """A convolution and a function, for the target of a format."""
    ports = "(float[1,4,6,6] x) => (float[1,4,6,6] y)"
    model, samples = text_network(ports, {"w": (4, 4, 1, 1)}, f"c = Conv(x, w) y = {function}(c)")
    return zp.quantize(model, samples, target=TARGETS[suffix], effort="none")


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_float_output_is_refused(suffix: str, tmp_path: Path) -> None:
    """The file had a float output, and nothing said so."""
    path = tmp_path / f"m{suffix}"
    with pytest.raises(ExportError, match=r"output 'y': found .*, which computes in float; keep io float \(--io\)"):
        _quantized("Cos", suffix).export(path, io="integer")
    assert not path.exists()


@pytest.mark.parametrize("suffix", TARGETS)
def test_an_output_of_a_kernel_is_stored(suffix: str, tmp_path: Path) -> None:
    _quantized("Relu", suffix).export(tmp_path / f"m{suffix}", io="integer")
    assert (tmp_path / f"m{suffix}").exists()
