"""Values with a scale for each channel in OpenVINO: sums, products, concatenations and convolutions in groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.quantized_graphs import Graph, is_predicted

pytest.importorskip("openvino", reason="runs files in OpenVINO")

SHAPE = (1, 4, 32, 32)
SCALES = (0.02, 0.013, 0.031, 0.007)
RESULTS = {"Add": 0.05, "Sub": 0.05, "Mul": 0.02 * 0.031 * 60, "Concat": 0.03}
BOTH = {(True, False): "first", (False, True): "second", (True, True): "both"}


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("zero", [0, 3, 128])
@pytest.mark.parametrize("has_channels", BOTH, ids=BOTH.values())
@pytest.mark.parametrize("operator", RESULTS)
def test_of_two_values(
    operator: str, has_channels: tuple[bool, bool], zero: int, is_stored: bool, tmp_path: Path
) -> None:
    """They were floats in the program. OpenVINO computes one in steps of the other."""
    graph = Graph()
    made = graph.stored_input if is_stored else graph.input
    channels = [(SCALES, (zero,) * 4), (SCALES[::-1], (zero,) * 4)]
    single = [(0.02, zero), (0.031, zero)]
    kinds = [channels[number] if several else single[number] for number, several in enumerate(has_channels)]
    axis = {"axis": 1} if operator == "Concat" else {}
    result = graph.node(operator, *(made(SHAPE, kind) for kind in kinds), **axis)
    is_predicted(graph, [graph.stored_output(result, (RESULTS[operator], zero))], tmp_path)


@pytest.mark.parametrize("is_biased", [True, False])
@pytest.mark.parametrize("zero", [0, 3, 152])
def test_of_a_depthwise_convolution(zero: int, is_biased: bool, tmp_path: Path) -> None:
    """With a zero point, it was a convolution of floats in the program."""
    graph = Graph()
    value = graph.stored_input(SHAPE, (SCALES, (zero,) * 4))
    operands = [value, graph.stored((4, 1, 3, 3), (0.01, 0), np.int8)]
    bias = [graph.constant(graph.random.normal(0, 1, 4))] if is_biased else []
    result = graph.node("Conv", *operands, *bias, pads=[1] * 4, group=4)
    is_predicted(graph, [graph.stored_output(result, (0.1, zero))], tmp_path)


@pytest.mark.parametrize(("groups", "inputs", "results"), [(2, 2, 4), (2, 4, 4), (16, 16, 32)])
def test_of_the_result_of_groups(groups: int, inputs: int, results: int, tmp_path: Path) -> None:
    """On processors with AMX, OpenVINO 2026.4.1 takes the numbers of other channels."""
    graph, random = Graph(), np.random.default_rng(0)
    value = graph.stored_input((1, inputs, 16, 16), (0.02, 152))
    weights = graph.stored((results, inputs // groups, 3, 3), (0.01, 0), np.int8)
    bias = graph.constant(random.normal(0, 1, results))
    result = graph.node("Conv", value, weights, bias, pads=[1] * 4, group=groups)
    scales = tuple(random.uniform(0.04, 0.1, results).tolist())
    is_predicted(graph, [graph.stored_output(result, (scales, (126,) * results))], tmp_path)
