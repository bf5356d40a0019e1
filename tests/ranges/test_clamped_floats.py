"""The bound on integers that clamped floats convert to."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import run
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp
from zeropoint.ir.text import parse_program
from zeropoint.ranges import ranges_of

FLOATS = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xi32> {{
  %low = stablehlo.constant dense<{low}> : tensor<f32>
  %high = stablehlo.constant dense<{high}> : tensor<f32>
  %v = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %r = stablehlo.{rounding} %v : tensor<8xf32>
  %i = stablehlo.convert %r : (tensor<8xf32>) -> tensor<8xi32>
  %c = stablehlo.constant dense<-43> : tensor<8xi32>
  %y = stablehlo.add %i, %c : tensor<8xi32>
  return %y : tensor<8xi32>
}}
"""
X = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, 254.7, -1.2], np.float32)


def program(low: str, high: str, rounding: str) -> Program:
    return parse_program(FLOATS.format(low=low, high=high, rounding=rounding))


@pytest.mark.parametrize("rounding", ["round_nearest_even", "floor", "ceil"])
@pytest.mark.parametrize(
    ("low", "high", "least", "greatest"),
    [("0.0", "255.0", -43, 212), ("-3.5", "254.5", -47, 212), ("2.0", "9.0", -43, -34)],
)
def test_clamped_floats_are_within_their_bounds(low: str, high: str, least: int, greatest: int, rounding: str) -> None:
    made = program(low, high, rounding)
    (added,) = (op for op in made.entry.ops if isinstance(op, AddOp))
    found = ranges_of(made).computed(added)
    assert (found.least, found.greatest) == (least, greatest)
    (y,) = run(made, {made.inputs[0].name: X}).values()
    assert y.min() >= least
    assert y.max() <= greatest


@pytest.mark.parametrize(("low", "high"), [("0.0", "0x7F800000"), ("-3.0e9", "1.0")])
def test_floats_without_bounds_have_the_range_of_the_integers(low: str, high: str) -> None:
    made = program(low, high, "floor")
    (added,) = (op for op in made.entry.ops if isinstance(op, AddOp))
    assert ranges_of(made).computed(added).greatest == (1 << 31) - 44
