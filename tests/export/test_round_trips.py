"""Exported files, imported without data and exported again: the second file has the operators of the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
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


PARTS = {
    "an LSTM": (
        "(float[4,1,6] x) => (float[1,1,5] h)",
        {"w": (1, 20, 6), "r": (1, 20, 5), "b": (1, 40)},
        "s, h, c = LSTM<hidden_size=5>(x, w, r, b)",
    ),
    "a softplus before a convolution": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1)},
        "p = Conv(x, w)\n q = Softplus(p)\n y = Conv(q, v)",
    ),
    "an image enlarged twice": (
        "(float[1,4,4,4] x) => (float[1,4,16,16] y)",
        {"w": (4, 4, 1, 1), "v": (4, 4, 1, 1)},
        """
        s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()
        p = Conv(x, w)
        q = Resize<mode="linear">(p, , s)
        r = Conv(q, v)
        y = Resize<mode="nearest">(r, , s)
        """,
    ),
    "a value beside its maximum": (
        "(float[1,4,6,6] x) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1)},
        "p = Conv(x, w)\n q = ReduceMax<axes=[2,3]>(p)\n y = Sub(p, q)",
    ),
    "a function of floats beside an image": (
        "(float[1,4,6,6] x, float[1,3] u) => (float[1,4,6,6] y)",
        {"w": (4, 4, 1, 1), "v": (3, 4)},
        """
        f = MatMul(u, v)  s = Sin(f)
        a = Constant<value_ints=[2]>()  b = Constant<value_ints=[3]>()
        t0 = Unsqueeze(s, a)  t = Unsqueeze(t0, b)
        p = Conv(x, w)  y = Mul(p, t)
        """,
    ),
}
FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("litert", "tflite", {}),
    ("onnxruntime", "onnx", {}),
    ("onnxruntime", "onnx", {"onnx_format": "qoperator"}),
]


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


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(("target", "suffix", "options"), FORMS)
def test_parts_of_an_operator_keep_their_names(
    name: str, target: str, suffix: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """The names of the parts are numbered. Node, tensor and stored integers had numbers of their own, and a second
    export had others, because the importer reads one name of the three.

    The places of casts and the shapes of constants are those of the first file, too.
    """
    model, samples = text_network(*PARTS[name])
    first = zp.quantize(model, samples, target=target, effort="none")
    first.export(tmp_path / f"first.{suffix}", **options)
    second = zp.quantize(tmp_path / f"first.{suffix}", target=target)
    second.export(tmp_path / f"second.{suffix}", **options)
    assert (tmp_path / f"first.{suffix}").read_bytes() == (tmp_path / f"second.{suffix}").read_bytes()
    assert_same_outputs(first, second, samples)


def test_a_node_its_tensor_and_its_integers_have_one_number(tmp_path: Path) -> None:
    model, samples = text_network(*PARTS["an LSTM"])
    zp.quantize(model, samples, target="onnxruntime", effort="none").export(tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    made = {node.output[0]: node for node in graph.node}
    computed = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] in made]
    assert len(computed) > 10
    for node in computed:
        assert node.output[0] == f"{made[node.input[0]].name}_quantized"
