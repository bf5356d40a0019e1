"""Means, pools, sums, products and fully connected layers in OpenVINO, with values in the middle of two results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export import openvino_graphs
from zeropoint.check_target.runtimes import has_vnni
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize

STEP = 0.0173
POINTS = [(0, 1, 0), (128, 1, 128), (128, 1 / 3, 128), (77, 5 / 6, 55), (77, 0.5, 0), (255, 1, 255), (0, 2 / 3, 0)]
"""Zero point of the operand, scale of the result in steps of the operand, zero point of the result."""


def _model(nodes: list[onnx.NodeProto], given: dict[str, tuple[int, ...]], *results: str) -> onnx.ModelProto:
    nodes = [*nodes, helper.make_node("Mul", ["m", "c"], ["y"], name="product")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("m", "y", *results)]
    held = [numpy_helper.from_array(np.array(1.3, np.float32), "c")]
    graph = helper.make_graph(nodes, "g", ports, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _is_predicted(
    model: onnx.ModelProto,
    points: Mapping[str, tuple[float, int]],
    ratio: float,
    after: int,
    path: Path,
    target: str = "openvino",
) -> None:
    """Whether all values of `m` are predicted. `points` has the scale and zero point of every input."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(1)
    samples: list[dict[str, Array]] = [{} for _ in range(3)]
    for port in model.graph.input:
        scale, zero_point = points[port.name]
        for sample in samples:
            stored = random.integers(0, 256, [size.dim_value for size in port.type.tensor_type.shape.dim])
            stored.flat[:2] = 0, 255
            sample[port.name] = ((stored - zero_point) * scale).astype(np.float32)
    ends = [float((end - after) * STEP * ratio) for end in (0, 255)]
    recipe = [{"name": "m", "range": ends}]
    made = zp.quantize(model, samples, target=target, effort="none", recipe=recipe).quantization
    assert made is not None
    export_program(made.propagated, path / "m.onnx")
    file, predict = OpenVinoFile(path / "m.onnx"), Interpreter(made.quantized)
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["m"], predict(sample)["m"])


@pytest.mark.parametrize(("before", "ratio", "seed"), [(71, 1, 0), (0, 3, 1), (200, 1 / 3, 2), (128, 2, 3)])
def test_signed_products_with_a_bias_are_predicted(before: int, ratio: float, seed: int, tmp_path: Path) -> None:
    if not has_vnni():
        pytest.skip("sums of two products saturate without VNNI")
    random = np.random.default_rng(seed)
    held = {"w": random.normal(0, 0.5, (4, 16)), "b": random.normal(0, 0.3, 16)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["m"], name="m"),
        helper.make_node("MatMul", ["z", "m"], ["t"], name="t"),  # whose right operand is i8 with zero point 0
    ]
    model = _model(nodes, {"x": (60_000, 4), "z": (1, 60_000)}, "t")
    model.graph.initializer.extend(numpy_helper.from_array(held[name].astype(np.float32), name) for name in held)
    _is_predicted(model, {"x": (STEP, before), "z": (STEP, 0)}, ratio, 128, tmp_path, "openvino-vnni")


@pytest.mark.parametrize(("shape", "axes"), [((4, 60, 8), (2,)), ((2, 6, 90), (1,)), ((4, 40, 3, 5), (2, 3))])
@pytest.mark.parametrize(("before", "ratio", "after"), POINTS)
def test_means_are_predicted(
    shape: tuple[int, ...], axes: tuple[int, ...], before: int, ratio: float, after: int, tmp_path: Path
) -> None:
    node = helper.make_node("ReduceMean", ["x"], ["m"], name="m", axes=list(axes), keepdims=0)
    _is_predicted(_model([node], {"x": shape}), {"x": (STEP, before)}, ratio, after, tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [{"kernel_shape": [3, 2]}, {"kernel_shape": [3, 3], "pads": [1] * 4},
     {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "count_include_pad": 1}],
)  # fmt: skip
@pytest.mark.parametrize(("before", "ratio", "after"), POINTS)
def test_pools_are_predicted(attributes: dict[str, Any], before: int, ratio: float, after: int, tmp_path: Path) -> None:
    node = helper.make_node("AveragePool", ["x"], ["m"], name="m", **attributes)
    _is_predicted(_model([node], {"x": (2, 8, 9, 9)}), {"x": (STEP, before)}, ratio, after, tmp_path)


@pytest.mark.parametrize("readers", ["the sum", "others of the first", "others of both", "a transpose of the second"])
@pytest.mark.parametrize("second", [(0.5, 0), (0.75, 77), (2, 128)])
@pytest.mark.parametrize(("before", "ratio", "after"), [(0, 2, 0), (77, 5 / 6, 55), (128, 1 / 3, 128), (128, 1, 128)])
def test_sums_are_predicted(
    readers: str, second: tuple[float, int], before: int, ratio: float, after: int, tmp_path: Path
) -> None:
    others = {"others of the first": "x", "others of both": "xz"}.get(readers, "")
    nodes = [helper.make_node("Sigmoid", [name], [f"{name}s"], name=f"{name}s") for name in others]
    last = "z"
    if readers == "a transpose of the second":
        nodes.append(helper.make_node("Transpose", ["z"], ["t"], name="t", perm=[0, 1, 3, 2]))
        last = "t"
    nodes.append(helper.make_node("Add", ["x", last], ["m"], name="m"))
    shapes = {name: (2, 8, 8, 8) for name in "xz"}
    points = {"x": (STEP, before), "z": (STEP * second[0], second[1])}
    _is_predicted(_model(nodes, shapes, *(f"{name}s" for name in others)), points, ratio, after, tmp_path)


@pytest.mark.parametrize("second", [(0.5, 0), (0.7, 20), (2, 128)])
@pytest.mark.parametrize(("before", "ratio", "after"), [(0, 1, 0), (77, 5 / 6, 55), (128, 1 / 3, 128), (128, 1, 128)])
def test_products_are_predicted(
    second: tuple[float, int], before: int, ratio: float, after: int, tmp_path: Path
) -> None:
    node = helper.make_node("Mul", ["x", "z"], ["m"], name="m")
    shapes = {name: (2, 8, 8, 8) for name in "xz"}
    _is_predicted(
        _model([node], shapes), {"x": (STEP, before), "z": (second[0], second[1])}, ratio * 100, after, tmp_path
    )


@pytest.mark.parametrize("number", [0.5, 1.3])
@pytest.mark.parametrize(("before", "ratio", "after"), POINTS)
def test_products_with_a_number_are_predicted(
    number: float, before: int, ratio: float, after: int, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Constant", [], ["n"], value_float=number),
        helper.make_node("Mul", ["x", "n"], ["m"], name="m"),
    ]
    _is_predicted(_model(nodes, {"x": (2, 8, 8, 8)}), {"x": (STEP, before)}, ratio, after, tmp_path)


def _convolved(graph: Graph, name: str, scale: float, zero_point: int) -> str:
    """A convolution of an input, quantized."""
    weights = graph.stored(graph.random.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8), 2.0**-9, 0)
    return graph.cast(graph.node("Conv", graph.cast(name, 2.0**-5, 7), weights), scale, zero_point)


class Graph(openvino_graphs.Graph):
    """A model with casts."""

    def cast(self, value: str, scale: float, zero_point: int) -> str:
        """A value quantized and dequantized."""
        parameters = self._parameters(scale, np.uint8(zero_point))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, *parameters), *parameters)

    def stored(self, array: Array, scale: float, zero_point: int) -> str:
        """A constant of stored integers, dequantized."""
        return self.node("DequantizeLinear", self._added(array), *self._parameters(scale, array.dtype.type(zero_point)))

    def _parameters(self, scale: float, zero_point: Any) -> list[str]:
        return [self.constant(np.array(scale)), self._added(np.array(zero_point))]

    def _added(self, array: Array) -> str:
        name = f"stored{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name


SPECIAL = [(1, 1, 1, 0, 0, 0), (1, 0.5, 2, 128, 128, 128), (0.5, 1, 1, 77, 20, 55), (1, 3, 2, 128, 0, 128),
           (1 / 3, 1, 2 / 3, 0, 128, 3), (5 / 6, 1, 1, 128, 128, 0)]  # fmt: skip
"""The scales of two terms and of their sum, in quarters, and the zero points."""


def _sums_are_predicted(graph: Graph, ports: Mapping[str, tuple[float, int]], outputs: list[str], path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 8, 8)) for name in ports]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    proto = helper.make_graph(graph.nodes, "g", given, made, graph.weights)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = quantize(load_onnx_model(model, {}), [], Options(target="openvino"))
    export_program(result.propagated, path / "m.onnx")
    file, predict = OpenVinoFile(path / "m.onnx"), Interpreter(result.quantized)
    for _ in range(2):
        sample = {
            name: ((graph.random.integers(0, 256, (1, 8, 8, 8)) - zero_point) * scale).astype(np.float32)
            for name, (scale, zero_point) in ports.items()
        }
        np.testing.assert_array_equal(file(sample)[outputs[0]], predict(sample)[outputs[0]])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shape", [(8, 8, 8), (8, 1, 1), (1, 1, 8), (8, 8, 1), ()])
@pytest.mark.parametrize("convolved", [True, False])
@pytest.mark.parametrize("scales", SPECIAL)
def test_sums_with_constants_are_predicted(
    scales: tuple[float, ...], convolved: bool, shape: tuple[int, ...], first: bool, tmp_path: Path
) -> None:
    one, two, made, before, other, after = scales
    graph = Graph()
    value = _convolved(graph, "x", one / 4, int(before)) if convolved else graph.cast("x", one / 4, int(before))
    constant = graph.stored(graph.random.integers(0, 256, shape).astype(np.uint8), two / 4, int(other))
    total = graph.node("Add", *((value, constant) if first else (constant, value)))
    ports = {"x": (2.0**-5, 7) if convolved else (one / 4, int(before))}
    _sums_are_predicted(graph, ports, [graph.cast(total, made / 4, int(after))], tmp_path)


@pytest.mark.parametrize("other_readers", ["", "first", "second", "both"])
@pytest.mark.parametrize("second", ["value", "convolution"])
@pytest.mark.parametrize("scales", SPECIAL)
def test_sums_of_convolutions_are_predicted(
    scales: tuple[float, ...], second: str, other_readers: str, tmp_path: Path
) -> None:
    """A sum is in a convolution only if the other term's readers come before it."""
    one, two, made, before, other, after = scales
    graph = Graph()
    terms = [_convolved(graph, "x", one / 4, int(before))]
    if second == "value":
        terms.append(graph.cast("z", two / 4, int(other)))
    else:
        terms.append(_convolved(graph, "z", two / 4, int(other)))
    outputs = [graph.cast(graph.node("Add", *terms), made / 4, int(after))]
    for term, ports, name in zip(
        terms, ((one / 4, int(before)), (two / 4, int(other))), ("first", "second"), strict=True
    ):
        if other_readers in (name, "both"):
            outputs.append(graph.cast(graph.node("MaxPool", term, kernel_shape=[2, 2]), *ports))
    ports = {"x": (2.0**-5, 7), "z": (two / 4, int(other)) if second == "value" else (2.0**-5, 7)}
    _sums_are_predicted(graph, ports, outputs, tmp_path)
