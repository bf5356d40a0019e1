"""Demands on ranges, widths and weights that leave every type as it is without them are refused, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.ir.locations import location_text
from zeropoint.ir.quant import QuantizeRegionOp

WEIGHT = "[[0.5, -1.0, 0.25, 0.7], [1.5, 0.3, -0.6, 0.2], [-0.4, 0.9, 0.1, -1.2], [0.8, -0.5, 0.6, 0.4]]"
CHAIN = f"""func.func @main(%x: tensor<2x4xf32> {{zeropoint.name = "x"}}) -> tensor<2x4xf32> {{
  %w = stablehlo.constant dense<{WEIGHT}> : tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("first")
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("second")
  return %1 : tensor<2x4xf32>
}}
"""
ROWS = (np.random.default_rng(0).standard_normal((8, 2, 4)) ** 3).astype(np.float32)


def made(text: str, *rules: dict[str, Any], target: str = "cpu", **options: Any) -> zp.Model:
    recipe = [*rules] or None
    return zp.quantize(text, ROWS, target=target, effort="none", recipe=recipe, **options)


def refused(text: str, rule: dict[str, Any], message: str, target: str = "cpu") -> None:
    with pytest.raises(zp.RecipeError, match=message):
        made(text, rule, target=target)


def test_an_observer_of_a_16_bit_result_is_refused() -> None:
    refused(
        CHAIN,
        {"name": "first", "observer": "percentile:90"},
        r"^recipe: rule 1 \(name 'first'\): key 'observer': found percentile:90, expected a result of 8 bits or fewer; "
        r"'first' has 16 bits in kernel fully_connected of target litert-16x8, which hold all observed values; it "
        r"would change nothing$",
        "litert-16x8",
    )
    plain, chosen = made(CHAIN, target="litert"), made(CHAIN, {"name": "first", "observer": "minmax"}, target="litert")
    assert [model.program.profile for model in (plain, chosen)] == ["fixed32-double"] * 2
