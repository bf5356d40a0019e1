"""Products over a merged dimension become products over the dimensions before the merge, with the same weights."""

from __future__ import annotations

from zeropoint.export.merged_terms import split_merged_terms
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program

HEADS = """
func.func @main(%x: tensor<1x6x4x4xf32>) -> tensor<1x6x4xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<16x4xf32>
  %0 = quant.region "reshape"(%a: tensor<1x6x4x4xf32> = %x as !quant.uniform<i8:f32, 0.5>)
      -> tensor<1x6x16xf32> as !quant.uniform<i8:f32, 0.5> {
    %b = stablehlo.reshape %a : (tensor<1x6x4x4xf32>) -> tensor<1x6x16xf32>
    quant.return %b : tensor<1x6x16xf32>
  }
  %1 = quant.region "fully_connected"(%a: tensor<1x6x16xf32> = %0 as !quant.uniform<i8:f32, 0.5>,
      %b: tensor<16x4xf32> = %w as !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25,0.125,0.0625}>)
      -> tensor<1x6x4xf32> as !quant.uniform<i8:f32, 8.0> {
    %c = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0]
        : (tensor<1x6x16xf32>, tensor<16x4xf32>) -> tensor<1x6x4xf32>
    quant.return %c : tensor<1x6x4xf32>
  }
  return %1 : tensor<1x6x4xf32>
}
"""


def test_scales_of_output_channels_after_the_split_dimension_stay_at_their_channels() -> None:
    """The weights [terms, channels] of a layer that joins the heads of an attention."""
    (region,) = [
        op for op in regions_of(split_merged_terms(parse_program(HEADS))) if op.logical_kernel.data == "fully_connected"
    ]
    assert "tensor<4x4x4xf32>" in str(region)
    kind = region.input_specs.data[1]
    assert isinstance(kind, UniformQuantizedType)
    assert (kind.axis, kind.scales.tolist()) == (2, [0.5, 0.25, 0.125, 0.0625])
