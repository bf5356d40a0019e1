"""Functions that read the type of a merge are computed before it, and no others."""

from __future__ import annotations

import pytest

from zeropoint.export.before_merges import compute_before_merges
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program

TEXT = """
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x5xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<12x5xf32>
  %0 = quant.region "reshape"(%a: tensor<2x3x4xf32> = %x as !quant.uniform<i8:f32, 0.5>)
      -> tensor<2x12xf32> as !quant.uniform<i8:f32, 0.5> {
    %b = stablehlo.reshape %a : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
    quant.return %b : tensor<2x12xf32>
  }
  %1 = quant.region "abs"(%a: tensor<2x12xf32> = %0 SPEC) -> tensor<2x12xf32> as !quant.uniform<i8:f32, 0.25> {
    %b = stablehlo.abs %a : tensor<2x12xf32>
    quant.return %b : tensor<2x12xf32>
  }
  %2 = quant.region "fully_connected"(%a: tensor<2x12xf32> = %1 as !quant.uniform<i8:f32, 0.25>,
      %b: tensor<12x5xf32> = %w as !quant.uniform<i8<-127:127>:f32, 0.5>)
      -> tensor<2x5xf32> as !quant.uniform<i8:f32, 8.0> {
    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
    quant.return %c : tensor<2x5xf32>
  }
  return %2 : tensor<2x5xf32>
}
"""


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("as !quant.uniform<i8:f32, 0.5>", ["abs", "reshape", "fully_connected"]),
        ("", ["reshape", "abs", "fully_connected"]),
    ],
    ids=["same type", "float"],
)
def test_a_rounding_of_the_reshape_is_not_lost(spec: str, names: list[str]) -> None:
    """The file computed the function of `%x` itself, not of the rounded one."""
    program = compute_before_merges(parse_program(TEXT.replace("SPEC", spec)))
    assert [region.logical_kernel.data for region in regions_of(program)] == names
