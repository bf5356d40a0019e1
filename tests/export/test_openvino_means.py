"""Means in OpenVINO, with values in the middle of two results: they are divided and then quantized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.interp import Interpreter

STEP = 0.0173
POINTS = [(0, 1, 0), (128, 1, 128), (128, 1 / 3, 128), (77, 5 / 6, 55), (77, 0.5, 0), (255, 1, 255), (0, 2 / 3, 0)]
"""Zero point of the operand, scale of the result in steps of the operand, zero point of the result."""


def _model(axes: tuple[int, ...], shape: tuple[int, ...]) -> onnx.ModelProto:
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], name="mean", axes=list(axes), keepdims=0),
        helper.make_node("Mul", ["m", "c"], ["y"], name="product"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", shape), ("m", kept))]
    ports.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, kept))
    held = [numpy_helper.from_array(np.array(1.3, np.float32), "c")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("shape", "axes"), [((4, 60, 8), (2,)), ((2, 6, 90), (1,)), ((4, 40, 3, 5), (2, 3))])
@pytest.mark.parametrize(("before", "ratio", "after"), POINTS)
def test_means_are_predicted(
    shape: tuple[int, ...], axes: tuple[int, ...], before: int, ratio: float, after: int, tmp_path: Path
) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(1)
    stored = random.integers(0, 256, (3, *shape))
    stored[:, 0, 0, 0], stored[:, 1, 0, 0] = 0, 255
    samples = [{"x": ((each - before) * STEP).astype(np.float32)} for each in stored]
    ends = [float((end - after) * STEP * ratio) for end in (0, 255)]
    recipe = [{"name": "mean", "range": ends}]
    made = zp.quantize(_model(axes, shape), samples, target="openvino", effort="none", recipe=recipe).quantization
    assert made is not None
    export_program(made.propagated, tmp_path / "m.onnx")
    file, predict = OpenVinoFile(tmp_path / "m.onnx"), Interpreter(made.quantized)
    for sample in samples:
        for name, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)
