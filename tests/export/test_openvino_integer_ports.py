"""Sums, differences and products of stored integers at the ports of a file, which OpenVINO reads without a cast."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from export.quantized_graphs import Graph, is_predicted

pytest.importorskip("openvino", reason="runs files in OpenVINO")

SHAPE = (1, 4, 32, 32)
SCALES = 0.0197, 0.0232
RESULTS = {"Add": 0.043, "Sub": 0.0197, "Mul": 0.0197 * 0.0232 * 60}
"""Scales of results. That of a product has many values in the middle of two integers."""
ZERO_POINTS = list(product((0, 90), (0, 100), (0, 128)))


@pytest.mark.parametrize("operator", RESULTS)
@pytest.mark.parametrize("zeros", ZERO_POINTS)
def test_of_two_inputs(operator: str, zeros: tuple[int, int, int], tmp_path: Path) -> None:
    """They were taken for values that are cast, which OpenVINO expresses in other units where it quantizes them."""
    graph = Graph()
    first, second = (graph.stored_input(SHAPE, kind) for kind in zip(SCALES, zeros[:2], strict=True))
    result = graph.node(operator, first, second)
    is_predicted(graph, [graph.stored_output(result, (RESULTS[operator], zeros[2]))], tmp_path)


@pytest.mark.parametrize("operator", RESULTS)
@pytest.mark.parametrize("is_first", [True, False])
def test_of_an_input_and_floats(operator: str, is_first: bool, tmp_path: Path) -> None:
    graph = Graph()
    pair = [graph.stored_input(SHAPE, (SCALES[0], 90)), graph.input(SHAPE, (SCALES[1], 0))]
    result = graph.node(operator, *(pair if is_first else pair[::-1]))
    is_predicted(graph, [graph.stored_output(result, (RESULTS[operator], 128))], tmp_path)


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_difference_of_i8(is_stored: bool, zero: int, tmp_path: Path) -> None:
    """A result with zero point 0 is multiplied once; it was multiplied and shifted."""
    graph = Graph()
    made = graph.stored_input if is_stored else graph.input
    first, second = (made(SHAPE, (scale, 0), np.int8) for scale in SCALES)
    result = graph.node("Sub", first, second)
    is_predicted(graph, [graph.stored_output(result, (0.02, zero), np.int8)], tmp_path)
