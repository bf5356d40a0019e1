"""Weights that a model quantizes and then joins: their integers in OpenVINO are those of the prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

FORMS = {
    "columns": ("MatMul", (4, 16), [(16, 24), (16, 24)], 1),
    "rows": ("MatMul", (8, 16), [(8, 24), (8, 24)], 0),
    "output channels": ("Conv", (1, 3, 6, 6), [(4, 3, 3, 3), (4, 3, 3, 3)], 0),
    "input channels": ("Conv", (1, 3, 6, 6), [(12, 2, 3, 3), (12, 1, 3, 3)], 1),
    "operands": ("Add", (8, 24), [(4, 24), (4, 24)], 0),
}
"""The op, the shape of its input, and the shapes of the parts of its other operand, joined along a dimension."""


def _model(form: str, random: np.random.Generator) -> onnx.ModelProto:
    op, shape, parts, axis = FORMS[form]
    held, nodes = list[onnx.TensorProto](), list[onnx.NodeProto]()
    for index, (size, scale) in enumerate(zip(parts, (0.01, 0.02), strict=True)):
        entries = (random.integers(-127, 128, size).astype(np.int8), np.float32(scale), np.int8(0))
        names = [f"{name}{index}" for name in ("integers", "scale", "zero_point")]
        held += [numpy_helper.from_array(np.asarray(entry), name) for entry, name in zip(entries, names, strict=True)]
        nodes.append(helper.make_node("DequantizeLinear", names, [f"part{index}"]))
    nodes.append(helper.make_node("Concat", ["part0", "part1"], ["joined"], axis=axis))
    nodes.append(helper.make_node(op, ["x", "joined"], ["y"], name="y"))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ports, made, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_joined_constants_are_predicted(form: str, seed: int, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(seed)
    program = load_onnx_model(_model(form, random), {})
    samples = [{"x": random.normal(0, 1, FORMS[form][1]).astype(np.float32)} for _ in range(4)]
    result = quantize(program, samples[:2], Options(target="openvino"))
    export_program(result.propagated, tmp_path / "joined.onnx")
    file, predict = OpenVinoFile(tmp_path / "joined.onnx"), Interpreter(result.quantized)
    for sample in samples:
        for name, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)


@pytest.mark.parametrize(("form", "axis"), [("columns", 1), ("output channels", 0)])
def test_joined_channels_keep_their_scales(form: str, axis: int) -> None:
    random = np.random.default_rng(0)
    shape = FORMS[form][1]
    samples = [{"x": random.normal(0, 1, shape).astype(np.float32)} for _ in range(2)]
    result = quantize(load_onnx_model(_model(form, random), {}), samples, Options(target="openvino"))
    text = str(result.propagated.module)
    assert "concatenate" not in text
    assert f"f32:{axis}, {{0.0099999997764825821,0.0099999997764825821" in text
