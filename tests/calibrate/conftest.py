"""Programs that several tests calibrate."""

from __future__ import annotations

import pytest

from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

REGIONS = """
func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}, %y: tensor<1x4xf32> {zeropoint.name = "y"})
    -> (tensor<1x4xf32> {zeropoint.name = "out"}) {
  %0 = "quant.region"(%x, %y) ({
  ^bb0(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>):
    %s = stablehlo.add %a, %b : tensor<1x4xf32>
    "quant.return"(%s) : (tensor<1x4xf32>) -> ()
  }) {input_specs = [f32, f32], logical_kernel = "add", output_specs = [f32]}
    : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc("sum")
  %1 = "quant.region"(%0) ({
  ^bb0(%a: tensor<1x4xf32>):
    %e = stablehlo.exponential %a : tensor<1x4xf32>
    "quant.return"(%e) : (tensor<1x4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "elementwise_unary", output_specs = [f32]}
    : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("exp")
  return %1 : tensor<1x4xf32>
}
"""


@pytest.fixture
def regions() -> Program:
    """exp(x + y) as two regions, "sum" and "exp"."""
    return parse_program(REGIONS)
