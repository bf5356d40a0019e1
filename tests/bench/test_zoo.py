"""The table of bench/zoo.py and the made-up inputs of its networks."""

from __future__ import annotations

import numpy as np
import pytest

from zoo import WHEELS, Row, table


def test_what_stopped_and_what_stayed_float_is_below_the_table() -> None:
    ms = {"zeropoint int8": 1.0, "onnxruntime int8": 2.0, "zeropoint f32": 3.0, "onnxruntime f32": 4.0}
    whole = Row("a", "text", 10, 9, {"no kernel": 2}, 30.25, 20.0, 120.0, ms, {"quantize": 1.5, "onnxruntime": 2.5})
    whole.differ = "0 of 60"
    broken = Row("b", "sound", stopped=["ours: found a tree, expected a network"])
    lines = table([whole, broken]).splitlines()
    assert lines[2] == "| a | text | 9 of 10 | 0 of 60 | 30.2 | 20.0 | 1.00 | 2.00 | 3.00 | 4.00 | 1.5 | 2.5 |"
    assert lines[3] == "| b | sound | 0 of 0 |  |  |  |  |  |  |  |  |  |"
    assert "int8, time relative to onnxruntime: geometric mean 0.50" in lines
    assert "- 2 x no kernel" in lines
    assert "- ours: found a tree, expected a network" in lines


@pytest.mark.parametrize("name", WHEELS)
def test_inputs_have_their_shapes_and_no_two_samples_are_equal(name: str) -> None:
    wheel = WHEELS[name]
    first, second = wheel.feeds(2, seed=1)
    assert {port: array.shape for port, array in first.items()} == wheel.shapes
    assert any(not np.array_equal(first[port], second[port]) for port in first)
