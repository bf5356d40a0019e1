"""OpenVINO reads exported QDQ models, its integer kernels take them, and profile `openvino` predicts every value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from digits import images, quantized_digits
from export.openvino_graphs import SHAPE, Graph, kernels
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.numerics.affine import QuantizeBehaviour, quantize
from zeropoint.pipeline import Options
from zeropoint.pipeline import quantize as quantize_program

CONTRACTIONS = {"Convolution", "FullyConnected"}
Build = Callable[[Graph], str]


def _residual(graph: Graph) -> str:
    stem = graph.node("Relu", graph.convolution("x"))
    return graph.node("Add", stem, graph.convolution(graph.node("Relu", graph.convolution(stem)), 0.1))


def _residual_of_a_relu(graph: Graph) -> str:
    stem = graph.convolution("x")
    return graph.node("Relu", graph.node("Add", graph.convolution(stem), stem))


def _two_branches(graph: Graph) -> str:
    return graph.node("Add", graph.convolution("x"), graph.convolution("x", 0.05))


def _a_chain(graph: Graph) -> str:
    first = graph.node("Add", graph.convolution("x"), "x")
    return graph.node("Add", graph.convolution(first), first)


def _pooled(graph: Graph) -> str:
    pooled = graph.node("MaxPool", graph.convolution("x"), kernel_shape=[3, 3], pads=[1] * 4)
    return graph.node("Add", pooled, graph.convolution("x", 0.05))


def _of_sums(graph: Graph) -> str:
    first = graph.node("Add", graph.convolution("x"), "x")
    second = graph.node("Add", graph.convolution("x", 0.1), "x")
    return graph.node("Add", first, second)


FUSED = {"residual", "two_branches", "pooled"}
"""The models with a sum in a convolution; the others add the input of the convolution, or sums."""
MODELS: dict[str, Build] = {
    build.__name__[1:]: build for build in (_residual, _residual_of_a_relu, _two_branches, _a_chain, _pooled, _of_sums)
}


def test_the_demo_runs_in_integer_kernels_and_every_value_is_predicted(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    result = quantized_digits("openvino")
    export_program(result.propagated, tmp_path / "digits.onnx")
    file = OpenVinoFile(tmp_path / "digits.onnx")
    found = [implementation for kind, implementation, _ in kernels(file) if kind in CONTRACTIONS]
    assert len(found) == 8
    assert all(implementation.endswith("I8") for implementation in found), found
    predict = Interpreter(result.quantized)
    for sample in images("test", 12):
        np.testing.assert_array_equal(file(sample)["probabilities"], predict(sample)["probabilities"])


@pytest.mark.parametrize("name", MODELS)
def test_sums_that_convolutions_compute_are_predicted(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    graph = Graph()
    output = MODELS[name](graph)
    samples = [{"x": graph.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(8)]
    result = quantize_program(load_onnx_model(graph.model(output), {}), samples[:4], Options(target="openvino"))
    export_program(result.propagated, tmp_path / "sum.onnx")
    file = OpenVinoFile(tmp_path / "sum.onnx")
    predict, lowered = Interpreter(result.quantized), Interpreter(result.integer)
    fused = any(kind == "Convolution" and "add" in names for kind, _, names in kernels(file))
    assert fused == (name in FUSED)
    for sample in samples:
        expected = predict(sample)[output]
        # The same integers: OpenVINO multiplies those of zero point 0 by a scale that may differ in its last bit.
        np.testing.assert_allclose(file(sample)[output], expected, rtol=1e-6)
        np.testing.assert_array_equal(lowered(sample)[output], expected)


@pytest.mark.parametrize("sums", ["product", "convolution", "convolution_and_sum", "with_bias"])
def test_sums_without_a_bias_are_rounded_in_steps_of_their_scales(sums: str, tmp_path: Path) -> None:
    """With weights of 1/4 and equal scales, as in a linear resize, an eighth of the results lies between two steps."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    graph, scale = Graph(), np.float32(0.014918882)
    names = [f"p{index}" for index in range(8)]  # a point for each cast: OpenVINO's casts that share one are fused
    graph.weights += [numpy_helper.from_array(np.uint8(115).reshape(()), name) for name in names]
    points = iter(names)
    steps, wide = graph.constant(scale.reshape(())), graph.constant(2 * scale.reshape(()))

    def stored(value: str, step: str) -> str:
        quantized = graph.node("QuantizeLinear", value, step, next(points))
        return graph.node("DequantizeLinear", quantized, step, next(points))

    shape = (8, 8) if sums == "product" else (8, 8, 1, 1)
    graph.weights.append(numpy_helper.from_array(graph.random.integers(-3, 4, shape).astype(np.int8), "w"))
    graph.weights.append(numpy_helper.from_array(np.zeros(8, np.int8), "wz"))
    axis = len(shape) == 2
    weight = graph.node("DequantizeLinear", "w", graph.constant(np.full(8, 0.25)), "wz", axis=int(axis))
    bias = [graph.constant(np.arange(8) * scale)] if sums == "with_bias" else []
    given = stored("x", steps)
    value = graph.node("MatMul" if axis else "Conv", given, weight, *bias)
    result = stored(value, steps)
    if sums == "convolution_and_sum":
        result = stored(graph.node("Add", result, stored(graph.node("Neg", "x"), steps)), wide)
    size = (64, 8) if axis else SHAPE
    model = graph.model(result)
    for port in (*model.graph.input, *model.graph.output):
        port.CopyFrom(helper.make_tensor_value_info(port.name, TensorProto.FLOAT, size))
    made = quantize_program(load_onnx_model(model, {}), None, Options(target="openvino"))
    export_program(made.propagated, tmp_path / "sums.onnx")
    file = OpenVinoFile(tmp_path / "sums.onnx")
    for _ in range(3):
        sample = {"x": graph.random.normal(0, 1, size).astype(np.float32)}
        expected = Interpreter(made.quantized)(sample)[result]
        np.testing.assert_array_equal(file(sample)[result], expected)
        np.testing.assert_array_equal(Interpreter(made.integer)(sample)[result], expected)


def test_an_input_is_quantized_by_the_ends_of_its_range(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(5)
    for _ in range(6):
        scale, zero_point = np.float32(np.exp(random.uniform(-6, 1))), int(random.integers(0, 256))
        steps = random.integers(-10, 260, SHAPE) + 0.5 - zero_point
        near = (steps * np.float64(scale)).astype(np.float32)
        near = (near.view(np.int32) + random.integers(-3, 4, SHAPE, dtype=np.int32)).view(np.float32)
        graph = Graph()
        graph.weights = [
            numpy_helper.from_array(np.asarray(array), name)
            for name, array in (("s", scale), ("z", np.uint8(zero_point)), ("p", np.uint8(zero_point)))
        ]
        moved = graph.node("Transpose", graph.node("QuantizeLinear", "x", "s", "z"), perm=[0, 1, 3, 2])
        result = graph.node("DequantizeLinear", moved, "s", "p")
        onnx.save(graph.model(result), tmp_path / "quantize.onnx")
        found = OpenVinoFile(tmp_path / "quantize.onnx")({"x": near})[result].transpose(0, 1, 3, 2)
        stored = quantize(near, scale, zero_point, 0, 255, behaviour=QuantizeBehaviour.RNE_BY_RANGE)
        np.testing.assert_array_equal(np.rint(found / scale) + zero_point, stored)


def test_a_file_that_openvino_refuses_is_an_error_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ExportError, match=r"broken\.onnx: found a file that OpenVINO refuses") as caught:
        OpenVinoFile(path)
    assert "\n" not in str(caught.value)


def test_an_input_keeps_its_name_if_openvino_gives_it_more(tmp_path: Path) -> None:
    """OpenVINO merges a reshape to the same shape with the input, which then has the names of both."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    shape = numpy_helper.from_array(np.array([2, 3]), "shape")
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    file = OpenVinoFile(tmp_path / "m.onnx")
    assert (file.inputs, file.outputs) == (("x",), ("y",))
    assert set(file({"x": np.ones((2, 3), np.float32)})) == {"y"}


def test_floats_for_an_integer_input_are_an_error(tmp_path: Path) -> None:
    """OpenVINO itself converts them without scale."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    export_program(quantized_digits("openvino").propagated, tmp_path / "d.onnx", ExportOptions(integer_io=True))
    with pytest.raises(ExportError, match=r"input 'image': found float32, expected uint8; export with io float"):
        OpenVinoFile(tmp_path / "d.onnx")(images("test", 1)[0])
