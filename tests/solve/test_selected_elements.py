"""Positions whose whole part selects elements, pixels or rows of a table, select the same ones in integer programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

import zeropoint as zp

Sample = dict[str, np.ndarray]

GRID = """
<ir_version: 9, opset_import: ["" : 20]>
agraph (float[1,2,6,6] x, float[1,8,8,2] g) => (float[1,2,8,8] y) {{
    y = GridSample <mode = "{mode}", padding_mode = "{padding}"> (x, g)
}}
"""
TABLE = """
<ir_version: 9, opset_import: ["" : 18]>
agraph (float[4,8] x) => (float[4,8,5] y) <float thirty = {30.0}> {
    scaled = Mul (x, thirty)
    index = Cast <to = 7> (scaled)
    y = Gather (table, index)
}
"""
COARSE = """
<ir_version: 9, opset_import: ["" : 18]>
agraph (float[1,3,8,8] x) => (uint8[1,3,8,8] y) <float scale = {255.0}, float low = {0.0}, float high = {255.0}> {
    scaled = Mul (x, scale)
    whole = Round (scaled)
    inside = Clip (whole, low, high)
    y = Cast <to = 2> (inside)
}
"""


def grid(random: np.random.Generator) -> Sample:
    return {
        "x": random.normal(size=(1, 2, 6, 6)).astype(np.float32),
        "g": random.uniform(-1.5, 1.5, (1, 8, 8, 2)).astype(np.float32),
    }


def indices(random: np.random.Generator) -> Sample:
    return {"x": random.uniform(0, 13, (4, 8)).astype(np.float32)}


def sqnr(model: onnx.ModelProto, sample: Callable[[np.random.Generator], Sample]) -> float:
    exact = zp.load(model)
    integers = zp.quantize(exact, [sample(np.random.default_rng(i)) for i in range(16)], effort="none").interpreted()
    tests = [sample(np.random.default_rng(1000 + i)) for i in range(8)]
    want, found = (np.stack([run(**test)["y"] for test in tests]) for run in (exact, integers))
    return float(10 * np.log10(np.square(want).sum() / np.square(want - found).sum()))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "least"), [("nearest", 30), ("linear", 17), ("cubic", 19)])
def test_pixels_at_sampled_positions(mode: str, least: float, padding: str) -> None:
    assert sqnr(onnx.parser.parse_model(GRID.format(mode=mode, padding=padding)), grid) > least


def test_rows_of_a_table_with_more_rows_than_8_bits_have_steps() -> None:
    model = onnx.parser.parse_model(TABLE)
    table = np.random.default_rng(0).normal(size=(401, 5)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    assert sqnr(model, indices) > 30


def test_whole_numbers_that_select_nothing_may_come_from_8_bits() -> None:
    """An image of 8 bits as output: half a step of error is half a level."""
    samples = [{"x": np.random.default_rng(i).uniform(0, 1, (1, 3, 8, 8)).astype(np.float32)} for i in range(8)]
    made = zp.quantize(onnx.parser.parse_model(COARSE), samples, effort="none")
    assert "scaled" not in str(made)  # it would be listed if it stayed float
