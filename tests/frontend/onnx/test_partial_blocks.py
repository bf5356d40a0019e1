"""Weights in blocks of which the last one is shorter, as ONNX allows: numbers of its reference and of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import zeropoint as zp
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PINNED
from zeropoint.simplify import simplify

COLUMNS, BLOCK = 6, 32
INTEGERS = {"int4": (TensorProto.INT4, -8, 8), "uint4": (TensorProto.UINT4, 0, 16), "int8": (TensorProto.INT8, -9, 9)}
SIZES = {64: 32, 80: 16, 40: 8, 20: 0, 70: 0, 75: 0}
"""The elements along the blocks, and those of the blocks of the program's type; 0: it has a scale per channel, or
none."""


def product(dtype: str, rows: int, axis: int, *, points: bool) -> onnx.ModelProto:
    kind, low, high = INTEGERS[dtype]
    random, blocks = np.random.default_rng(0), -(-rows // BLOCK)
    shape, given = ([rows, COLUMNS], [blocks, COLUMNS]) if axis == 0 else ([COLUMNS, rows], [COLUMNS, blocks])
    scales = random.uniform(0.01, 0.03, given).astype(np.float32)
    constants = [
        helper.make_tensor("w", kind, shape, random.integers(low, high, shape).ravel().tolist()),
        numpy_helper.from_array(scales, "s"),
        helper.make_tensor("z", kind, given, random.integers(low, high, given).ravel().tolist()),
    ]
    names = ["w", "s", "z"][: 3 if points else 2]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], axis=axis, block_size=BLOCK),
        helper.make_node("Gemm", ["x", "d"], ["y"], transB=axis),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [3, rows]), ("y", [3, COLUMNS]))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants[: 3 if points else 2])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    return made


@pytest.mark.parametrize("points", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_last_block_may_be_shorter(dtype: str, rows: int, axis: int, points: bool, tmp_path: Path) -> None:
    """They were refused: 'scales of shape [3, 6] and blocks of 32, which do not fill [70, 6]'."""
    runtime = pytest.importorskip("onnxruntime")
    made = product(dtype, rows, axis, points=points)
    onnx.save(made, tmp_path / "m.onnx")
    program = load_model(tmp_path / "m.onnx")
    x = {"x": np.random.default_rng(1).normal(0, 1, (3, rows)).astype(np.float32)}
    found = Interpreter(program)(x)["y"]
    (expected,) = ReferenceEvaluator(made).run(None, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # floats are not rounded
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, x)[0], rtol=1e-5, atol=1e-5)
    pinned = [str(op.attributes[PINNED]) for op in simplify(program).entry.ops if PINNED in op.attributes]
    assert not SIZES[rows] or f":{SIZES[rows]}" in pinned[0]


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "openvino"])
def test_weights_of_blocks_that_no_type_has_are_weights_of_a_channel(target: str) -> None:
    """Their arithmetic was quantized step by step: 29 integer ops of constants before the product."""
    made = product("uint4", 70, 0, points=True)
    data = [{"x": np.random.default_rng(seed).normal(0, 1, (3, 70)).astype(np.float32)} for seed in range(8)]
    program = zp.quantize(made, data, target=target, effort="none")
    kernels = [op.logical_kernel.data for op in program.quantization.propagated.entry.ops if op.name == "quant.region"]
    assert kernels == ["fully_connected"]
    assert zp.compare(made, program, data).outputs[0].sqnr > 35
