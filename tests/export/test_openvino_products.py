"""Products of matrices that follow each other, in OpenVINO on one thread: every value is predicted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from export.openvino_graphs import Graph
from zeropoint.codegen.runtime.native import NativeProgram
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


def _rows(sizes: tuple[int, ...], *, relu: bool, seed: int) -> onnx.ModelProto:
    """Products with a bias of 20,000 rows, of which some values are near the middle of two results."""
    graph, value = Graph(), "x"
    graph.random = np.random.default_rng(seed)
    for terms, outputs in pairwise(sizes):
        weights = graph.constant(graph.random.normal(0, 0.2, (terms, outputs)))
        value = graph.node("Gemm", value, weights, graph.constant(graph.random.normal(0, 0.5, outputs)))
        value = graph.node("Relu", value) if relu and outputs != sizes[-1] else value
    model = graph.model(value)
    for port, size in zip((*model.graph.input, *model.graph.output), (sizes[0], sizes[-1]), strict=True):
        port.CopyFrom(helper.make_tensor_value_info(port.name, TensorProto.FLOAT, (20000, size)))
    return model


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("sizes", [(32, 48), (32, 64, 32)], ids=["one", "chain"])
def test_values_near_the_middle_of_two_results(sizes: tuple[int, ...], relu: bool, tmp_path: Path) -> None:
    """Also those of the file imported again, in which a batch of one is around each product of a chain."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    options = Options(target="openvino-vnni", effort="none")
    for seed in range(3):
        sample = {"x": np.random.default_rng(seed).normal(0, 1, (20000, sizes[0])).astype(np.float32)}
        result = quantize(load_onnx_model(_rows(sizes, relu=relu, seed=seed), {}), [sample], options)
        export_program(result.propagated, tmp_path / "m.onnx")
        (found,) = OpenVinoFile(tmp_path / "m.onnx")(sample).values()
        again = quantize(load_onnx_model(onnx.load(tmp_path / "m.onnx"), {}), [], options)
        for program in (result.integer, again.integer):
            (expected,) = NativeProgram(program)(sample).values()
            np.testing.assert_array_equal(found, expected)
