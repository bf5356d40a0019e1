"""A file may leave out a ReLU whose quantized result has the zero point as its least integer: the type saturates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph

SHAPE = (1, 3, 4, 4)
SIGNED = (0.07, 128)


def relu(graph: Graph, value: str, scale: float) -> str:
    """A convolution, whose cast stands for a ReLU, too."""
    weights = graph.stored((3, 3, 1, 1), (0.01, 0), np.int8)
    return graph.cast(graph.node("Conv", value, weights), (scale, 0))


def joined() -> tuple[Graph, str]:
    """Both results have another type than their concatenation."""
    graph = Graph()
    first, second = graph.input(SHAPE, (0.05, 120)), graph.input(SHAPE, (0.06, 100))
    values = [relu(graph, first, 0.03), relu(graph, second, 0.05)]
    return graph, graph.cast(graph.node("Concat", *values, axis=1), SIGNED)


def beside_signed() -> tuple[Graph, str]:
    """The other operand has numbers of both signs."""
    graph = Graph()
    value, other = graph.input(SHAPE, (0.05, 120)), graph.input(SHAPE, (0.06, 100))
    return graph, graph.cast(graph.node("Concat", relu(graph, value, 0.03), other, axis=1), SIGNED)


def pooled() -> tuple[Graph, str]:
    graph = Graph()
    value = relu(graph, graph.input(SHAPE, (0.05, 120)), 0.03)
    return graph, graph.cast(graph.node("MaxPool", value, kernel_shape=[1, 2]), SIGNED)


@pytest.mark.parametrize("target", ["cpu", "litert", "tosa"])
@pytest.mark.parametrize("make", [joined, beside_signed, pooled], ids=lambda make: make.__name__)
def test_the_type_before_a_rescale_saturates(make: Callable[[], tuple[Graph, str]], target: str) -> None:
    """A rescale was merged with the convolution: results below zero passed, 128 steps from those of the file."""
    graph, output = make()
    model = graph.model_of([output])
    sample = graph.sample()
    (found,) = zp.quantize(model, target=target)(**sample).values()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, sample)
    assert np.abs(found - np.asarray(expected)).max() <= SIGNED[0] * 1.001
