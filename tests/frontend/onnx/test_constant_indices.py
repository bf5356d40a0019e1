"""Constant indices are counted from the start when a model is read, so that exports have them as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import is_constant
from zeropoint.ir.stablehlo import GatherOp, ScatterOp

CASES: dict[str, tuple[list[Any], tuple[int, ...] | None, dict[str, int]]] = {
    "GatherElements": ([[0, -1, 1, -4], [3, 2, -2, 0], [-3, 0, 1, 2]], None, {"axis": 1}),
    "GatherND": ([[0, -1], [-3, 2]], None, {}),
    "ScatterElements": ([[0, -1, 1, -4], [3, 2, -3, 0], [-3, 0, 2, 3]], (3, 4), {"axis": 1}),
    "ScatterND": ([[0, -1], [-3, 2]], (2,), {}),
}


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_negative_constant_indices_are_constants_of_the_program(op: str, dtype: type[np.generic]) -> None:
    if dtype is np.int32 and op.endswith("ND"):
        pytest.skip("ONNX has only i64 here")
    indices, updates, attributes = CASES[op]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])]
    if updates is not None:
        ports.append(helper.make_tensor_value_info("u", TensorProto.FLOAT, updates))
    node = helper.make_node(op, ["x", "i", *(port.name for port in ports[1:])], ["y"], **attributes)
    held = [numpy_helper.from_array(np.array(indices, dtype), "i")]
    result = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph([node], "g", ports, [result], held)
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    )
    random = np.random.default_rng(0)
    inputs = {"x": random.normal(size=(3, 4)).astype(np.float32)}
    if updates is not None:
        inputs["u"] = random.normal(size=updates).astype(np.float32)
    program = load_onnx_model(model, {})
    (made,) = [one for one in program.entry.ops if isinstance(one, GatherOp | ScatterOp)]
    assert is_constant(made.start_indices if isinstance(made, GatherOp) else made.scatter_indices)
    np.testing.assert_array_equal(Interpreter(program)(inputs)["y"], ReferenceEvaluator(model).run(None, inputs)[0])
