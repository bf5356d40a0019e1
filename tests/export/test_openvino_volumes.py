"""Convolutions over three dimensions in OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.export.onnx.openvino import OpenVinoFile


def network(shape: tuple[int, ...], per_group: int) -> onnx.ModelProto:
    random, channels = np.random.default_rng(0), shape[1]
    numbers = {
        "w": random.normal(0, 0.3, (per_group * channels, 1, 2, 3, 3)),
        "b": random.normal(0, 1, per_group * channels),
    }
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in numbers.items()]
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 0, 0, 1, 0, 0], group=channels)
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("per_group", [1, 2])
def test_padding_beside_a_dimension_of_size_one(depth: int, per_group: int, tmp_path: Path) -> None:
    """With two results for each channel, half of the values were wrong, by up to 90 steps."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    shape = (2, 6, depth, 6, 8)
    samples = [{"x": np.random.default_rng(i).normal(2, 3, shape).astype(np.float32)} for i in range(2)]
    made = zp.quantize(network(shape, per_group), samples, target="openvino-vnni", effort="none")
    made.export(tmp_path / "m.onnx")
    file = OpenVinoFile(tmp_path / "m.onnx")
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["y"], made(**sample)["y"])


@pytest.mark.parametrize(
    ("shape", "weights", "attributes", "result"),
    [
        ((3, 1, 1, 3, 4), (3, 1, 2, 5, 5), "pads=[1,2,0,0,0,1], strides=[2,2,2]", (3, 3, 1, 1, 1)),
        ((1, 6, 3, 4, 1), (3, 6, 3, 2, 2), "pads=[2,1,1,2,1,1], dilations=[2,2,2]", (1, 3, 3, 4, 1)),
        ((1, 6, 4, 1), (3, 6, 2, 2), "pads=[1,1,1,1], dilations=[2,2]", (1, 3, 4, 1)),
    ],
)
def test_windows_of_one_channel_and_windows_around_all_elements(
    shape: tuple[int, ...], weights: tuple[int, ...], attributes: str, result: tuple[int, ...], tmp_path: Path
) -> None:
    """A third to all of the values were wrong."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    ports = f"(float{list(shape)} x) => (float{list(result)} y)"
    model, samples = text_network(ports, {"w": weights}, f"y = Conv<{attributes}>(x, w)")
    made = zp.quantize(model, samples, target="openvino", effort="none")
    made.export(tmp_path / "m.onnx")
    for sample in samples:
        np.testing.assert_array_equal(OpenVinoFile(tmp_path / "m.onnx")(sample)["y"], made(**sample)["y"])
