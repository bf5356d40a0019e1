"""Models with tensors without elements are quantized, and native code agrees."""

from __future__ import annotations

import re

import numpy as np
import onnx.parser
import pytest

import zeropoint as zp
from zeropoint.calibrate import collect
from zeropoint.ir.text import parse_program
from zeropoint.numerics.noise import energies

PRODUCT = """
func.func @main(%x: tensor<2x0xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<> : tensor<0x3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %0, %y : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"""
CONVOLUTION = """
func.func @main(%x: tensor<1x0x2x5xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<> : tensor<2x0x1x3xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [2, 1], pad = [[0, 0], [0, 0]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x0x2x5xf32>, tensor<2x0x1x3xf32>) -> tensor<1x2x1x3xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x2x1x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.add %1, %y : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
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


@pytest.mark.parametrize(("text", "shape"), [(PRODUCT, (2, 0)), (CONVOLUTION, (1, 0, 2, 5)), (MEANS, (0, 4))])
def test_a_model_with_values_without_elements_is_quantized(text: str, shape: tuple[int, ...]) -> None:
    model = zp.load(text)
    first, second = model.inputs
    y = np.random.default_rng(0).normal(size=(8, 2, 3)).astype(np.float32)
    data = {first.name: np.zeros((8, *shape), np.float32), second.name: y}
    made = zp.quantize(model, data, effort="none")
    sample = {name: array[0] for name, array in data.items()}
    wanted, found, native = model.interpreted()(**sample), made(**sample), made.native()(**sample)
    floats = model.native()(**sample)
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, atol=0.03)
        np.testing.assert_array_equal(found[name], native[name])
        np.testing.assert_array_equal(floats[name], array)


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


LEAST = """func.func @main(%n: tensor<2x0x4xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %i = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %r = stablehlo.reduce(%n init: %i) applies stablehlo.minimum across dimensions = [1]
    : (tensor<2x0x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %w = stablehlo.constant dense<[[1.0], [-1.0], [2.0], [0.5]]> : tensor<4x1xf32>
"""
LEAST_ADDED = f"""{LEAST}  %y = stablehlo.add %r, %x : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}}"""
LEAST_MULTIPLIED = f"""{LEAST}  %s = stablehlo.add %r, %x : tensor<2x4xf32>
  %y = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  return %y : tensor<2x1xf32>
}}""".replace("-> tensor<2x4xf32> {", "-> tensor<2x1xf32> {")
NO_ELEMENTS = {"n": np.zeros((4, 2, 0, 4), np.float32), "x": np.ones((4, 2, 4), np.float32)}
KEPT = re.compile(
    r"such as the minimum or maximum of no elements; keep '(\w+)'(?:, '(\w+)')* float \(quantize: false\)$"
)


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("text", [LEAST_ADDED, LEAST_MULTIPLIED], ids=["added", "multiplied"])
def test_a_minimum_of_nothing_that_is_computed_with_stays_float_by_the_recipe_of_the_message(
    text: str, target: str
) -> None:
    """It was refused with "check the model's weights" alone, where a product of it is NaN."""
    with pytest.raises(zp.Error, match=KEPT) as refused:
        zp.quantize(text, NO_ELEMENTS, effort="none", target=target)
    found = KEPT.search(str(refused.value))
    assert found is not None
    recipe = [{"name": name, "quantize": False} for name in found.groups() if name]
    made = zp.quantize(text, NO_ELEMENTS, effort="none", recipe=recipe, target=target)
    (wanted,), (given,) = (one(n=NO_ELEMENTS["n"][0], x=NO_ELEMENTS["x"][0]).values() for one in (zp.load(text), made))
    np.testing.assert_array_equal(given, wanted)


def test_a_minimum_of_nothing_that_only_the_caller_reads_needs_no_recipe() -> None:
    """With a `quant.stats_ref` on it, the advice was to keep its readers float, of which there are none."""
    text = f"""{LEAST}  %s = "quant.stats_ref"(%r) {{statsKey = "r"}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}}"""
    program = parse_program(text)
    with pytest.raises(zp.Error, match=r"'r': .* all infinite.*, and no kernel reads it; remove its quant.stats_ref$"):
        collect(program, [{port.name: NO_ELEMENTS[name][0] for port, name in zip(program.inputs, "nx", strict=True)}])


def test_infinite_weights_are_not_said_to_be_the_least_of_no_elements() -> None:
    """Neither is -inf, the start of every maximum."""
    text = """func.func @main(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %big = stablehlo.constant dense<3.0e38> : tensor<2x4xf32>
  %s = stablehlo.multiply %x, %big : tensor<2x4xf32>
  %r = stablehlo.reduce(%s init: %i) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}"""
    with pytest.raises(zp.Error, match=r"all infinite; expected finite ones; check the model's weights and that the"):
        zp.quantize(text, {"x": np.full((4, 2, 4), 9.0, np.float32)}, effort="none")


def test_infinities_that_are_equal_are_neither_signal_nor_noise() -> None:
    """A correction of a network that returns a masked score was judged by NaN, with NumPy's warning."""
    exact = np.array([3.0, -np.inf, np.inf], np.float32)
    assert energies(exact, np.array([2.0, -np.inf, np.inf], np.float32)) == (9.0, 1.0)
    assert energies(exact, np.array([2.0, 5.0, np.inf], np.float32))[1] == np.inf


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "openvino", "stablehlo", "tosa"])
def test_a_constant_without_elements_is_an_operand_of_a_concatenation(target: str) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      network (float[2,3,4] x) => (float[2,3,4] y)
      <float[4,4] w = {1, 2, 0, 1, 0, 1, 3, 1, 2, 0, 1, 1, 1, 1, 0, 2}, float[2,0,4] nothing = {}> {
        z = MatMul(x, w)
        joined = Concat<axis = 1>(z, nothing)
        y = MatMul(joined, w)
      }""")
    data = np.random.default_rng(0).normal(size=(4, 2, 3, 4)).astype(np.float32)
    made = zp.quantize(model, data, target=target, effort="none")
    (output,) = zp.compare(model, made, data).outputs
    assert output.sqnr > 30
