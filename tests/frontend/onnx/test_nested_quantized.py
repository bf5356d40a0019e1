"""onnxruntime's operators on packed weights and on integers inside of If and Loop, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from frontend.onnx.models import assert_same_as_onnxruntime, random
from zeropoint.ir.tensors import Array

Writer = Callable[[str, str], list[NodeProto]]
ROWS = 32
RANDOM = np.random.default_rng(11)
SMALL: dict[str, Array] = {
    "xs": np.array(0.03, np.float32),
    "ys": np.array(0.0371, np.float32),
    "xz": np.array(120, np.uint8),
    "ws": np.array(0.02, np.float32),
    "wz": np.array(0, np.int8),
}
PACKED: dict[str, Array] = {
    "w": RANDOM.integers(0, 256, (ROWS, 2, 8)).astype(np.uint8),
    "s": RANDOM.uniform(0.01, 0.1, ROWS * 2).astype(np.float32),
}
STORED: dict[str, Array] = SMALL | {
    "w": RANDOM.integers(-127, 128, (ROWS, ROWS)).astype(np.int8),
    "b": RANDOM.integers(-900, 900, ROWS).astype(np.int32),
}


def packed(value: str, result: str) -> list[NodeProto]:
    given = {"domain": "com.microsoft", "K": ROWS, "N": ROWS, "bits": 4, "block_size": 16}
    return [helper.make_node("MatMulNBits", [value, "w", "s"], [result], **given)]


def product(value: str, result: str) -> list[NodeProto]:
    """Integers that are moved and multiplied, with the same inner names in every graph."""
    inputs = ["turned", "xs", "xz", "w", "ws", "wz", "b", "ys", "xz"]
    return [
        helper.make_node("QuantizeLinear", [value, "xs", "xz"], ["q"]),
        helper.make_node("Transpose", ["q"], ["turned"], perm=[1, 0]),
        helper.make_node("QGemm", inputs, ["p"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["p", "ys", "xz"], ["r"]),
        helper.make_node("Transpose", ["r"], [result], perm=[1, 0]),
    ]


def total(value: str, result: str) -> list[NodeProto]:
    inputs = ["q", "xs", "xz", "q", "xs", "xz", "xs", "xz"]
    return [
        helper.make_node("QuantizeLinear", [value, "xs", "xz"], ["q"]),
        helper.make_node("QLinearAdd", inputs, ["p"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["p", "xs", "xz"], [result]),
    ]


def value_info(name: str, shape: Sequence[int] = (ROWS, ROWS), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def choice(nodes: list[NodeProto], other: list[NodeProto]) -> list[NodeProto]:
    branches = [helper.make_graph(each, "branch", [], [value_info("made")]) for each in (nodes, other)]
    return [
        helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
        helper.make_node("Less", ["t", "zero"], ["negative"]),
        helper.make_node("If", ["negative"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]


def repeated(nodes: list[NodeProto]) -> list[NodeProto]:
    ports = [value_info("i", (), TensorProto.INT64), value_info("c", (), TensorProto.BOOL), value_info("v")]
    kept = helper.make_node("Identity", ["c"], ["d"])
    body = helper.make_graph([kept, *nodes], "body", ports, [value_info("d", (), TensorProto.BOOL), value_info("made")])
    return [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]


@pytest.mark.parametrize(
    ("written", "arrays"), [(packed, PACKED), (product, STORED), (total, SMALL)], ids=["packed", "product", "sum"]
)
@pytest.mark.parametrize("nested", ["if", "loop"])
def test_quantized_operators_inside_of_graphs(
    written: Writer, arrays: dict[str, Array], nested: str, tmp_path: Path
) -> None:
    if nested == "if":
        negated = helper.make_node("Neg", ["x"], ["v"])
        nodes = choice(written("x", "made"), [negated, *written("v", "made")])
    else:
        nodes = repeated(written("v", "made"))
    held = arrays | {"zero": np.float32(0), "n": np.int64(2)}
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "graph", [value_info("x")], [value_info("y")], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    for sign in (1, -1):
        inputs = {"x": sign * abs(random(ROWS, ROWS)) / 4}
        assert_same_as_onnxruntime(proto, tmp_path, inputs, 1e-4)
