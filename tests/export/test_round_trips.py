"""Exported files, imported without data and exported again: the second file has the operators of the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import zeropoint as zp
from export.text_networks import text_network
from oracle.litert import operators
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array

IMAGES = {
    "a convolution": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 3, 3), "b": (4,)},
        "y = Conv<pads=[1,1,1,1]>(x, w, b)",
    ),
    "a convolution over one dimension": (
        "(float[2,3,12] x) => (float[2,4,12] y, float[2,3,12] z)",
        {"w": (4, 3, 3), "v": (3, 4, 1)},
        "y = Conv<pads=[1,1]>(x, w)\n z = Conv(y, v)",
    ),
    "a sum of two images": (
        "(float[1,4,6,6] x, float[1,4,6,6] u) => (float[1,4,6,6] y, float[1,4,1,1] z)",
        {"w": (4, 4, 1, 1), "v": (4, 4, 3, 3)},
        "p = Conv(x, w)\n q = Conv<pads=[1,1,1,1]>(u, v)\n y = Add(p, q)\n z = GlobalAveragePool(y)",
    ),
    "an image that kernels and a float op read": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n q = Sin(x)\n y = Mul(p, q)",
    ),
    "a pool over one dimension": (
        "(float[1,4,6,6] x) => (float[1,4,6,3] y)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n y = MaxPool<kernel_shape=[1,2], strides=[1,2]>(p)",
    ),
    "constants beside an image": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1), "k": (4, 1, 1), "l": (1,)},
        "p = Conv(x, w)\n q = Sigmoid(p)\n r = Mul(q, k)\n y = Add(r, l)",
    ),
    "a moved image": (
        "(float[1,4,6,6] x) => (float[1,6,6,4] y, float[1,36,4] z)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n y = Transpose<perm=[0,2,3,1]>(p)\n s = Constant<value_ints=[1,36,4]>()\n z = Reshape(y, s)",
    ),
    "a function that stays float at the end": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n y = Sin(p)",
    ),
}


def network(name: str) -> tuple[ModelProto, list[dict[str, Array]]]:
    """A network of `IMAGES`, and samples for it."""
    return text_network(*IMAGES[name])


def assert_same_outputs(first: zp.Model, second: zp.Model, samples: Sequence[dict[str, Array]]) -> None:
    """Two quantized programs give the same numbers."""
    runs = []
    for model in (first, second):
        assert model.quantization is not None
        runs.append(Interpreter(model.quantization.quantized))
    for sample in samples:
        expected, found = (run(sample) for run in runs)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("layout", ["channels-last", "model"])
def test_a_tflite_file_gets_no_transposes(name: str, layout: str, tmp_path: Path) -> None:
    """A transpose at each image came between a program of the imported file and its inputs and outputs."""
    model, samples = network(name)
    first = zp.quantize(model, samples, target="litert")
    first.export(tmp_path / "first.tflite", layout=layout)
    second = zp.quantize(tmp_path / "first.tflite", target="litert")
    second.export(tmp_path / "second.tflite", layout=layout)
    contents = [(tmp_path / name).read_bytes() for name in ("first.tflite", "second.tflite")]
    assert operators(contents[0]) == operators(contents[1])
    if layout == "channels-last":  # otherwise, the constants of a transpose may have other names
        assert contents[0] == contents[1]
    assert_same_outputs(first, second, samples)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_an_onnx_file_keeps_its_names(name: str, form: str, tmp_path: Path) -> None:
    """Names of weights grew by `_dequantized`."""
    model, samples = network(name)
    first = zp.quantize(model, samples, target="onnxruntime")
    first.export(tmp_path / "first.onnx", onnx_format=form)
    second = zp.quantize(tmp_path / "first.onnx", target="onnxruntime")
    second.export(tmp_path / "second.onnx", onnx_format=form)
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()
    assert_same_outputs(first, second, samples)
