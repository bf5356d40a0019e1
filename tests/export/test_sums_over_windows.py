"""Sums over windows that stay float, as in Lp pools, in .onnx files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.export.onnx.runtime import OnnxFile

WINDOWS = {
    "images": ("(float[2,4,6,6] x) => (float[N,M,A,B] y)", "kernel_shape=[2,3], strides=[2,1], pads=[1,0,0,1], p=2"),
    "volumes": ("(float[1,3,4,4,4] x) => (float[N,M,A,B,C] y)", "kernel_shape=[2,2,2], p=1"),
    "rows": ("(float[2,3,9] x) => (float[N,M,A] y)", "kernel_shape=[3], strides=[2], p=3"),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_lp_pools_have_the_results_of_the_program(name: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported models")
    ports, attributes = WINDOWS[name]
    model, samples = text_network(ports, {}, f"y = LpPool<{attributes}>(x)")
    made = zp.quantize(model, samples, target=target, effort="none")
    made.export(tmp_path / "m.onnx")
    for sample in samples:
        found, expected = OnnxFile(tmp_path / "m.onnx")(sample)["y"], made(**sample)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
