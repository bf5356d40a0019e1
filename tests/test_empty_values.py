"""Models with tensors without elements are quantized, and native code agrees."""

from __future__ import annotations

import numpy as np
import onnx.parser
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


@pytest.mark.parametrize(
    ("kind", "least"), [("ReduceMax", -np.inf), ("ReduceLogSum", -np.inf), ("ReduceLogSumExp", -np.inf)]
)
def test_a_maximum_over_nothing_hides_nothing(kind: str, least: float) -> None:
    """It was refused: "found 64 values, all NaN or infinite ... check the model's weights"."""
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,3] x, float[2,0,3] nothing) => (float[2,3] y, float[2,3] z)
        <int64[1] axis = {{1}}> {{
          z = {kind}<keepdims = 0>(nothing, axis)
          t = Tanh(x)
          y = Max(t, z)
        }}"""
    model = onnx.parser.parse_model(text)
    x = np.random.default_rng(0).normal(size=(8, 2, 3)).astype(np.float32)
    made = zp.quantize(model, {"x": x, "nothing": np.zeros((8, 2, 0, 3), np.float32)}, effort="none")
    found = made(x=x[0], nothing=np.zeros((2, 0, 3), np.float32))
    np.testing.assert_array_equal(found["z"], np.full((2, 3), least))
    np.testing.assert_allclose(found["y"], np.tanh(x[0]), atol=0.02)


def test_a_minimum_of_nothing_that_is_computed_with_stays_float_by_the_recipe_of_the_message() -> None:
    """It was refused with "check the model's weights" alone."""
    text = """func.func @main(%n: tensor<2x0x4xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %i = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %r = stablehlo.reduce(%n init: %i) applies stablehlo.minimum across dimensions = [1]
    : (tensor<2x0x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %y = stablehlo.add %r, %x : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}"""
    data = {"n": np.zeros((4, 2, 0, 4), np.float32), "x": np.ones((4, 2, 4), np.float32)}
    with pytest.raises(zp.Error, match=r"'y': .* all infinite.* keep its readers float \(quantize: false\)"):
        zp.quantize(text, data, effort="none")
    made = zp.quantize(text, data, effort="none", recipe=[{"name": "y", "quantize": False}])
    (found,) = made(n=data["n"][0], x=data["x"][0]).values()
    np.testing.assert_array_equal(found, np.full((2, 4), np.inf))
