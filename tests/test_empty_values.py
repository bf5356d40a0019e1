"""Models with tensors without elements are quantized, and native code agrees."""

from __future__ import annotations

import numpy as np
import pytest

import zeropoint as zp

PRODUCT = """
func.func @main(%x: tensor<2x0xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<> : tensor<0x3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %0, %y : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"""
MEANS = """
func.func @main(%x: tensor<0x4xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<0xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<0xf32>
  %sum = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<0x4xf32>, tensor<f32>) -> tensor<0xf32>
  %mean = stablehlo.divide %sum, %four : tensor<0xf32>
  %1 = stablehlo.tanh %y : tensor<2x3xf32>
  return %1, %mean : tensor<2x3xf32>, tensor<0xf32>
}
"""


@pytest.mark.parametrize(("text", "shape"), [(PRODUCT, (2, 0)), (MEANS, (0, 4))])
def test_a_model_with_values_without_elements_is_quantized(text: str, shape: tuple[int, ...]) -> None:
    model = zp.load(text)
    first, second = model.inputs
    y = np.random.default_rng(0).normal(size=(8, 2, 3)).astype(np.float32)
    data = {first.name: np.zeros((8, *shape), np.float32), second.name: y}
    made = zp.quantize(model, data, effort="none")
    sample = {name: array[0] for name, array in data.items()}
    wanted, found, native = model(**sample), made(**sample), made.native()(**sample)
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, atol=0.03)
        np.testing.assert_array_equal(found[name], native[name])
