"""Casts with a scale per channel, of which onnxruntime's optimizer makes kernels that take one scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph

SHAPE = (1, 3, 6, 6)
ONE, SEVERAL = (0.02, 120), ((0.02, 0.03, 0.01), (120, 120, 120))
OPERATORS = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "Conv": {},
    "ConvTranspose": {},
    "GlobalAveragePool": {},
    "LeakyRelu": {},
    "Sigmoid": {},
    "Softmax": {},
    "Where": {},
}


def operands(graph: Graph, operator: str, value: str) -> list[str]:
    if operator == "Where":
        return [graph.node("Greater", value, graph.constant(np.zeros(()))), value, graph.input(SHAPE, ONE)]
    weights = [graph.stored((3, 3, 3, 3), (0.01, 0), np.int8)] if operator.startswith("Conv") else []
    return [value, *weights]


RESULT, RESULTS = (0.317, 120), ((0.317, 0.419, 0.211), (120, 120, 120))
"""Types of results. Floats are not near the middle of two integers, where other orders of sums have other results."""


@pytest.mark.parametrize(("given", "made"), [(SEVERAL, RESULT), (ONE, RESULTS), (SEVERAL, RESULTS)])
@pytest.mark.parametrize("operator", OPERATORS)
def test_onnxruntime_computes_in_floats(operator: str, given, made, tmp_path: Path) -> None:
    """It refused to run the file; a softmax had the first scale."""
    graph, path = Graph(), tmp_path / "m.onnx"
    value = graph.stored_input(SHAPE, given)
    result = graph.node(operator, *operands(graph, operator, value), **OPERATORS[operator])
    model = graph.model_of([graph.stored_output(result, made)])
    program = zp.quantize(model, target="onnxruntime")
    program.export(path)
    session = onnxruntime.InferenceSession(path)
    for _ in range(3):
        sample = graph.sample()
        (expected,) = program(**sample).values()
        np.testing.assert_array_equal(session.run(None, sample)[0], expected)
