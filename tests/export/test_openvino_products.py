"""Products of matrices that follow each other, in OpenVINO on one thread: every value is predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from export.openvino_graphs import Graph
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

SIZES = (16, 24, 10)
"""Of the values between the products. OpenVINO fuses products of at most 256 terms."""
BIASES = {"none": (None, None), "zeros": (0.0, 0.0), "only the first": (1.0, None), "only the second": (None, 1.0)}


def _model(graph: Graph, biases: tuple[float | None, float | None]) -> onnx.ModelProto:
    value = "x"
    for terms, outputs, spread in zip(SIZES, SIZES[1:], biases, strict=False):
        weights = graph.constant(graph.random.normal(0, 0.3, (terms, outputs)))
        bias = [] if spread is None else [graph.constant(graph.random.normal(0, 1, outputs) * spread)]
        value = graph.node("Gemm" if bias else "MatMul", value, weights, *bias)
    model = graph.model(value)
    for port, size in zip((*model.graph.input, *model.graph.output), (SIZES[0], SIZES[-1]), strict=True):
        port.CopyFrom(helper.make_tensor_value_info(port.name, TensorProto.FLOAT, (2, size)))
    return model


@pytest.mark.parametrize("biases", BIASES)
def test_products_without_a_bias_are_predicted(biases: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    graph = Graph()
    program = load_onnx_model(_model(graph, BIASES[biases]), {})
    samples = [{"x": graph.random.normal(0, 1, (2, SIZES[0])).astype(np.float32)} for _ in range(8)]
    result = quantize(program, samples[:4], Options(target="openvino"))
    export_program(result.propagated, tmp_path / "products.onnx")
    file, predict = OpenVinoFile(tmp_path / "products.onnx"), Interpreter(result.quantized)
    for sample in samples:
        for name, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)


def test_the_file_imported_again_is_the_same_program(tmp_path: Path) -> None:
    graph = Graph()
    program = load_onnx_model(_model(graph, BIASES["none"]), {})
    samples = [{"x": graph.random.normal(0, 1, (2, SIZES[0])).astype(np.float32)} for _ in range(4)]
    result = quantize(program, samples, Options(target="openvino"))
    export_program(result.propagated, tmp_path / "products.onnx")
    again = quantize(load_onnx_model(onnx.load(tmp_path / "products.onnx"), {}), [], Options(target="openvino"))
    for sample in samples:
        for ours, theirs in zip(
            Interpreter(result.quantized)(sample).values(), Interpreter(again.quantized)(sample).values(), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
