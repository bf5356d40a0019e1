"""Changes of scale of less than a step at the end of the range: OpenVINO drops them if the operand has zero point 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from export.quantized_graphs import Graph, Type, is_predicted

pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
SHAPE = (1, 8, 16, 16)
RATIOS = (0.993, 0.9965, 0.998, 1.003, 1.0035, 1.006)
AFTER = (0.01, 0)


def _rescaled(graph: Graph, before: Type, dtype: type[np.integer]) -> str:
    made = graph.cast(graph.input(SHAPE, before, dtype), AFTER, dtype)
    return graph.node("MaxPool", made, kernel_shape=[1, 1])


def _joined(graph: Graph, before: Type, dtype: type[np.integer]) -> str:
    parts = graph.cast(graph.input(SHAPE, before, dtype), AFTER, dtype), graph.input(SHAPE, AFTER, dtype)
    return graph.cast(graph.node("Concat", *parts, axis=1), AFTER, dtype)


def _convolved(graph: Graph, before: Type, dtype: type[np.integer]) -> str:
    weights = graph.stored((8, 8, 1, 1), (2.0**-9, 0), np.int8)
    made = graph.cast(graph.node("Conv", graph.input(SHAPE, (2.0**-5, 7)), weights), before, dtype)
    return graph.node("MaxPool", graph.cast(made, AFTER, dtype), kernel_shape=[1, 1])


def _times(graph: Graph, before: Type, dtype: type[np.integer]) -> str:
    made = graph.node("Mul", graph.input(SHAPE, before, dtype), graph.constant(np.full((8, 1, 1), 1.3)))
    return graph.cast(made, (1.3 * AFTER[0], 0), dtype)


def _plus(graph: Graph, before: Type, dtype: type[np.integer]) -> str:
    made = graph.node("Add", graph.input(SHAPE, before, dtype), graph.constant(np.array(-0.009)))
    return graph.cast(made, AFTER, dtype)


OPS: Mapping[str, Callable[[Graph, Type, type[np.integer]], str]] = {
    made.__name__[1:]: made for made in (_rescaled, _joined, _convolved, _times, _plus)
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op", OPS)
def test_dropped_changes_of_scale_are_predicted(op: str, dtype: type[np.integer], tmp_path: Path) -> None:
    """Up to 45 % of the integers were a step off."""
    for zero in (0, 10):
        for ratio in RATIOS:
            graph = Graph()
            is_predicted(graph, [OPS[op](graph, (AFTER[0] * ratio, zero), dtype)], tmp_path)
