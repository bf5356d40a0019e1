"""Channels move to the end through reshapes, so that a file has the transposes of its model and no more."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export.convolutional_networks import SIZES, network
from oracle.litert import evaluate, operators
from zeropoint.export.litert.model import litert_model
from zeropoint.interp import Interpreter

Nodes = list[tuple[str, list[str], str, dict[str, object]]]


MIDDLES: dict[str, tuple[Nodes, int, int]] = {
    "pixel_shuffle": ([("DepthToSpace", ["a"], "b", {"blocksize": 2, "mode": "CRD"})], 2, 1),
    "depth_to_space": ([("DepthToSpace", ["a"], "b", {"blocksize": 2, "mode": "DCR"})], 2, 1),
    "space_to_depth": ([("SpaceToDepth", ["a"], "b", {"blocksize": 2})], 32, 1),
    "nearest": ([("Resize", ["a", "", "scales"], "b", {"mode": "nearest"})], 8, 0),
    "channel_shuffle": (
        [
            ("Reshape", ["a", "split"], "s", {}),
            ("Transpose", ["s"], "t", {"perm": [0, 2, 1, 3, 4]}),
            ("Reshape", ["t", "joined"], "b", {}),
        ],
        8,
        1,
    ),
}


@pytest.mark.parametrize("name", MIDDLES)
def test_a_file_has_no_more_transposes_than_its_model(name: str) -> None:
    middle, channels, transposes = MIDDLES[name]
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(0, 0.5, (8, 3, 1, 1)).astype(np.float32),
        "v": random.normal(0, 0.5, (5, channels, 1, 1)).astype(np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "split": np.array([1, 2, 4, 4, 6]),
        "joined": np.array([1, 8, 4, 6]),
    }
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"])]
    nodes += [helper.make_node(op, inputs, [output], **attributes) for op, inputs, output, attributes in middle]
    nodes.append(helper.make_node("Conv", ["b", "v"], ["y"]))
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 6]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, None, None]),
    ]
    used = {entry for node in nodes for entry in node.input}
    held = [numpy_helper.from_array(array, entry) for entry, array in constants.items() if entry in used]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    samples = [{"x": random.normal(0, 1, (1, 3, 4, 6)).astype(np.float32)} for _ in range(3)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    content = litert_model(result.propagated)
    assert operators(content).count("TRANSPOSE") == transposes
    for sample in samples:
        (found,) = evaluate(content, sample["x"].transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), Interpreter(result.quantized)(sample)["y"])


@pytest.mark.parametrize("seed", range(16))
def test_a_random_convolutional_network_has_no_more_transposes_in_the_file(seed: int) -> None:
    model, transposes = network(seed)
    random = np.random.default_rng(seed)
    samples = [{"x": random.normal(0, 1, SIZES).astype(np.float32)} for _ in range(2)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    content = litert_model(result.propagated)
    assert operators(content).count("TRANSPOSE") <= transposes
    (found,) = evaluate(content, samples[0]["x"].transpose(0, 2, 3, 1))
    (expected,) = Interpreter(result.quantized)(samples[0]).values()
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2) if found.ndim == 4 else found, expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_fully_connected_layer_on_an_image_takes_the_order_of_its_channels(*, transposed: bool) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.2, (60, 4)).astype(np.float32)
    held = [
        numpy_helper.from_array(random.normal(0, 0.5, (5, 3, 2, 3)).astype(np.float32), "w"),
        numpy_helper.from_array(weights.T.copy() if transposed else weights, "v"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "v"], ["y"], transB=int(transposed)),
    ]
    ports = [
        helper.make_tensor_value_info(*port) for port in (("x", TensorProto.FLOAT, [2, 3, 5, 5]), ("y", 1, [2, 4]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    samples = [{"x": random.normal(0, 1, (2, 3, 5, 5)).astype(np.float32)} for _ in range(3)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    content = litert_model(result.propagated)
    assert operators(content) == ["QUANTIZE", "CONV_2D", "RESHAPE", "FULLY_CONNECTED", "DEQUANTIZE"]
    for sample in samples:
        (found,) = evaluate(content, sample["x"].transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found, Interpreter(result.quantized)(sample)["y"])


def test_ops_before_the_first_convolution_take_the_input_channels_last() -> None:
    random = np.random.default_rng(0)
    held = [
        numpy_helper.from_array(random.normal(0, 1, (3, 1, 1)).astype(np.float32), "m"),
        numpy_helper.from_array(random.normal(0, 0.5, (4, 3, 2, 3)).astype(np.float32), "w"),
    ]
    nodes = [helper.make_node("Sub", ["x", "m"], ["a"]), helper.make_node("Conv", ["a", "w"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", [1, 3, 5, 5]), ("y", [1, 4, 4, 3]))]  # fmt: skip
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports[:1], ports[1:], held),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    samples = [{"x": random.normal(0, 1, (1, 3, 5, 5)).astype(np.float32)} for _ in range(2)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    assert operators(litert_model(result.propagated)) == ["QUANTIZE", "SUB", "CONV_2D", "DEQUANTIZE"]


def test_a_transpose_that_rounds_a_float_is_not_dropped_with_its_move() -> None:
    """A softplus is a float op here, and the transpose after it is the kernel that rounds to 8 bits."""
    random = np.random.default_rng(0)
    held = [numpy_helper.from_array(random.normal(0, 0.5, (5, 3, 1)).astype(np.float32), "w")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Softplus", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 1]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", [1, 3, 7]), ("y", [1, 7, 5]))]  # fmt: skip
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    samples = [{"x": random.normal(0, 1, (1, 3, 7)).astype(np.float32)} for _ in range(3)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    (found,) = evaluate(litert_model(result.propagated), samples[0]["x"].transpose(0, 2, 1))
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(samples[0])["y"])
