"""A type that a file states saturates, also if a kernel of another type reads the value.

The file may leave out a ReLU before it, whose result has the zero point as its least integer. Or the ends of a
calibrated range cut off a value's rare extremes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import zeropoint as zp
from export.quantized_graphs import Graph, Type

SHAPE = (1, 3, 4, 4)
SIGNED = (0.07, 128)
KINDS = {"relu": ((0.03, 0), (0.05, 0)), "both ends": ((0.02, 100), (0.03, 140))}
"""The types of two convolutions."""


def convolution(graph: Graph, value: str, kind: Type) -> str:
    """A convolution, whose results the type cuts off."""
    weights = graph.stored((3, 3, 1, 1), (0.01, 0), np.int8)
    return graph.cast(graph.node("Conv", value, weights), kind)


def joined(*kinds: Type) -> tuple[Graph, str]:
    """Both results have another type than their concatenation."""
    graph = Graph()
    first, second = graph.input(SHAPE, (0.05, 120)), graph.input(SHAPE, (0.06, 100))
    values = [convolution(graph, *pair) for pair in zip((first, second), kinds, strict=True)]
    return graph, graph.cast(graph.node("Concat", *values, axis=1), SIGNED)


def beside_signed(kind: Type, _: Type) -> tuple[Graph, str]:
    """The other operand has numbers of both signs."""
    graph = Graph()
    value, other = graph.input(SHAPE, (0.05, 120)), graph.input(SHAPE, (0.06, 100))
    return graph, graph.cast(graph.node("Concat", convolution(graph, value, kind), other, axis=1), SIGNED)


def pooled(kind: Type, _: Type) -> tuple[Graph, str]:
    graph = Graph()
    value = convolution(graph, graph.input(SHAPE, (0.05, 120)), kind)
    return graph, graph.cast(graph.node("MaxPool", value, kernel_shape=[1, 2]), SIGNED)


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("target", ["cpu", "litert", "tosa"])
@pytest.mark.parametrize("make", [joined, beside_signed, pooled], ids=lambda make: make.__name__)
def test_the_type_before_a_rescale_saturates(
    make: Callable[[Type, Type], tuple[Graph, str]], target: str, kinds: tuple[Type, Type]
) -> None:
    """A rescale was merged with the convolution: its results passed, up to 128 steps from those of the file."""
    graph, output = make(*kinds)
    model = graph.model_of([output])
    sample = graph.sample()
    (found,) = zp.quantize(model, target=target)(**sample).values()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, sample)
    assert np.abs(found - np.asarray(expected)).max() <= SIGNED[0] * 1.001
