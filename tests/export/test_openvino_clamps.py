"""Clamps of a value that others read, too: OpenVINO must not round their bounds to steps of the value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from export.openvino_graphs import SHAPE, Graph
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize


def _clip(graph: Graph, value: str, *bounds: float) -> str:
    return graph.node("Clip", value, *(graph.constant(np.array(bound)) for bound in bounds))


def _three(graph: Graph) -> str:
    value = graph.convolution("x")
    first = graph.node("Add", graph.node("Relu", value), _clip(graph, value, 0, 6))
    return graph.node("Add", first, _clip(graph, value, -1, 1))


def _random(graph: Graph) -> str:
    value = graph.convolution("x")
    bounds = np.sort(graph.random.normal(0, 2, (3, 2)), axis=1)
    parts = [_clip(graph, value, *pair) for pair in bounds]
    return graph.node("Mul", graph.node("Add", parts[0], parts[1]), parts[2])


def _one_sided(graph: Graph) -> str:
    value = graph.convolution("x")
    high = graph.node("Min", value, graph.constant(np.array(1.03)))
    return graph.node("Add", graph.node("Max", value, graph.constant(np.array(-0.71))), high)


def _before_a_float_op(graph: Graph) -> str:
    value = graph.convolution("x")
    return graph.node("Add", value, graph.node("Softmax", _clip(graph, value, 0, 6), axis=3))


def _of_an_input(graph: Graph) -> str:
    return graph.convolution(graph.node("Add", "x", _clip(graph, "x", -1.03, 0.71)))


def _of_a_shifted_value(graph: Graph) -> str:
    value = graph.node("Sub", graph.node("Neg", graph.convolution("x")), graph.constant(np.array(0.37)))
    return graph.node("Add", graph.node("Exp", value), _clip(graph, value, -0.5, 0.7))


def _of_a_negated_value(graph: Graph) -> str:
    value = graph.node("Neg", graph.convolution("x"))
    return graph.node("Add", graph.node("Softplus", value), _clip(graph, value, -0.5, 0.7))


@pytest.mark.parametrize(
    "form", [_three, _random, _one_sided, _before_a_float_op, _of_an_input, _of_a_negated_value, _of_a_shifted_value]
)
def test_clamps_are_predicted(form: Callable[[Graph], str], tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    graph = Graph()
    program = load_onnx_model(graph.model(form(graph)), {})
    samples = [{"x": graph.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(6)]
    result = quantize(program, samples[:3], Options(target="openvino"))
    export_program(result.propagated, tmp_path / "clamps.onnx")
    file, predict = OpenVinoFile(tmp_path / "clamps.onnx"), Interpreter(result.quantized)
    for sample in samples:
        for name, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)


@pytest.mark.parametrize("form", [_three, _random])
def test_the_file_imported_again_is_the_same_program(form: Callable[[Graph], str], tmp_path: Path) -> None:
    graph = Graph()
    program = load_onnx_model(graph.model(form(graph)), {})
    samples = [{"x": graph.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    result = quantize(program, samples, Options(target="openvino"))
    export_program(result.propagated, tmp_path / "clamps.onnx")
    again = quantize(load_onnx_model(onnx.load(tmp_path / "clamps.onnx"), {}), [], Options(target="openvino"))
    for sample in samples:
        first, second = (Interpreter(made.quantized)(sample).values() for made in (result, again))
        for ours, theirs in zip(first, second, strict=True):
            np.testing.assert_array_equal(ours, theirs)
