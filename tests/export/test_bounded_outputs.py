"""Outputs of stored integers behind a ReLU or a clamp, which our .onnx files have as a Clip of the integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph

BOUNDS = {"relu": (0.0, np.inf), "relu6": (0.0, 6.0), "hard tanh": (-1.0, 1.0)}
KIND = (0.03, 100)


def bounded(low: float, high: float) -> Graph:
    """A convolution of integers, clamped, whose output is integers."""
    graph = Graph()
    value = graph.stored_input((1, 3, 8, 8), (0.05, 120))
    value = graph.node("Conv", value, graph.stored((3, 3, 1, 1), (0.01, 0), np.int8))
    ends = [graph.constant(np.array(end)) for end in (low, high)]
    clamped = graph.node("Relu", value) if high == np.inf else graph.node("Clip", value, *ends)
    graph.stored_output(clamped, KIND)
    return graph


def exported(bounds: tuple[float, float], path: Path) -> tuple[Graph, zp.Model]:
    """The model and its program for onnxruntime, which is written to `path`."""
    graph = bounded(*bounds)
    (output,) = graph.integer_ports.keys() - graph.ports.keys()
    program = zp.quantize(graph.model_of([output]), target="onnxruntime")
    program.export(path)
    assert onnx.load(path).graph.node[-1].op_type == "Clip"
    return graph, program


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_our_file_is_the_same_program_after_an_import(bounds: tuple[float, float], tmp_path: Path) -> None:
    """The import asked for calibration data."""
    files = [tmp_path / "m.onnx", tmp_path / "again.onnx"]
    graph, program = exported(bounds, files[0])
    again = zp.quantize(files[0], target="onnxruntime")
    again.export(files[1])
    for _ in range(3):
        sample = graph.sample()
        (expected,), (found,) = program(**sample).values(), again(**sample).values()
        np.testing.assert_array_equal(found, expected)
        for file in files:
            np.testing.assert_array_equal(onnxruntime.InferenceSession(file).run(None, sample)[0], expected)


@pytest.mark.parametrize("target", ["openvino-vnni", "litert", "cpu"])
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_other_targets_need_no_data(bounds: tuple[float, float], target: str, tmp_path: Path) -> None:
    """They round otherwise, by one step."""
    graph, program = exported(bounds, tmp_path / "m.onnx")
    again = zp.quantize(tmp_path / "m.onnx", target=target)
    for _ in range(3):
        sample = graph.sample()
        (expected,), (found,) = program(**sample).values(), again(**sample).values()
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
