"""Outputs that are positions are judged by how many are equal."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp


def network() -> onnx.ModelProto:
    """A convolution and the position of its greatest channel."""
    weights = np.random.default_rng(0).normal(0, 1, (8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("ArgMax", ["c"], ["y"], axis=1, keepdims=0, name="position"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12, 12))
    y = helper.make_tensor_value_info("y", TensorProto.INT64, (1, 10, 10))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_a_network_of_positions_is_not_warned_about_in_decibels() -> None:
    data = {"x": np.random.default_rng(1).normal(0, 1, (32, 3, 12, 12)).astype(np.float32)}
    model = zp.quantize(network(), data)
    assert model.quantization is not None
    found = model.quantization.corrections
    assert found.counted
    assert found.warnings() == []
    assert " % of the worst output equal on " in found.summary()
    (output,) = zp.compare(network(), model, data).outputs
    assert output.equal is not None
    assert 0.9 < output.equal < 1
