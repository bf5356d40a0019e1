"""Gates of functions whose last bits differ in OpenVINO: no value is in the middle of two results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.openvino_graphs import SHAPE, Graph
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize


@pytest.mark.parametrize("function", ["Erf", "Tanh"])
def test_the_sums_of_a_gelu_are_predicted(function: str, tmp_path: Path) -> None:
    """1 + erf x, of which a third was a step off where 1 was 127.5 steps."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    graph = Graph()
    x = graph.convolution("x")
    inner = graph.node(function, graph.node("Mul", x, graph.constant(np.array(2**-0.5))))
    gate = graph.node("Mul", x, graph.node("Add", inner, graph.constant(np.array(1))))
    model = graph.model(graph.convolution(graph.node("Mul", gate, graph.constant(np.array(0.5)))))
    samples = [{"x": graph.random.normal(0, 1.5, SHAPE).astype(np.float32)} for _ in range(3)]
    made = quantize(load_onnx_model(model, {}), samples, Options(target="openvino", effort="none"))
    export_program(made.propagated, tmp_path / "m.onnx")
    file, predict = OpenVinoFile(tmp_path / "m.onnx"), Interpreter(made.quantized)
    for sample in samples:
        for name, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)
