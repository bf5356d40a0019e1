"""LSTMs and GRUs as ONNX models, with a long memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from zeropoint.ir.tensors import Array

STEPS, SIZE, HIDDEN = 20, 5, 8
GATES = {"GRU": 3, "LSTM": 4}


def recurrent(kind: str, steps: int = STEPS, **attributes: Any) -> onnx.ModelProto:
    """A layer with a long memory, from zeros; its last state is the output."""
    random = np.random.default_rng(3)
    rows = GATES[kind] * HIDDEN
    bias = np.zeros((1, 2 * rows), np.float32)
    # Gates that keep the state: the forget gate of an LSTM, the update gate of a GRU.
    kept = slice(2 * HIDDEN, 3 * HIDDEN) if kind == "LSTM" else slice(0, HIDDEN)
    bias[0, kept] = 3
    arrays = {
        "W": random.normal(0, 0.6, (1, rows, SIZE)).astype(np.float32),
        "R": random.normal(0, 0.4, (1, rows, HIDDEN)).astype(np.float32),
        "B": bias,
    }
    node = helper.make_node(kind, ["x", *arrays], ["", "y"], name=kind.lower(), hidden_size=HIDDEN, **attributes)
    return model([node], (steps, 1, SIZE), (1, 1, HIDDEN), arrays)


def model(nodes: list[Any], given: tuple[int, ...], made: tuple[int, ...], arrays: dict[str, Array]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", given), ("y", made)))
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], initializers), opset_imports=opsets, ir_version=8)
