"""Convolutions over three dimensions in .tflite and .tosa.mlir files are one over images, with the same integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export.text_networks import text_network
from oracle.litert import operators
from zeropoint.export.errors import ExportError
from zeropoint.export.litert.model import litert_model
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.tosa.model import tosa_text
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

SHAPE = (2, 4, 5, 8, 6)
WINDOWS: dict[str, tuple[int, tuple[int, ...], dict[str, object]]] = {
    "padded": (6, (3, 3, 3), {"pads": [1] * 6}),
    "steps": (6, (3, 2, 3), {"strides": [2, 2, 1], "pads": [1, 0, 1, 0, 1, 1]}),
    "dilated": (6, (2, 3, 3), {"dilations": [3, 1, 2]}),
    "groups": (6, (3, 3, 3), {"group": 2, "pads": [1] * 6}),
    "depthwise": (8, (3, 3, 1), {"group": 4, "pads": [1, 1, 0, 1, 1, 0]}),
    "points": (6, (1, 1, 1), {"strides": [2, 1, 1]}),
    "points in groups": (6, (1, 1, 1), {"strides": [2, 1, 2], "group": 2}),
    "times only": (6, (5, 1, 1), {}),
    "images only": (6, (1, 3, 3), {}),
}
"""The number of channels of the result, the size of the window, and the attributes."""


def _model(name: str, random: np.random.Generator) -> onnx.ModelProto:
    """A convolution between two of single elements. Weights have very different scales, the middle has a relu6."""
    channels, window, attributes = WINDOWS[name]
    sizes = [(4, 4, 1, 1, 1), (channels, 4 // int(str(attributes.get("group", 1))), *window), (3, channels, 1, 1, 1)]
    held, nodes, value = list[onnx.TensorProto](), list[onnx.NodeProto](), "x"
    for index, size in enumerate(sizes):
        weights = random.normal(0, 1, size) * np.exp(random.normal(0, 2, (size[0], 1, 1, 1, 1)))
        arrays = weights / np.sqrt(np.prod(size[1:])), random.normal(0, 1, size[0])
        held += [
            numpy_helper.from_array(a.astype(np.float32), f"{n}{index}") for n, a in zip("wb", arrays, strict=True)
        ]
        given = [value, f"w{index}", f"b{index}"]
        value = f"c{index}"
        nodes.append(helper.make_node("Conv", given, [value], name=value, **(attributes if index == 1 else {})))
        if index == 1:
            ends = [numpy_helper.from_array(np.float32(end), f"end{end}") for end in (0, 6)]
            held += ends
            nodes.append(helper.make_node("Clip", [value, *(end.name for end in ends)], ["clip"], name="clip"))
            value = "clip"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info(value, 1, None)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("target", "profile"), [("litert", None), ("litert", "xnnpack"), ("litert-16x8", None)])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_convolution_over_three_dimensions_is_one_over_images(
    name: str, target: str, profile: str | None, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    program = load_onnx_model(_model(name, random), {})
    samples = [{"x": random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    result = quantize(program, samples, Options(target=target, profile=profile, effort="none"))
    content = litert_model(result.propagated)
    assert operators(content).count("CONV_2D") == 3
    assert "TRANSPOSE" not in operators(content)
    (tmp_path / "m.tflite").write_bytes(content)
    file = LiteRTFile(tmp_path / "m.tflite", reference=profile is None)
    for sample in samples:
        for port, expected in Interpreter(result.quantized)(sample).items():
            np.testing.assert_array_equal(file(sample)[port], expected)


@pytest.mark.parametrize("name", WINDOWS)
def test_tosa_files_have_one_convolution_over_images(name: str) -> None:
    random = np.random.default_rng(3)
    program = load_onnx_model(_model(name, random), {})
    samples = [{"x": random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(2)]
    text = tosa_text(quantize(program, samples, Options(target="tosa", effort="none")).propagated)
    groups = int(str(WINDOWS[name][2].get("group", 1)))
    assert text.count("tosa.conv2d") == 2 + groups
    assert "tosa.transpose" not in text


@pytest.mark.parametrize("attributes", ["kernel_shape=[2,2,3]", "kernel_shape=[3,3,1], strides=[2,1,2]",
    "kernel_shape=[2,3,3], pads=[1,0,1,0,1,1], count_include_pad=1"])  # fmt: skip
@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_averages_over_volumes_are_predicted(attributes: str, profile: str | None, tmp_path: Path) -> None:
    body = f"c = Conv(x, w)\n p = AveragePool<{attributes}>(c)\n y = Conv(p, v)"
    given, weights = "(float[2,3,4,5,6] x) => (float[N,M,A,B,C] y)", {"w": (4, 3, 1, 1, 1), "v": (3, 4, 1, 1, 1)}
    model, samples = text_network(given, weights, body)
    made = zp.quantize(model, samples, target="litert", profile=profile, effort="none")
    made.export(tmp_path / "m.tflite")
    file = LiteRTFile(tmp_path / "m.tflite", reference=profile is None)
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["y"], made(**sample)["y"])


def test_padding_of_volumes_that_does_not_count_is_refused(tmp_path: Path) -> None:
    body = "y = AveragePool<kernel_shape=[2,2,2], pads=[1,1,1,0,0,0]>(x)"
    model, samples = text_network("(float[1,3,4,4,4] x) => (float[N,M,A,B,C] y)", {}, body)
    with pytest.raises(ExportError, match="whose padding does not count, expected padding that counts"):
        zp.quantize(model, samples, target="litert", effort="none").export(tmp_path / "m.tflite")
