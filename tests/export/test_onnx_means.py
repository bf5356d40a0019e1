"""Means that onnxruntime's kernel refuses when the file is run are refused when it is written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oracle.qdq import optimized
from zeropoint.export import ExportError
from zeropoint.export.onnx.model import onnx_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, Quantization, quantize


def mean(scale: float, target: str) -> Quantization:
    """A mean of 16 numbers with steps of 1/32, and a result of this scale."""
    arrays = {"s": np.float32(1 / 32), "z": np.uint8(128), "t": np.float32(scale), "p": np.uint8(128)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "t", "p"], ["d"]),
        helper.make_node("DequantizeLinear", ["d", "t", "p"], ["y"]),
    ]
    ports = {"x": (1, 4, 4, 4), "y": (1, 4, 1, 1)}
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", typed[:1], typed[1:], held)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return quantize(load_onnx_model(model, {}), [], Options(target=target))


def test_a_mean_with_few_steps_per_term_is_predicted() -> None:
    made = mean(1 / 32 / 16 / 200, "onnxruntime")
    sample = {"x": np.random.default_rng(0).normal(0, 0.1, (1, 4, 4, 4)).astype(np.float32)}
    (found,) = optimized(onnx_model(made.propagated)).run(sample)
    np.testing.assert_array_equal(found, Interpreter(made.quantized)(sample)["y"])


@pytest.mark.parametrize("qoperators", [False, True])
def test_a_mean_with_too_many_steps_per_term_is_refused(*, qoperators: bool) -> None:
    with pytest.raises(ExportError, match="found 300 steps of the mean per step of a term, expected fewer than 256"):
        onnx_model(mean(1 / 32 / 16 / 300, "onnxruntime").propagated, qoperators=qoperators)
    onnx_model(mean(1 / 32 / 16 / 300, "openvino").propagated)
