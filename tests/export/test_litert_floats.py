"""Float functions as the operators that LiteRT has for them, which its own quantizer and delegates expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import zeropoint as zp
from oracle.litert import evaluate, evaluate_by_default, operators
from zeropoint.export.litert.model import litert_model
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program

BETWEEN = "stablehlo.clamp %l, %x, %h : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>"
AT_LEAST = "stablehlo.maximum %x, %b : tensor<8xf32>"


def text(op: str, low: float, high: float) -> str:
    return f"""func.func @main(%x: tensor<8xf32> {{zeropoint.name = "x"}})
    -> (tensor<8xf32> {{zeropoint.name = "y"}}) {{
  %l = stablehlo.constant dense<{low:e}> : tensor<f32>
  %h = stablehlo.constant dense<{high:e}> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %l, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %y = {op}
  return %y : tensor<8xf32>
}}"""


@pytest.mark.parametrize(
    ("op", "low", "high", "expected"),
    [
        (AT_LEAST, 0.0, 0.0, ["RELU"]),
        (AT_LEAST, 0.5, 0.0, ["MAXIMUM"]),
        (BETWEEN, 0.0, 1.0, ["RELU_0_TO_1"]),
        (BETWEEN, 0.0, 6.0, ["RELU6"]),
        (BETWEEN, -1.0, 1.0, ["RELU_N1_TO_1"]),
        (BETWEEN, 0.0, 0.3, ["MAXIMUM", "MINIMUM"]),
    ],
)
def test_clamps_are_the_activation_functions_that_litert_has(
    op: str, low: float, high: float, expected: list[str]
) -> None:
    program = parse_program(text(op, low, high))
    content = litert_model(program)
    assert operators(content) == expected
    x = np.array([-7, -1, -0.25, 0, 0.2, 0.75, 5, 7], np.float32)
    for run in (evaluate, evaluate_by_default):
        np.testing.assert_array_equal(run(content, x)[0], Interpreter(program)({"x": x})["y"])


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("Softmax", {"axis": 3}, "SOFTMAX"),
        ("LogSoftmax", {"axis": 3}, "LOG_SOFTMAX"),
        ("HardSwish", {}, "HARD_SWISH"),
        ("LeakyRelu", {"alpha": 0.1}, "LEAKY_RELU"),
        ("GlobalAveragePool", {}, "MEAN"),
    ],
)
def test_a_function_that_a_recipe_keeps_float_is_one_operator(
    op: str, attributes: dict[str, object], expected: str, tmp_path: Path
) -> None:
    shape = [1, 3, 4, 5]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size) for name, size in (("x", shape), ("y", None))
    ]
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    result = zp.quantize(model, None, target="litert", recipe=[{"regex": ".*", "quantize": False}])
    content = result.export(tmp_path / "m.tflite", layout="model")[0].read_bytes()
    assert [name for name in operators(content) if name not in ("TRANSPOSE", "RESHAPE")] == [expected]
    x = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    [wanted] = result(x=x).values()
    for run in (evaluate, evaluate_by_default):
        np.testing.assert_allclose(run(content, x)[0], wanted, rtol=1e-5, atol=1e-6)
