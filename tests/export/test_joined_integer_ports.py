"""Stored integers at ports that are concatenated or have a scale per channel: quantized without data, and exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert import interpreter
from onnx import ModelProto, load

import zeropoint as zp
from export.quantized_graphs import Graph, is_predicted
from zeropoint.ir.tensors import Array

DTYPES = (np.uint8, np.int8)
SHAPE = (1, 2, 6, 6)
SCALES = (0.3, 0.2, 0.35)


def middle(dtype: type[np.integer]) -> int:
    return int(np.iinfo(dtype).min) + 125


def convolution(graph: Graph, value: str, inputs: int) -> str:
    weights = graph.stored((3, inputs, 3, 3), (0.01, 0), np.int8)
    return graph.node("Conv", value, weights, pads=[1] * 4)


def joined_inputs(dtype: type[np.integer]) -> tuple[Graph, ModelProto]:
    """A convolution of the dequantized concatenation of two inputs."""
    graph, kind = Graph(), (0.02, middle(dtype))
    for _ in range(2):
        graph.stored_input(SHAPE, kind, dtype)
    graph.nodes.clear()
    value = graph.dequantized(graph.node("Concat", "x0", "x1", axis=1), kind, dtype)
    output = graph.stored_output(convolution(graph, value, 4), (0.3, middle(dtype) - 3), dtype)
    return graph, graph.model_of([output])


def joined_outputs(dtype: type[np.integer]) -> tuple[Graph, ModelProto]:
    """A concatenation of the integers of two convolutions."""
    graph = Graph()
    value = graph.stored_input(SHAPE, (0.02, middle(dtype)), dtype)
    kind = (0.3, middle(dtype) - 3)
    results = [graph.stored_output(convolution(graph, value, 2), kind, dtype) for _ in range(2)]
    output = graph.node("Concat", *results, axis=1)
    graph.integer_ports[output] = dtype
    return graph, graph.model_of([output])


def scaled_channels(dtype: type[np.integer]) -> tuple[Graph, ModelProto]:
    """A convolution whose input and result have a scale and a zero point per channel."""
    graph, zero = Graph(), middle(dtype)
    value = graph.stored_input(SHAPE, ((0.02, 0.03), (zero, zero)), dtype)
    output = graph.stored_output(convolution(graph, value, 2), (SCALES, (zero, zero + 1, zero - 4)), dtype)
    return graph, graph.model_of([output])


NETWORKS = {make.__name__: make for make in (joined_inputs, joined_outputs, scaled_channels)}


def theirs(model: bytes, sample: dict[str, Array]) -> Array:
    """onnxruntime's result. Its optimized kernels refuse a result with a scale per channel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return np.asarray(onnxruntime.InferenceSession(model, options).run(None, sample)[0])


@pytest.mark.parametrize("target", ["cpu", "onnxruntime"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_they_need_no_data(dtype: type[np.integer], name: str, target: str) -> None:
    """There was no range for the convolution."""
    graph, model = NETWORKS[name](dtype)
    program = zp.quantize(model, target=target)
    native = program.native()
    for _ in range(4):
        sample = graph.sample()
        expected = theirs(model.SerializeToString(), sample)
        (found,) = program(**sample).values()
        assert found.dtype == dtype
        np.testing.assert_array_equal(next(iter(native(**sample).values())), found)
        assert np.abs(found.astype(int) - expected).max() <= (1 if target == "cpu" else 0)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_onnx_file_keeps_the_ports(dtype: type[np.integer], name: str, tmp_path: Path) -> None:
    graph, model = NETWORKS[name](dtype)
    program, path = zp.quantize(model, target="onnxruntime"), tmp_path / "m.onnx"
    program.export(path)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")  # else i8 activations are floats on x64
    session = onnxruntime.InferenceSession(path, options)
    for _ in range(4):
        sample = graph.sample()
        (expected,) = program(**sample).values()
        (found,) = session.run(None, sample)
        assert np.asarray(found).dtype == dtype
        np.testing.assert_array_equal(found, expected)
    again = tmp_path / "again.onnx"
    zp.quantize(path, target="onnxruntime").export(again)
    # The names of casts with a scale per channel may differ.
    kinds = ([node.op_type for node in load(file).graph.node] for file in (path, again))
    assert len(set(map(tuple, kinds))) == 1


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tflite_file_keeps_the_ports(dtype: type[np.integer], name: str, tmp_path: Path) -> None:
    graph, model = NETWORKS[name](dtype)
    program, path = zp.quantize(model, target="litert"), tmp_path / "m.tflite"
    program.export(path, layout="model")
    kinds = interpreter.OpResolverType.BUILTIN_REF
    run = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds).get_signature_runner()
    for _ in range(4):
        sample = graph.sample()
        (expected,), (found,) = program(**sample).values(), run(**sample).values()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_value_is_an_output_as_integers_and_as_floats(dtype: type[np.integer], tmp_path: Path) -> None:
    """The dequantization in the file read a name that the integers no longer had."""
    graph, kind = Graph(), (0.3, middle(dtype))
    value = graph.stored_input(SHAPE, (0.02, middle(dtype)), dtype)
    stored = graph.stored_output(convolution(graph, value, 2), kind, dtype)
    program = zp.quantize(graph.model_of([stored, graph.dequantized(stored, kind, dtype)]), target="onnxruntime")
    program.export(tmp_path / "m.onnx")
    sample = graph.sample()
    found = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, sample)
    for array, expected in zip(found, program(**sample).values(), strict=True):
        np.testing.assert_array_equal(np.asarray(array), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_openvino_has_the_predicted_integers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="runs files in OpenVINO")
    graph, model = NETWORKS[name](np.uint8)
    is_predicted(graph, [port.name for port in model.graph.output], tmp_path)
