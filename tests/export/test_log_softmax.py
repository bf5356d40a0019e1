"""Softmaxes and their logarithms in .onnx files: one operator each, also if they stay float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.ir.tensors import Array

CLASSIFIER = (
    "(float[1,6,10] x) => (float[1,6,5] y)",
    {"w": (10, 8), "v": (8, 5)},
    "h = MatMul(x, w)\n r = Relu(h)\n s = MatMul(r, v)\n y = LogSoftmax<axis=-1>(s)",
)
OLD = ("(float[2,3,4,5] x) => (float[2,3,4,5] y)", {"w": (5, 5)}, "h = MatMul(x, w)\n y = {}<axis={}>(h)")


@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "openvino-vnni"])
def test_a_log_softmax_is_one_operator_after_an_import_too(target: str, tmp_path: Path) -> None:
    """It was six operators. Imported without data, each was a kernel, with casts of its own for OpenVINO."""
    model, samples = text_network(*CLASSIFIER)
    first = zp.quantize(model, samples, target=target, effort="none")
    first.export(tmp_path / "first.onnx")
    zp.quantize(tmp_path / "first.onnx", target=target).export(tmp_path / "second.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "first.onnx").graph.node]
    assert kinds.count("LogSoftmax") == 1
    assert not {"Exp", "Log", "ReduceMax"} & {*kinds}
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()


def _run(path: Path, sample: dict[str, Array]) -> Array:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported models")
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, sample)[0]


@pytest.mark.parametrize("node", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_rows_of_several_dimensions_are_one_dimension(node: str, axis: int, tmp_path: Path) -> None:
    """Before opset 13, a softmax is over all dimensions from an axis on. Such a softmax was refused."""
    ports, weights, body = OLD
    model, samples = text_network(ports, weights, body.format(node, axis))
    model.opset_import[0].version = 11
    made = zp.quantize(model, samples, target="onnxruntime", effort="none")
    made.export(tmp_path / "m.onnx")
    assert node in {each.op_type for each in onnx.load(tmp_path / "m.onnx").graph.node}
    step = 1 / 255 if node == "Softmax" else 0  # a softmax is quantized
    for sample in samples:
        predicted = made.interpreted()(**sample)["y"]
        np.testing.assert_allclose(_run(tmp_path / "m.onnx", sample), predicted, atol=1e-5 + step)
