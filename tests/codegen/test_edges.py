"""Floats of the caller to stored integers and back, in every layout: the interpreter's on every value."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact, kernels_of_steps
from zeropoint.codegen.kernels.quantize import saturating
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

INSTRUCTION_SETS = pytest.mark.parametrize("isa", HERE, ids=[row.name for row in HERE])
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 2.0**23, -(2.0**23)]


def there_and_back(
    shape: tuple[int, ...], scale: float, zero_point: int, storage: str = "i8", to: tuple[int, ...] | None = None
) -> Program:
    """Quantized, dequantized and reshaped; beside a convolution, which says that channels are dimension 1."""
    real, result = (f"tensor<{'x'.join(map(str, sizes))}xf32>" for sizes in (shape, to or shape))
    stored = real.replace("xf32>", f"x!quant.uniform<{storage}:f32, {_literal(scale)}:{zero_point}>>")
    return parse_program(f"""
module attributes {{zeropoint.profile = "fixed16"}} {{
func.func @main(%x: {real}, %w: tensor<1x1x1x1xf32>) -> ({result}, tensor<1x1x1x1xf32>) {{
  %q = stablehlo.uniform_quantize %x : ({real}) -> {stored}
  %y = stablehlo.uniform_dequantize %q : ({stored}) -> {real}
  %c = stablehlo.convolution(%w, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{stride = [1, 1], pad = [[0, 0], [0, 0]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32>
  {"%z = stablehlo.reshape %y : " + f"({real}) -> {result}" if to else ""}
  return {"%z" if to else "%y"}, %c : {result}, tensor<1x1x1x1xf32>
}}
}}
""")


def _literal(scale: float) -> str:
    """A float as MLIR reads it: digits on both sides of a point."""
    mantissa, _, exponent = repr(scale).partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def values(shape: tuple[int, ...], scale: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Ties, values next to them, values past the storage range, and those that floats have beside numbers."""
    random = np.random.default_rng(seed)
    ties = np.float32(scale) * random.integers(-600, 600, shape).astype(np.float32) / 2
    x = np.nextafter(ties, random.choice([-np.inf, 0, np.inf], shape).astype(np.float32))
    chosen = random.random(shape) < 0.2
    x[chosen] = random.choice(np.array(SPECIAL, np.float32), int(chosen.sum()))
    return {"arg0": x, "arg1": np.ones((1, 1, 1, 1), np.float32)}


SHAPES = [
    (1, 3, 5, 17), (1, 4, 33, 16), (2, 5, 3, 16), (1, 16, 7, 7), (2, 17, 9, 23), (1, 70, 4, 40), (1, 144, 28, 28),
    (2, 64, 2, 31), (1, 130, 1, 19), (1, 8, 2, 3), (3, 70), (5,), (2, 3, 33),
]  # fmt: skip


@INSTRUCTION_SETS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats_are_stored_and_expressed_as_the_interpreter_has_it(isa, shape) -> None:
    program = there_and_back(shape, 0.037, -11)
    assert_native_is_exact(program, [values(shape, 0.037)], isa, threads=(1, 3))


@INSTRUCTION_SETS
@pytest.mark.parametrize(
    ("scale", "zero_point", "storage"),
    [
        (1.0, 3, "i8"), (0.1, -128, "i8"), (0.1, 127, "i8"), (2.0**-70, 5, "i8"), (2.0**70, 5, "i8"), (1e-40, 0, "i8"),
        (1.9999998807907104, -7, "i8"), (0.3, 0, "i8<-127:127>"), (0.3, -4, "i8<-5:3>"), (0.3, 2, "i8<2:3>"),
    ],
)  # fmt: skip
def test_every_scale_zero_point_and_range_is_stored_exactly(isa, scale, zero_point, storage) -> None:
    shape = (1, 18, 4, 100)
    program = there_and_back(shape, scale, zero_point, storage)
    assert_native_is_exact(program, [values(shape, scale)], isa)


def test_every_step_between_two_stored_integers_is_where_the_interpreter_has_it() -> None:
    """Neighbouring floats around every tie."""
    for scale, zero_point in ((0.05, 3), (1 / 3, -20), (0.0078125, 0)):
        ties = (np.arange(-256, 257) - 0.5 - zero_point).astype(np.float32) * np.float32(scale)
        around = [ties]
        for towards in (-np.inf, np.inf):
            x = ties
            for _ in range(4):
                x = np.nextafter(x, np.float32(towards))
                around.append(x)
        x = np.concatenate(around)
        program = there_and_back(x.shape, scale, zero_point)
        inputs = {"arg0": x, "arg1": np.ones((1, 1, 1, 1), np.float32)}
        native = NativeProgram(program, isa=HERE[0])(inputs)
        expected = Interpreter(program)(inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(native[name], array)


def test_images_have_kernels_of_their_own_and_no_loop_nest() -> None:
    for shape in SHAPES:
        if len(shape) == 4 and shape[1] > 4 and shape[2] * shape[3] >= 16:
            kinds = kernels_of_steps(there_and_back(shape, 0.5, 0))
            assert kinds[:2] == ["QuantizePlanes", "DequantizePlanes"]


@pytest.mark.parametrize("scale", [1e-40, 2.0**-70, 2.0**70, float(np.nextafter(np.float32(2), np.float32(0)))])
def test_a_scale_at_the_end_of_f32_has_no_saturating_floats(scale: float) -> None:
    assert saturating(scale, 0, -128, 127) is None


def test_saturating_floats_are_stored_as_the_bounds() -> None:
    assert saturating(0.5, 3, -128, 127) == (-65.5, 62.0)


@INSTRUCTION_SETS
def test_a_reciprocal_scale_is_multiplied_by_per_layer_and_per_channel(isa) -> None:
    """XNNPACK's quantize: x * (1 / s), which rounds otherwise than x / s here and there."""
    program = parse_program(
        """module attributes {zeropoint.profile = "xnnpack"} {
        func.func @main(%x: tensor<2x2001xf32> {zeropoint.name = "x"}) -> (tensor<2x2001xf32>, tensor<2x2001xf32>) {
          %0 = stablehlo.uniform_quantize %x
            : (tensor<2x2001xf32>) -> tensor<2x2001x!quant.uniform<i8:f32, 0.06:5>>
          %1 = stablehlo.uniform_dequantize %0
            : (tensor<2x2001x!quant.uniform<i8:f32, 0.06:5>>) -> tensor<2x2001xf32>
          %2 = stablehlo.uniform_quantize %x
            : (tensor<2x2001xf32>) -> tensor<2x2001x!quant.uniform<i8:f32:0, {0.06:5, 0.03:-7}>>
          %3 = stablehlo.uniform_dequantize %2
            : (tensor<2x2001x!quant.uniform<i8:f32:0, {0.06:5, 0.03:-7}>>) -> tensor<2x2001xf32>
          return %1, %3 : tensor<2x2001xf32>, tensor<2x2001xf32>
        }}"""
    )
    halves = (np.arange(-1000, 1001) * np.float32(0.03)).astype(np.float32)
    halves[:3] = np.inf, -np.inf, np.nan
    assert_native_is_exact(program, [{"x": np.stack([halves, halves])}], isa)


@INSTRUCTION_SETS
@pytest.mark.parametrize(
    ("shape", "to"),
    [((1, 18, 1, 100), (1, 18, 100)), ((2, 17, 9, 23), (2, 3519)), ((1, 64, 4, 16), (64, 64, 1))],
    ids=str,
)
def test_floats_are_expressed_in_the_shape_in_which_they_are_returned(isa, shape, to) -> None:
    program = there_and_back(shape, 0.037, -11, to=to)
    kinds = [kernels_of_steps(made, isa) for made in (program, there_and_back(shape, 0.037, -11))]
    assert "DequantizePlanes" in kinds[0]
    assert kinds[0] == kinds[1]
    assert_native_is_exact(program, [values(shape, 0.037)], isa, threads=(1, 3))
