"""Sums of a convolution and its own input or a constant, which OpenVINO computes apart from the convolution."""

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

SHAPE = (1, 8, 64, 64)
NEAR = {"storage": (5, 12, 21, 26), "relu": (6, 14, 24, 27)}
"""Models of each kind in which values lie so near to the middle of two results that another order rounds otherwise."""


def model(seed: int, kind: str, *, swapped: bool) -> tuple[onnx.ModelProto, np.float32, int]:
    """A QDQ model of random types, its input's scale and zero point. `relu`: the input has zero point 0."""
    random, nodes = np.random.default_rng(seed), list[onnx.NodeProto]()
    weights: list[onnx.TensorProto] = []

    def constant(array: object, dtype: type[np.generic] = np.float32) -> str:
        weights.append(numpy_helper.from_array(np.asarray(array, dtype), f"c{len(weights)}"))
        return weights[-1].name

    def node(op: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], name=f"n{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def stored(value: str, scale: np.float32, point: int) -> str:
        made = node("QuantizeLinear", value, constant(scale), constant(point, np.uint8))
        return node("DequantizeLinear", made, constant(scale), constant(point, np.uint8))

    scale = np.float32(np.exp(random.uniform(-5, -2)))
    point = 0 if kind == "relu" else int(random.integers(60, 200))
    value = stored("x", scale, point)
    integers = constant(random.integers(-60, 60, (8, 8, 3, 3)), np.int8)
    scales = constant(random.uniform(0.002, 0.01, 8))
    weight = node("DequantizeLinear", integers, scales, constant([0] * 8, np.int8), axis=0)
    bias = constant(random.normal(0, 20, 8) * scale)
    middle = np.float32(scale * random.uniform(0.8, 4))
    made = stored(node("Conv", value, weight, bias, pads=[1] * 4), middle, int(random.integers(80, 180)))
    total = node("Add", *((value, made) if swapped else (made, value)))
    result = stored(total, np.float32(middle * random.uniform(0.8, 1.6)), int(random.integers(80, 180)))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", result)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), scale, point


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", NEAR)
def test_every_value_of_the_sum_is_predicted(kind: str, tmp_path: Path, *, swapped: bool) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    for seed in NEAR[kind]:
        made, scale, point = model(seed, kind, swapped=swapped)
        result = quantize(load_onnx_model(made, {}), [], Options(target="openvino"))
        export_program(result.propagated, tmp_path / "m.onnx")
        integers = np.random.default_rng(seed).integers(0, 256, SHAPE) - point
        sample = {"x": (integers * np.float64(scale)).astype(np.float32)}
        (expected,) = Interpreter(result.quantized)(sample).values()
        (found,) = OpenVinoFile(tmp_path / "m.onnx")(sample).values()
        np.testing.assert_array_equal(found, expected)
        (lowered,) = Interpreter(result.integer)(sample).values()
        np.testing.assert_array_equal(lowered, expected)


@pytest.mark.parametrize("groups", [1, 8])
def test_a_constant_of_every_element_is_added_apart_from_the_convolution(groups: int, tmp_path: Path) -> None:
    """22 % of the values differed when they were predicted as a sum in the convolution."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(0)
    numbers = {
        "w": random.normal(0, 0.3, (8, 8 // groups, 3, 3)),
        "b": random.normal(0, 1, 8),
        "c": random.normal(0, 1, SHAPE),
    }
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in numbers.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4, group=groups),
        helper.make_node("Add", ["y", "c"], ["z"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "z")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    samples = [{"x": random.normal(1, 1, SHAPE).astype(np.float32)} for _ in range(2)]
    result = quantize(load_onnx_model(made, {}), samples, Options(target="openvino-vnni", effort="none"))
    export_program(result.propagated, tmp_path / "m.onnx")
    (found,) = OpenVinoFile(tmp_path / "m.onnx")(samples[0]).values()
    (expected,) = Interpreter(result.integer)(samples[0]).values()
    np.testing.assert_array_equal(found, expected)
