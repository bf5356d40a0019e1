"""Whole numbers in floats that become integers, or are compared, are not rounded to a type that has no such numbers."""

from __future__ import annotations

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.text import parse_program

POSITIONS = """
func.func @main(%x: tensor<8xf32> {zeropoint.name = "x"}) -> (tensor<8xi32> {zeropoint.name = "position"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %seven = stablehlo.constant dense<7.0> : tensor<f32>
  %0 = stablehlo.floor %x : tensor<8xf32>
  %1 = stablehlo.clamp %zero, %0, %seven : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.convert %1 : (tensor<8xf32>) -> tensor<8xi32>
  return %2 : tensor<8xi32>
}
"""
LENGTHS = """
func.func @main(%mask: tensor<6xi64> {zeropoint.name = "mask"}, %x: tensor<6xf32> {zeropoint.name = "x"})
    -> (tensor<i64> {zeropoint.name = "length"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.convert %mask : (tensor<6xi64>) -> tensor<6xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.convert %1 : (tensor<f32>) -> tensor<i64>
  return %2 : tensor<i64>
}
"""
COMPARED = """
func.func @main(%x: tensor<8xf32> {zeropoint.name = "x"}) -> (tensor<8xi1> {zeropoint.name = "is_three"}) {
  %three = stablehlo.constant dense<3.0> : tensor<8xf32>
  %0 = stablehlo.round_nearest_even %x : tensor<8xf32>
  %1 = stablehlo.compare EQ, %0, %three : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  return %1 : tensor<8xi1>
}
"""
MASK = """
func.func @main(%mask: tensor<8xi64> {zeropoint.name = "mask"}) -> (tensor<8xi1> {zeropoint.name = "hidden"}) {
  %one = stablehlo.constant dense<1.0> : tensor<8xf32>
  %0 = stablehlo.convert %mask : (tensor<8xi64>) -> tensor<8xf32>
  %1 = stablehlo.subtract %one, %0 : tensor<8xf32>
  %2 = stablehlo.convert %1 : (tensor<8xf32>) -> tensor<8xi1>
  return %2 : tensor<8xi1>
}
"""


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize(("text", "output"), [(POSITIONS, "position"), (COMPARED, "is_three")])
def test_whole_numbers_of_a_quantized_value_are_exact(text: str, output: str, target: str) -> None:
    model = zp.load(text)
    x = np.linspace(0, 8, 8 * 64, endpoint=False, dtype=np.float32).reshape(-1, 8)
    middle = np.arange(8, dtype=np.float32) + np.float32(0.4)
    integers = zp.quantize(model, [{"x": row} for row in x], target=target, effort="none").interpreted()
    np.testing.assert_array_equal(integers(x=middle)[output], model(x=middle)[output])


def test_a_length_that_is_a_sum_of_a_mask_is_exact() -> None:
    model = zp.load(LENGTHS)
    masks = [(np.arange(6) < length).astype(np.int64) for length in range(1, 7)]
    samples = [{"mask": mask, "x": np.zeros(6, np.float32)} for mask in masks]
    integers = zp.quantize(model, samples, effort="none").interpreted()
    assert [int(integers(**sample)["length"]) for sample in samples] == [1, 2, 3, 4, 5, 6]


def test_numbers_that_are_only_compared_with_0_keep_their_kernel() -> None:
    ops = list(fuse(parse_program(MASK)).entry.ops)
    assert any(isinstance(op, QuantizeRegionOp) for op in ops)
    assert not any(FLOAT_REASON in op.attributes for op in ops)
