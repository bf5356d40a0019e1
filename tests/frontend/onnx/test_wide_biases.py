"""Biases of more than 24 bits: an ONNX file's integers are those of the imported program, and of its export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import zeropoint as zp
from export.text_networks import text_network

NETWORKS = {
    "Conv": ("(float[1,3,6,6] x) => (float[1,8,6,6] y)", (8, 3, 3, 3), "y = Conv <pads = [1, 1, 1, 1]> (x, w, b)"),
    "Gemm": ("(float[1,6] x) => (float[1,8] y)", (6, 8), "y = Gemm (x, w, b)"),
}


def integers(path: Path) -> dict[str, Any]:
    return {held.name: numpy_helper.to_array(held) for held in onnx.load(path).graph.initializer}


def wide_biases(path: Path, bits: int) -> tuple[str, Any]:
    """Give the exported file other biases, and a scale of the result for them."""
    random, held = np.random.default_rng(0), integers(path)
    (name,) = (name for name, array in held.items() if array.dtype == np.int32 and array.any())
    biases = (random.integers(1 << bits - 1, 1 << bits, 8) * random.choice([-1, 1], 8) | 1).astype(np.int32)
    scale = held["x_scale"] * held["w_scale"].max() * np.float32(2.0**bits / 120)
    model = onnx.load(path)
    for each in model.graph.initializer:
        if each.name in (name, "y_scale"):
            array = biases if each.name == name else np.asarray(scale, np.float32)
            each.CopyFrom(numpy_helper.from_array(array, each.name))
    onnx.save(model, path)
    return name, biases


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize(("op", "bits"), [("Conv", 24), ("Conv", 27), ("Conv", 30), ("Gemm", 28)])
def test_wide_biases_keep_their_integers(op: str, bits: int, form: Any, tmp_path: Path) -> None:
    """They were rounded to f32: integers of 30 bits came back up to 80 away."""
    signature, shape, text = NETWORKS[op]
    model, samples = text_network(signature, {"w": shape, "b": (8,)}, text)
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    zp.quantize(model, samples, target="onnxruntime", effort="none").export(first, onnx_format=form)
    name, biases = wide_biases(first, bits)
    zp.quantize(first, target="onnxruntime").export(second, onnx_format=form)
    np.testing.assert_array_equal(integers(second)[name], biases)
