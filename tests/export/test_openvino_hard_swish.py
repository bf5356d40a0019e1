"""Hard swishes that OpenVINO computes in the convolution before them, with every value predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from export.openvino_graphs import SHAPE, Graph, kernels
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.text import print_program
from zeropoint.pipeline import Options, Quantization, quantize

Build = Callable[[Graph], str]
SAMPLES = np.random.default_rng(5).normal(0, 1.5, (3, *SHAPE)).astype(np.float32)


def hard_swish(graph: Graph, value: str) -> str:
    """x * clamp(x + 3, 0, 6) / 6, as PaddlePaddle's exporter writes it."""
    moved = graph.node("Add", value, graph.constant(np.full((1, 1, 1, 1), 3)))
    factor = graph.node("Clip", moved, graph.constant(np.array(0)), graph.constant(np.array(6)))
    return graph.node("Div", graph.node("Mul", value, factor), graph.constant(np.full((1, 1, 1, 1), 6)))


def _two_convolutions(graph: Graph) -> str:
    return graph.convolution(hard_swish(graph, graph.convolution(hard_swish(graph, graph.convolution("x")), 0.05)))


def _depthwise(graph: Graph) -> str:
    weights = graph.constant(graph.random.normal(0, 0.6, (8, 1, 3, 3)))
    made = graph.node("Conv", graph.convolution("x"), weights, graph.constant(np.ones(8)), pads=[1] * 4, group=8)
    return graph.convolution(hard_swish(graph, made))


def _without_a_bias(graph: Graph) -> str:
    weights = graph.constant(graph.random.normal(0, 0.3, (8, 8, 1, 1)))
    return graph.convolution(hard_swish(graph, graph.node("Conv", "x", weights)), 0.05)


def _read_twice(graph: Graph) -> str:
    made = graph.convolution("x")
    return graph.convolution(graph.node("Concat", hard_swish(graph, made), made, axis=1), 0.05, channels=16)


def _of_a_relu(graph: Graph) -> str:
    return graph.convolution(hard_swish(graph, graph.node("Relu", graph.convolution("x"))), 0.05)


def _of_a_sum(graph: Graph) -> str:
    return graph.convolution(hard_swish(graph, graph.node("Add", graph.convolution("x"), "x")), 0.05)


def _of_the_input(graph: Graph) -> str:
    return graph.convolution(hard_swish(graph, "x"), 0.05)


FUSED = (_two_convolutions, _depthwise, _without_a_bias)
ROUNDED = (_read_twice, _of_a_relu, _of_a_sum, _of_the_input)


def exported(build: Build, path: Path) -> Quantization:
    """A model, quantized and written."""
    graph = Graph()
    model = load_onnx_model(graph.model(build(graph)), {})
    result = quantize(model, [{"x": sample} for sample in SAMPLES], Options(target="openvino", effort="none"))
    export_program(result.propagated, path)
    return result


@pytest.mark.parametrize("build", [*FUSED, *ROUNDED])
def test_every_value_is_predicted(build: Build, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    predict = Interpreter(exported(build, tmp_path / "model.onnx").quantized)
    file = OpenVinoFile(tmp_path / "model.onnx")
    for sample in SAMPLES:
        for name, expected in predict({"x": sample}).items():
            np.testing.assert_array_equal(file({"x": sample})[name], expected)


@pytest.mark.parametrize("build", FUSED)
def test_a_hard_swish_of_a_convolution_is_no_kernel_of_its_own(build: Build, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    exported(build, tmp_path / "model.onnx")
    ops = kernels(OpenVinoFile(tmp_path / "model.onnx"))
    swishes = [kind for kind, _, names in ops if "HSwish" in names or "div" in names]
    assert swishes
    assert set(swishes) == {"Convolution"}


def test_a_convolution_before_a_hard_swish_is_annotated_and_not_cast(tmp_path: Path) -> None:
    exported(_without_a_bias, tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx").graph
    (swish,) = (node for node in graph.node if node.op_type == "HardSwish")
    (made,) = (node for node in graph.node if swish.input[0] in node.output)
    assert made.op_type == "Conv"
    assert [annotation.tensor_name for annotation in graph.quantization_annotation] == [swish.input[0]]
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)


@pytest.mark.parametrize("build", [*FUSED, *ROUNDED])
def test_an_exported_file_is_imported_with_the_same_types(build: Build, tmp_path: Path) -> None:
    result = exported(build, tmp_path / "model.onnx")
    again = quantize(load_onnx_model(onnx.load(tmp_path / "model.onnx"), {}), None, Options(target="openvino"))
    assert "float_reason" not in print_program(again.propagated)
    for sample in SAMPLES:
        for name, expected in Interpreter(result.quantized)({"x": sample}).items():
            np.testing.assert_array_equal(Interpreter(again.quantized)({"x": sample})[name], expected)
