"""Inputs and outputs of quantized ONNX files that are integers: they become real numbers, and kernels stay integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.ir.tensors import Array

RNG = np.random.default_rng(3)
SCALES = {"x": 0.02, "y": 0.05}
WEIGHTS: dict[str, Array] = {
    "w": RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
    "w_scale": np.array(0.01, np.float32),
    "w_zero": np.array(0, np.int8),
    "x_scale": np.array(SCALES["x"], np.float32),
    "y_scale": np.array(SCALES["y"], np.float32),
}


def file_of(nodes: list[NodeProto], kinds: tuple[int, int], points: tuple[int, int]) -> ModelProto:
    """A model from `x` to `y`, with zero points `x_zero` and `y_zero` of these element types."""
    arrays = dict(WEIGHTS)
    for name, kind, point in zip("xy", kinds, points, strict=True):
        integer = kind if kind != TensorProto.FLOAT else TensorProto.UINT8
        arrays[f"{name}_zero"] = np.array(point, helper.tensor_dtype_to_np_dtype(integer))
    ports = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip("xy", kinds, ([1, 3, 8, 8], [1, 4, 6, 6]), strict=True)
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "ports", ports[:1], ports[1:], constants)
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def casts(x: str, y: str) -> list[NodeProto]:
    """A convolution between casts, of the integers `x` to the integers `y`."""
    return [
        helper.make_node("DequantizeLinear", [x, "x_scale", "x_zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"]),
        helper.make_node("Conv", ["x_real", "w_real"], ["y_real"]),
        helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero"], [y]),
    ]


QLINEAR = [
    helper.make_node(
        "QLinearConv", ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"], ["y"], "conv"
    )
]
U8, I8, F32 = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT
READ = helper.make_node("DequantizeLinear", ["y_stored", "y_scale", "y_zero"], ["y"])
ROUNDED = helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_stored"])


@pytest.mark.parametrize(
    ("nodes", "kinds", "points"),
    [
        (casts("x", "y"), (U8, U8), (120, 100)),
        (casts("x", "y"), (I8, I8), (-7, 0)),
        ([*casts("x", "y_stored"), READ], (U8, F32), (120, 100)),
        ([ROUNDED, *casts("x_stored", "y")], (F32, U8), (120, 100)),
        (QLINEAR, (U8, U8), (120, 100)),
    ],
    ids=["u8", "i8", "integer input", "integer output", "operator"],
)
def test_a_file_with_integer_ports_is_integers_throughout(
    nodes: list[NodeProto], kinds: tuple[int, int], points: tuple[int, int]
) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    model = file_of(nodes, kinds, points)
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    program = zp.quantize(model, target="onnxruntime")
    assert "0 float ops" in str(program)
    real = [(RNG.integers(-100, 101, (1, 3, 8, 8)) * np.float32(SCALES["x"])).astype(np.float32) for _ in range(4)]
    for x in real:
        found = program(x=x)["y"]
        stored = np.rint(x / np.float32(SCALES["x"])) + points[0]
        given = x if kinds[0] == F32 else stored.astype(helper.tensor_dtype_to_np_dtype(kinds[0]))
        (wanted,) = session.run(None, {"x": given})
        if kinds[1] != F32:
            wanted = (wanted.astype(np.float32) - points[1]) * np.float32(SCALES["y"])
        np.testing.assert_array_equal(found, wanted)


def test_with_integer_ports_asked_for_the_program_has_them() -> None:
    program = zp.quantize(file_of(casts("x", "y"), (I8, I8), (-7, 0)), target="onnxruntime", io="integer")
    assert [str(port.type) for port in (*program.inputs, *program.outputs)] == [
        "tensor<1x3x8x8xi8>",
        "tensor<1x4x6x6xi8>",
    ]


def test_pixels_of_a_network_that_is_not_quantized_stay_integers() -> None:
    """Its DequantizeLinear scales pixels."""
    nodes = casts("x", "unused")[:3]
    nodes[2].output[0] = "y"
    program = zp.load(file_of(nodes, (U8, F32), (0, 0)))
    assert [str(port.type) for port in program.inputs] == ["tensor<1x3x8x8xui8>"]
