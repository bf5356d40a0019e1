"""Sums of products of unsigned storage, 16-bit activations, two activations with zero points; requantized at once."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType

from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvertOp, ConvolutionOp, DotGeneralOp, SubtractOp, XorOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_io, integer_program

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double", "float32-rne", "onnxruntime")


def q(shape: str, scale: float, zero_point: int = 0, storage: str = "i8") -> str:
    return f"tensor<{shape}x!quant.uniform<{storage}:f32, {scale}:{zero_point}>>"


def channels(shape: str, axis: int, scales: tuple[float, ...], storage: str = "i8") -> str:
    listed = ", ".join(f"{scale}:0" for scale in scales)
    return f"tensor<{shape}x!quant.uniform<{storage}:f32:{axis}, {{{listed}}}>>"


def program(body: str, arguments: dict[str, str], result: str, profile: str) -> Program:
    ports = ", ".join(f"%{name}: {kind}" for name, kind in arguments.items())
    return parse_program(
        f'module attributes {{zeropoint.profile = "{profile}"}} {{\n'
        f"func.func @main({ports}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}"
    )


def assert_exact(given: Program, *arrays: Array) -> Program:
    """The lowered program computes the same storage integers."""
    lowered = integer_program(given)
    verify(lowered.module)
    (expected,), (found,) = (Interpreter(each).run_values(arrays) for each in (given, lowered))
    np.testing.assert_array_equal(found, expected)
    return lowered


def of_type(program: Program, kind: type) -> list:
    return [op for op in program.entry.ops if isinstance(op, kind)]


def full_range(dtype: type, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Values of the whole range, its ends among them."""
    info = np.iinfo(dtype)
    array = np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)
    array[0], array[-1] = info.min, info.max
    return array


DTYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("storage", DTYPES)
def test_a_product_that_requantizes_its_sums_itself(storage: str, profile: str) -> None:
    weights = channels("24x3", 1, (0.01, 0.5, 0.02), "i8" if storage[1:] == "8" else "i16")
    given = q("40x24", 0.03, 0 if storage[0] == "i" else 1 << (int(storage[1:]) - 1), storage)
    result = q("40x3", 7.0 if storage[1:] == "8" else 3.0, 5, storage)
    stored = np.random.default_rng(1).integers(-127, 128, (24, 3)).tolist()
    body = f"""%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<24x3xi{storage[1:]}>}}> : () -> {weights}
      %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({given}, {weights}) -> {result}"""
    lowered = assert_exact(program(body, {"x": given}, result, profile), full_range(DTYPES[storage], (40, 24)))
    assert len(of_type(lowered, RequantizeOp)) == 1


def sixteen_by_eight(terms: int, bias: int, out_scale: float, profile: str = "fixed32-double") -> Program:
    """A channel of `terms` weights of 127 and one with one weight, a bias for both, requantized to i16."""
    wide = channels("1x2", 1, (0.25, 0.25), "i32")
    given, weights = q(f"1x{terms}", 0.5, 0, "i16"), channels(f"{terms}x2", 1, (0.5, 0.5), "i16<-127:127>")
    added, result = channels("2", 0, (0.25, 0.25), "i32"), q("1x2", out_scale, 0, "i16")
    stored = [[127, 0]] * (terms - 1) + [[127, 1]]
    body = f"""%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<{terms}x2xi16>}}> : () -> {weights}
      %b = stablehlo.constant() <{{value = dense<{bias}> : tensor<2xi32>}}> : () -> {added}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({given}, {weights}) -> {wide} loc("the op")
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : ({added}) -> {wide}
      %2 = stablehlo.add %0, %1 : {wide}
      %r = stablehlo.uniform_quantize %2 : ({wide}) -> {result}"""
    return program(body, {"x": given}, result, profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("terms", "accumulator"), [(500, 32), (600, 64), (5000, 64)])
def test_sums_of_16_bit_activations_are_of_64_bits_where_32_might_not_hold_them(
    terms: int, accumulator: int, profile: str
) -> None:
    """At 2^-14 a step of the output is 2^14 of the accumulator: it clamps long before 32 bits do."""
    given = sixteen_by_eight(terms, -(2**20), 0.25 * 2.0**14, profile)
    lowered = integer_program(given)
    verify(lowered.module)
    (dot,) = of_type(lowered, DotGeneralOp)
    assert element_of(dot.result) == IntegerType(accumulator)
    before, after = Interpreter(given), Interpreter(lowered)
    for value in (-32768, -32767, -20000, -1, 0, 3, 20000, 32767):
        x = np.full((1, terms), value, np.int16)
        x[0, ::7] //= 2
        np.testing.assert_array_equal(after.run_values([x])[0], before.run_values([x])[0])


@pytest.mark.parametrize(("bias", "out_scale"), [(0, 2.0**16), (2**31 - 1, 2.0**14), (-(2**31), 2.0**14)])
def test_sums_that_saturate_inside_of_the_output_range_do_so_in_the_integer_program(
    bias: int, out_scale: float
) -> None:
    given = sixteen_by_eight(5000, bias, 0.25 * out_scale)
    for value in (-32768, -20000, 0, 32767):
        assert_exact(given, np.full((1, 5000), value, np.int16))


def test_weights_of_8_bits_beside_16_bit_activations_are_stored_in_8() -> None:
    lowered = integer_program(sixteen_by_eight(3, 7, 1.0))
    (convert,) = of_type(lowered, ConvertOp)
    assert (element_of(convert.operand), element_of(convert.result)) == (IntegerType(8), IntegerType(16))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_padded_convolution_of_asymmetric_16_bits_is_padded_with_its_zero_point(profile: str) -> None:
    given, weights = q("1x2x4x4", 0.5, 900, "i16"), q("3x2x3x3", 0.5, 0, "i16<-127:127>")
    result = q("1x3x4x4", 30.0, -70, "i16")
    stored = np.random.default_rng(2).integers(-127, 128, (3, 2, 3, 3)).tolist()
    body = f"""%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<3x2x3x3xi16>}}> : () -> {weights}
      %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} :
        ({given}, {weights}) -> {result}"""
    lowered = assert_exact(program(body, {"x": given}, result, profile), full_range(np.int16, (1, 2, 4, 4)))
    assert len(of_type(lowered, ConvolutionOp)) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_two_activations_less_their_zero_points_are_multiplied_as_they_are(profile: str) -> None:
    """The `uniform_quantize` to 16 bits at the same scale is a subtraction in the integer program."""
    x, y = q("9x16", 0.5, -100), q("16x9", 0.25, 93)
    wide = [q("9x16", 0.5, 0, "i16"), q("16x9", 0.25, 0, "i16"), q("9x9", 0.125, 0, "i32")]
    result = q("9x9", 11.0, 4)
    body = f"""%0 = stablehlo.uniform_quantize %x : ({x}) -> {wide[0]}
      %1 = stablehlo.uniform_quantize %y : ({y}) -> {wide[1]}
      %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : ({wide[0]}, {wide[1]}) -> {wide[2]}
      %r = stablehlo.uniform_quantize %2 : ({wide[2]}) -> {result}"""
    given = program(body, {"x": x, "y": y}, result, profile)
    lowered = assert_exact(given, full_range(np.int8, (9, 16)), full_range(np.int8, (16, 9), 1))
    assert len(of_type(lowered, RequantizeOp)) == 1
    assert len(of_type(lowered, SubtractOp)) == 2


@pytest.mark.parametrize("profile", ["fixed32", "tosa-double", "float32-rne"])
def test_a_product_of_16_bits_with_zero_points_has_64_bits(profile: str) -> None:
    given, result = q("1x64", 0.5, 20000, "i16"), q("1x64", 40000.0, 0, "i16")
    body = f"%r = stablehlo.multiply %x, %x : ({given}, {given}) -> {result}"
    assert_exact(program(body, {"x": given}, result, profile), full_range(np.int16, (1, 64)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("storage", ["u8", "u16"])
def test_unsigned_storage_is_signed_in_the_integer_program(storage: str, profile: str) -> None:
    """Quantized, moved, bounded, dequantized: half the range less everywhere, the real values the same."""
    half = 1 << (int(storage[1:]) - 1)
    kind, scalar = q("4x8", 0.25, half + 3, storage), q("", 0.25, half + 3, storage).replace("<x!", "<!")
    low = f"stablehlo.constant() <{{value = dense<{-half + 2}> : tensor<i{storage[1:]}>}}> : () -> {scalar}"
    body = f"""%0 = stablehlo.uniform_quantize %x : (tensor<4x8xf32>) -> {kind}
      %low = {low}
      %1 = stablehlo.pad %0, %low, low = [0, 0], high = [0, 0], interior = [0, 0] : ({kind}, {scalar}) -> {kind}
      %2 = stablehlo.maximum %1, %1 : {kind}
      %r = stablehlo.uniform_dequantize %2 : ({kind}) -> tensor<4x8xf32>"""
    given = program(body, {"x": "tensor<4x8xf32>"}, "tensor<4x8xf32>", profile)
    x = (np.arange(32, dtype=np.float32).reshape(4, 8) - 16) * np.float32(0.125) + np.float32(1e-7)
    x[0] *= 1e6
    lowered = assert_exact(given, x)
    stored = integer_io(lowered)
    verify(stored.module)
    assert {str(element_of(value)) for value in stored.entry.args} == {f"i{storage[1:]}"}


def test_the_highest_bit_flips_where_rounding_depends_on_the_zero_point() -> None:
    kind = q("4", 0.25, 131, "u8")
    body = f"""%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {kind}
      %1 = stablehlo.reverse %0, dims = [0] : {kind}
      %r = stablehlo.uniform_dequantize %1 : ({kind}) -> tensor<4xf32>"""
    for profile, flips in (("fixed32", 1), ("onnxruntime", 0), ("fixed32-double", 0)):
        given = program(body, {"x": "tensor<4xf32>"}, "tensor<4xf32>", profile)
        assert len(of_type(integer_program(given), XorOp)) == flips


@pytest.mark.parametrize("profile", ["fixed32", "onnxruntime"])
def test_a_table_of_unsigned_storage_is_exact(profile: str) -> None:
    given, result = q("1x256", 0.05, 100, "u8"), q("1x256", 1 / 256, 0, "u8")
    body = f"""%0 = stablehlo.uniform_dequantize %x : ({given}) -> tensor<1x256xf32>
      %1 = stablehlo.logistic %0 : tensor<1x256xf32>
      %2 = stablehlo.uniform_quantize %1 : (tensor<1x256xf32>) -> {result}
      %r = stablehlo.uniform_dequantize %2 : ({result}) -> tensor<1x256xf32>"""
    before = program(body, {"x": given}, "tensor<1x256xf32>", profile)
    assert_exact(before, np.arange(256, dtype=np.uint8).reshape(1, 256))
