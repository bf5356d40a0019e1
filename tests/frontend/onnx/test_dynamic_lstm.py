"""onnxruntime's LSTM with 8-bit weights, compared with onnxruntime's own and with an LSTM of dequantized weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import zeropoint as zp
from zeropoint.frontend import ModelError
from zeropoint.ir.tensors import Array

STEPS, SIZE, HIDDEN = 7, 5, 4


def recurrent(directions: int, per_row: bool, dtype: type = np.int8) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model, and its weights dequantized: [directions, 4 * hidden, inputs]."""
    random = np.random.default_rng(directions)
    arrays: dict[str, Array] = {"b": random.normal(0, 0.3, (directions, 8 * HIDDEN)).astype(np.float32)}
    real: dict[str, Array] = {"b": arrays["b"]}
    shape = (directions, 4 * HIDDEN) if per_row else (directions,)
    for name, size in (("w", SIZE), ("r", HIDDEN)):
        low = 0 if dtype is np.uint8 else -127
        stored = random.integers(low, low + 255, (directions, size, 4 * HIDDEN)).astype(dtype)
        scale = random.uniform(0.002, 0.006, shape).astype(np.float32)
        point = np.full(shape, 128 if dtype is np.uint8 else 0, dtype)
        arrays |= {f"{name}q": stored, f"{name}s": scale, f"{name}z": point}
        spread = scale.reshape(directions, 1, -1), point.astype(np.float32).reshape(directions, 1, -1)
        real[name] = ((stored.astype(np.float32) - spread[1]) * spread[0]).transpose(0, 2, 1)
    inputs = ["x", "wq", "rq", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    return model("DynamicQuantizeLSTM", inputs, arrays, directions), real


def model(kind: str, inputs: list[str], arrays: dict[str, Array], directions: int) -> onnx.ModelProto:
    direction = "bidirectional" if directions == 2 else "forward"
    domain = "com.microsoft" if kind != "LSTM" else ""
    node = helper.make_node(kind, inputs, ["y"], "lstm", domain=domain, hidden_size=HIDDEN, direction=direction)
    shapes = {"x": [STEPS, 2, SIZE], "y": [STEPS, directions, 2, HIDDEN]}
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
    tensors = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y], tensors), opset_imports=opsets, ir_version=8)


def run(proto: onnx.ModelProto, x: Array) -> Array:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("directions", "per_row", "dtype"), [(1, False, np.int8), (2, True, np.int8), (2, False, np.uint8)]
)
def test_the_weights_are_dequantized(directions: int, per_row: bool, dtype: type) -> None:
    proto, real = recurrent(directions, per_row, dtype)
    x = np.random.default_rng(7).normal(0, 1, (STEPS, 2, SIZE)).astype(np.float32)
    found = zp.load(proto)(x=x)["y"]
    np.testing.assert_allclose(found, run(model("LSTM", ["x", "w", "r", "b"], real, directions), x), atol=1e-5)
    # onnxruntime also rounds inputs and states to 8 bits.
    assert np.abs(found - run(proto, x)).max() < 0.03


def test_a_scale_of_another_shape_is_refused(tmp_path: Path) -> None:
    proto, _ = recurrent(1, False)
    for tensor in proto.graph.initializer:
        if tensor.name == "ws":
            tensor.CopyFrom(numpy_helper.from_array(np.ones((1, 3), np.float32), "ws"))
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"a scale \[1, 3\], expected weights \[directions, inputs, 4 \* hidden\]"):
        zp.load(tmp_path / "model.onnx")
