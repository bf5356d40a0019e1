"""Products whose weights onnxruntime holds packed."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)
COLUMNS = 24


def packed_model(bits: int, block: int, rows: int, points: str = "", bias: bool = False) -> onnx.ModelProto:
    """A product of [2, rows] with packed random weights; `points` is '', 'integers' or 'floats'."""
    blocks = -(-rows // block)
    size = block * bits // 8
    given = {
        "w": RANDOM.integers(0, 256, (COLUMNS, blocks, size)).astype(np.uint8),
        "s": RANDOM.uniform(0.01, 0.1, COLUMNS * blocks).astype(np.float32),
    }
    if points == "integers":
        given["z"] = RANDOM.integers(0, 256, COLUMNS * -(-blocks * bits // 8)).astype(np.uint8)
    elif points == "floats":
        given["z"] = RANDOM.uniform(5, 9, COLUMNS * blocks).astype(np.float32)
    if bias:
        given["b"] = RANDOM.normal(0, 1, COLUMNS).astype(np.float32)
    inputs = ["x", "w", "s", "z" if points else "", "", "b" if bias else ""]
    node = helper.make_node(
        "MatMulNBits", inputs, ["y"], "packed", domain="com.microsoft", K=rows, N=COLUMNS, bits=bits, block_size=block
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, COLUMNS])],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
