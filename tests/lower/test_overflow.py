"""Quantized programs whose sums and products leave 32 bits: the integer program computes what they compute.

A quantized value of 32 bits saturates (`quantize` of the StableHLO specification clamps), and so must its integers.
Every program is judged by exact Python integers (`exact.py`): interpreted before and after lowering, and native code.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from lower.exact import evaluate
from standard.exact_arithmetic import Exact, requantized
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, integer_program, lower

INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)
I8 = "!quant.uniform<i8:f32, 1.0>"
ACC = "!quant.uniform<i32:f32, 1.0>"


def program(body: str, arguments: list[str], result: str, profile: str = "fixed32") -> Program:
    given = ", ".join(f"%{name}: {kind}" for name, kind in zip("xyzw", arguments, strict=False))
    return parse_program(
        f'module attributes {{zeropoint.profile = "{profile}"}} {{\n'
        f"func.func @main({given}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}"
    )


def assert_exact(given: Program, *arrays: Array, native: bool = True) -> tuple[Program, list[int]]:
    """Exact integers, the interpreter before and after lowering, and native code agree; the lowered program, and what
    it computed.
    """
    lowered = integer_program(given)
    verify(lowered.module)
    profile = given.profile
    assert profile is not None
    (expected,) = evaluate(given, arrays, profile)
    for each in (given, lowered):
        (found,) = Interpreter(each).run_values(arrays)
        assert found.reshape(-1).tolist() == expected
    if native:
        code = NativeProgram(lowered)
        (found,) = code(dict(zip([port.name for port in code.inputs], arrays, strict=True))).values()
        assert found.reshape(-1).tolist() == expected
    return lowered, expected


def ops(program: Program, kind: type[Operation]) -> list[Operation]:
    return [op for op in program.entry.ops if isinstance(op, kind)]


def t(shape: str, element: str) -> str:
    return f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>"


DOT = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<4x1xi8>}}> : () -> {t("4x1", I8)}
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({t("1x4", I8)}, {t("4x1", I8)}) -> {t("1x1", ACC)}
"""


def test_a_bias_that_is_an_argument_saturates() -> None:
    body = (
        DOT
        + f"""%1 = stablehlo.add %0, %y : {t("1x1", ACC)}
      %r = stablehlo.uniform_quantize %1 : ({t("1x1", ACC)}) -> {t("1x1", I8)}"""
    )
    given = program(body, [t("1x4", I8), t("1x1", ACC)], t("1x1", I8))
    x = np.full((1, 4), 127, np.int8)
    for bias, expected in ((INT32_MAX, 127), (INT32_MIN, -128), (-4 * 127 * 127 - 5, -5), (0, 127)):
        _, found = assert_exact(given, x, np.full((1, 1), bias, np.int32))
        assert found == [expected]


def test_an_accumulator_that_is_read_twice_with_a_constant_bias_saturates() -> None:
    body = (
        DOT
        + f"""%b = stablehlo.constant() <{{value = dense<{INT32_MAX}> : tensor<1x1xi32>}}> : () -> {t("1x1", ACC)}
      %1 = stablehlo.add %0, %b : {t("1x1", ACC)}
      %2 = stablehlo.uniform_quantize %1 : ({t("1x1", ACC)}) -> {t("1x1", I8)}
      %3 = stablehlo.uniform_quantize %0 : ({t("1x1", ACC)}) -> {t("1x1", I8)}
      %r = stablehlo.minimum %2, %3 : {t("1x1", I8)}"""
    )
    _, found = assert_exact(program(body, [t("1x4", I8)], t("1x1", I8)), np.full((1, 4), 127, np.int8))
    assert found == [127]


def test_a_convolution_by_weights_with_a_zero_point_and_a_constant_bias_saturates() -> None:
    weights = "!quant.uniform<i8:f32, 1.0:-1>"
    body = f"""%w = stablehlo.constant() <{{value = dense<126> : tensor<1x4x1x1xi8>}}> : () -> {t("1x4x1x1", weights)}
      %b = stablehlo.constant() <{{value = dense<{INT32_MAX}> : tensor<1x1x1x1xi32>}}> : () -> {t("1x1x1x1", ACC)}
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} :
        ({t("1x4x1x1", I8)}, {t("1x4x1x1", weights)}) -> {t("1x1x1x1", ACC)}
      %1 = stablehlo.add %0, %b : {t("1x1x1x1", ACC)}
      %r = stablehlo.uniform_quantize %1 : ({t("1x1x1x1", ACC)}) -> {t("1x1x1x1", I8)}"""
    given = program(body, [t("1x4x1x1", I8)], t("1x1x1x1", I8))
    _, found = assert_exact(given, np.full((1, 4, 1, 1), 127, np.int8))
    assert found == [127]
    assert_exact(given, np.full((1, 4, 1, 1), -128, np.int8))


def test_the_sum_of_an_accumulator_with_itself_saturates() -> None:
    terms = 60_000
    given, out = "!quant.uniform<i8:f32, 1.0:-128>", "!quant.uniform<i8:f32, 16777216.0>"
    body = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<{terms}x1xi8>}}> : () -> {t(f"{terms}x1", I8)}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        ({t(f"1x{terms}", given)}, {t(f"{terms}x1", I8)}) -> {t("1x1", ACC)}
      %1 = stablehlo.add %0, %0 : {t("1x1", ACC)}
      %r = stablehlo.uniform_quantize %1 : ({t("1x1", ACC)}) -> {t("1x1", out)}"""
    made = program(body, [t(f"1x{terms}", given)], t("1x1", out))
    for value, expected in ((127, 127), (-127, 1), (0, 116)):
        _, found = assert_exact(made, np.full((1, terms), value, np.int8))
        assert found == [expected]


def reduced(rows: int, stored: int, bias: str = "") -> Program:
    body = f"""%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<4x1xi8>}}> : () -> {t("4x1", I8)}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        ({t(f"{rows}x4", I8)}, {t("4x1", I8)}) -> {t(f"{rows}x1", ACC)}
      %1 = stablehlo.add %0, %y : {t(f"{rows}x1", ACC)}
      %c = stablehlo.constant() <{{value = dense<0> : tensor<i32>}}> : () -> {t("", ACC)}
      %2 = "stablehlo.reduce"(%1, %c) ({{
        ^bb0(%a: {t("", ACC)}, %b: {t("", ACC)}):
          %s = stablehlo.add %a, %b : {t("", ACC)}
          stablehlo.return %s : {t("", ACC)}
      }}) {{dimensions = array<i64: 0>}} : ({t(f"{rows}x1", ACC)}, {t("", ACC)}) -> {t("1", ACC)}
      %r = stablehlo.uniform_quantize %2 : ({t("1", ACC)}) -> {t("1", I8)}"""
    return program(body, [t(f"{rows}x4", I8), t(f"{rows}x1", ACC)], t("1", I8))


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 11])
def test_a_sum_over_accumulators_saturates_once_as_it_does_when_quantized(rows: int) -> None:
    given = reduced(rows, 127)
    x = np.full((rows, 4), 127, np.int8)
    random = np.random.default_rng(rows)
    for bias in (INT32_MAX, INT32_MIN, 0):
        assert_exact(given, x, np.full((rows, 1), bias, np.int32))
    for _ in range(5):
        extremes = random.choice([INT32_MAX, INT32_MIN, 2**30, -(2**30), 5], (rows, 1)).astype(np.int32)
        assert_exact(given, x, extremes)


def test_the_product_of_two_32_bit_values_saturates() -> None:
    body = f"""%0 = stablehlo.multiply %x, %y : {t("4", ACC)}
      %r = stablehlo.uniform_quantize %0 : ({t("4", ACC)}) -> {t("4", I8)}"""
    given = program(body, [t("4", ACC), t("4", ACC)], t("4", I8))
    x = np.array([65536, INT32_MAX, INT32_MIN, 3], np.int32)
    y = np.array([65536, INT32_MIN, INT32_MIN, -7], np.int32)
    _, found = assert_exact(given, x, y)
    assert found == [127, -128, 127, -21]


@pytest.mark.parametrize("points", [(1, 2), (-100, 100), (0, 5), (-127, 0)])
def test_weights_with_a_zero_point_for_each_channel(points: tuple[int, int]) -> None:
    weights = t("2x4x2x2", f"!quant.uniform<i8:f32:0, {{1.0:{points[0]}, 1.0:{points[1]}}}>")
    sums, out = "!quant.uniform<i32:f32:1, {1.0, 1.0}>", "!quant.uniform<i8:f32, 300.0:3>"
    stored = np.random.default_rng(0).integers(-100, 128, (2, 4, 2, 2)).tolist()
    padded = "window = {pad = [[1, 0], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    given = "!quant.uniform<i8:f32, 1.0:-7>"
    body = f"""%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<2x4x2x2xi8>}}> : () -> {weights}
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], {padded} :
        ({t("1x4x3x3", given)}, {weights}) -> {t("1x2x3x3", sums)}
      %r = stablehlo.uniform_quantize %0 : ({t("1x2x3x3", sums)}) -> {t("1x2x3x3", out)}"""
    made = program(body, [t("1x4x3x3", given)], t("1x2x3x3", out))
    assert_exact(made, np.random.default_rng(1).integers(-128, 128, (1, 4, 3, 3)).astype(np.int8))


@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
@pytest.mark.parametrize(("terms", "weight", "out_scale"), [(600, 127, 2.0**14), (600, 127, 2.0**18), (3, 1, 0.5)])
def test_16_bit_activations_with_their_zero_point_at_an_end(
    terms: int, weight: int, out_scale: float, profile: str
) -> None:
    given = "!quant.uniform<i16:f32, 1.0:-32768>"
    weights, out = t(f"{terms}x1", "!quant.uniform<i16<-127:127>:f32, 1.0>"), f"!quant.uniform<i16:f32, {out_scale}>"
    body = f"""%w = stablehlo.constant() <{{value = dense<{weight}> : tensor<{terms}x1xi16>}}> : () -> {weights}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        ({t(f"1x{terms}", given)}, {weights}) -> {t("1x1", ACC)}
      %r = stablehlo.uniform_quantize %0 : ({t("1x1", ACC)}) -> {t("1x1", out)}"""
    made = program(body, [t(f"1x{terms}", given)], t("1x1", out), profile)
    for value in (-32768, -32767, 0, 32767):
        assert_exact(made, np.full((1, terms), value, np.int16))


def test_sums_of_8_bit_operands_that_pass_32_bits_saturate() -> None:
    terms = 140_000  # 127 * 127 of them are past 2^31
    out = "!quant.uniform<i8:f32, 33554432.0>"
    body = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<{terms}x1xi8>}}> : () -> {t(f"{terms}x1", I8)}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        ({t(f"1x{terms}", I8)}, {t(f"{terms}x1", I8)}) -> {t("1x1", ACC)}
      %r = stablehlo.uniform_quantize %0 : ({t("1x1", ACC)}) -> {t("1x1", out)}"""
    given = program(body, [t(f"1x{terms}", I8)], t("1x1", out))
    lowered, found = assert_exact(given, np.full((1, terms), 127, np.int8))
    assert found == [64]
    (dot,) = ops(lowered, DotGeneralOp)
    assert element_of(dot.results[0]) == IntegerType(64)


@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
@pytest.mark.parametrize("terms", [3, 600, 70_000])
def test_accumulators_that_are_said_to_have_64_bits_do_not_saturate(terms: int, profile: str) -> None:
    wide, out = "!quant.uniform<i16:f32, 1.0>", f"!quant.uniform<i16:f32, {terms * 127.0}>"
    weights, acc = t(f"{terms}x1", "!quant.uniform<i16<-127:127>:f32, 1.0>"), t("1x1", ACC)
    body = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<{terms}x1xi16>}}> : () -> {weights}
      %b = stablehlo.constant() <{{value = dense<{INT32_MAX}> : tensor<1x1xi32>}}> : () -> {acc}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {{zeropoint.accumulator = i64}} :
        ({t(f"1x{terms}", wide)}, {weights}) -> {acc}
      %1 = stablehlo.add %0, %b {{zeropoint.accumulator = i64}} : {acc}
      %r = stablehlo.uniform_quantize %1 : ({acc}) -> {t("1x1", out)}"""
    made = program(body, [t(f"1x{terms}", wide)], t("1x1", out), profile)
    for value in (-32768, 17, 32767):
        _, found = assert_exact(made, np.full((1, terms), value, np.int16))
        exact = (value * terms * 127 + INT32_MAX) / (terms * 127)
        assert abs(found[0] - max(min(exact, 32767), -32768)) <= 1.5


@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
@pytest.mark.parametrize("ratio", [1.0, 1.75, 3.0, 1000.0, 2.0**20])
@pytest.mark.parametrize("storage", ["i8", "i16", "i32"])
def test_every_accumulator_has_one_definition_where_a_multiplier_shifts_left(
    storage: str, ratio: float, profile: str
) -> None:
    if storage == "i32" and ratio > 2.0**16:
        pytest.skip("refused: 32 bits of storage take multipliers up to 2^16")
    given, out = f"!quant.uniform<i32:f32, {ratio}>", f"!quant.uniform<{storage}:f32, 1.0>"
    numbers = [
        0,
        1,
        -1,
        127,
        -128,
        2**29,
        2**30,
        -(2**30),
        2**30 + 1,
        INT32_MAX - 1,
        INT32_MAX,
        INT32_MIN,
        INT32_MIN + 1,
    ]
    shape = str(len(numbers))
    body = f"%r = stablehlo.uniform_quantize %x : ({t(shape, given)}) -> {t(shape, out)}"
    assert_exact(program(body, [t(shape, given)], t(shape, out), profile), np.array(numbers, np.int32))


@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
def test_sums_of_16_bit_activations_that_requantize_themselves_have_64_bits(profile: str) -> None:
    terms = 3000
    wide, out = "!quant.uniform<i16:f32, 1.0>", f"!quant.uniform<i16:f32, {3000 * 2.0**15}>"
    body = f"""%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] :
        ({t(f"1x{terms}", wide)}, {t(f"{terms}x1", wide)}) -> {t("1x1", out)}"""
    made = program(body, [t(f"1x{terms}", wide), t(f"{terms}x1", wide)], t("1x1", out), profile)
    for a, b in ((32767, 32767), (-32768, -32768), (-32768, 32767), (1, 5)):
        assert_exact(made, np.full((1, terms), a, np.int16), np.full((terms, 1), b, np.int16))


@pytest.mark.parametrize("bias", [INT32_MAX - 5 * 127 * 127, INT32_MIN + 5 * 128 * 127])
def test_native_code_has_room_for_the_rounding_term_of_fixed16(bias: int) -> None:
    """The accumulator fits 32 bits; with 2^(s-1), which kernels add to the bias, it would not."""
    out = f"!quant.uniform<i8:f32, {2.0**25}>"
    acc = t("3x1", ACC)
    body = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<4x1xi8>}}> : () -> {t("4x1", I8)}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({t("3x4", I8)}, {t("4x1", I8)}) -> {acc}
      %b = stablehlo.constant() <{{value = dense<{bias}> : tensor<1xi32>}}> : () -> {t("1", ACC)}
      %c = stablehlo.broadcast_in_dim %b, dims = [1] : ({t("1", ACC)}) -> {acc}
      %1 = stablehlo.add %0, %c : {acc}
      %r = stablehlo.uniform_quantize %1 : ({acc}) -> {t("3x1", out)}"""
    lowered = integer_program(program(body, [t("3x4", I8)], t("3x1", out), "fixed16"))
    assert [element_of(op.results[0]) for op in ops(lowered, AddOp)] == [IntegerType(32)]
    x = np.array([[127] * 4, [-128] * 4, [5] * 4], np.int8)
    code = NativeProgram(lowered)
    np.testing.assert_array_equal(code({code.inputs[0].name: x})["result0"], Interpreter(lowered).run_values([x])[0])


def test_a_weighted_sum_of_narrow_storage_is_computed_in_64_bits() -> None:
    """Its factors fill 32 bits for the storage bounds -8..7. The verifier knows only the type, i8."""
    lhs, rhs, out = ("!quant.uniform<i8<-8:7>:f32, 3.7:7>", "!quant.uniform<i8<-8:7>:f32, 1.3>", I8)
    body = f"%r = stablehlo.add %x, %y : ({t('256', lhs)}, {t('256', rhs)}) -> {t('256', out)}"
    x, y = (each.reshape(-1).astype(np.int8) for each in np.meshgrid(range(-8, 8), range(-8, 8)))
    lowered = integer_program(program(body, [t("256", lhs), t("256", rhs)], t("256", out)))
    assert not ops(lowered, WeightedSumOp)
    native = NativeProgram(lowered)
    (coded,) = native({native.inputs[0].name: x, native.inputs[1].name: y}).values()
    (found,) = Interpreter(lowered).run_values([x, y])
    assert np.array_equal(coded, found)
    real = 3.7 * (x.astype(np.float64) - 7) + 1.3 * y
    assert np.abs(found - real).max() < 0.5001


SCAST = f"%r = quant.scast %n : tensor<4xi8> to {t('4', I8)}"
REQUANTIZE = """%m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %s = stablehlo.constant dense<50> : tensor<1xi32>
  %r = "fxpmath.requantize"(%n, %m, %s) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>"""
WIDE = REQUANTIZE.replace("tensor<4xi32>, tensor<1", "tensor<4xi64>, tensor<1")
TOO_LARGE = {
    "a sum": (
        "%n = stablehlo.add %x, %y : tensor<4xi8>\n" + SCAST,
        ["tensor<4xi8>", "tensor<4xi8>"],
        t("4", I8),
        "found sums up to 256, expected at most 127 (i8); convert its operands to i64, clamp them, or split its sums",
    ),
    "a negated number": (
        "%n = stablehlo.negate %x : tensor<4xi8>\n" + SCAST,
        ["tensor<4xi8>"],
        t("4", I8),
        "found negated numbers up to 128, expected at most 127 (i8)",
    ),
    "a conversion to fewer bits": (
        "%n = stablehlo.convert %x : (tensor<4xi16>) -> tensor<4xi8>\n" + SCAST,
        ["tensor<4xi16>"],
        t("4", I8),
        "found numbers up to 32768, expected at most 127 (i8)",
    ),
    "a difference of the integers of a quantized value": (
        f"%0 = quant.scast %x : {t('4', I8)} to tensor<4xi8>\n%r = stablehlo.subtract %0, %y : tensor<4xi8>",
        [t("4", I8), "tensor<4xi8>"],
        "tensor<4xi8>",
        "found differences up to 255, expected at most 127 (i8)",
    ),
    "a sum of unsigned bytes": (
        "%n = stablehlo.add %x, %y : tensor<4xui8>\n"
        '%r = "fxpmath.table"(%n, %z) : (tensor<4xui8>, tensor<256xi8>) -> tensor<4xi8>',
        ["tensor<4xui8>", "tensor<4xui8>", "tensor<256xi8>"],
        "tensor<4xi8>",
        "found sums 0..510, expected 0..255 (ui8)",
    ),
    "a dot by the least weight of 64 bits": (
        """%0 = stablehlo.convert %x : (tensor<4x2xi8>) -> tensor<4x2xi64>
        %w = stablehlo.constant dense<[1, -9223372036854775808]> : tensor<2xi64>
        %n = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
          : (tensor<4x2xi64>, tensor<2xi64>) -> tensor<4xi64>
        """
        + WIDE,
        ["tensor<4x2xi8>"],
        "tensor<4xi8>",
        "found sums of products beyond 2^63, expected at most 9223372036854775807 (i64)",
    ),
    "a dot by weights of 64 bits without a sign": (
        """%0 = stablehlo.convert %x : (tensor<4x2xui8>) -> tensor<4x2xui64>
        %w = stablehlo.constant dense<[1, 18446744073709551615]> : tensor<2xui64>
        %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
          : (tensor<4x2xui64>, tensor<2xui64>) -> tensor<4xui64>
        %n = stablehlo.convert %1 : (tensor<4xui64>) -> tensor<4xi64>
        """
        + WIDE,
        ["tensor<4x2xui8>"],
        "tensor<4xi8>",
        "found sums of products beyond 2^63, expected 0..18446744073709551615 (ui64); clamp its operands, or split",
    ),
    "a negated constant of 64 bits": (
        """%c = stablehlo.constant dense<-9223372036854775808> : tensor<4xi64>
        %0 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi64>
        %1 = stablehlo.maximum %0, %c : tensor<4xi64>
        %2 = stablehlo.negate %c : tensor<4xi64>
        %n = stablehlo.minimum %1, %2 : tensor<4xi64>
        """
        + WIDE,
        ["tensor<4xi8>"],
        "tensor<4xi8>",
        "found negated numbers",
    ),
    "a conversion of a large constant without a sign": (
        """%c = stablehlo.constant dense<18446744073709551615> : tensor<4xui64>
        %0 = stablehlo.convert %c : (tensor<4xui64>) -> tensor<4xi32>
        %1 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi32>
        %n = stablehlo.minimum %0, %1 : tensor<4xi32>
        """
        + REQUANTIZE,
        ["tensor<4xi8>"],
        "tensor<4xi8>",
        "found numbers",
    ),
    "a dot": (
        "%n = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] "
        ": (tensor<4x140000xi8>, tensor<140000xi8>) -> tensor<4xi32>\n" + REQUANTIZE,
        ["tensor<4x140000xi8>", "tensor<140000xi8>"],
        "tensor<4xi8>",
        "found sums of products up to 2293760000, expected at most 2147483647 (i32)",
    ),
    "a product": (
        "%n = stablehlo.multiply %x, %y : tensor<4xi32>\n" + REQUANTIZE,
        ["tensor<4xi32>", "tensor<4xi32>"],
        "tensor<4xi8>",
        "found products up to 4611686018427387904, expected at most 2147483647 (i32)",
    ),
    "a magnitude before a reshape": (
        "%0 = stablehlo.abs %x : tensor<2x2xi32>\n"
        "%n = stablehlo.reshape %0 : (tensor<2x2xi32>) -> tensor<4xi32>\n" + REQUANTIZE,
        ["tensor<2x2xi32>"],
        "tensor<4xi8>",
        "found magnitudes up to 2147483648, expected at most 2147483647 (i32)",
    ),
    "a shift": (
        "%0 = stablehlo.constant dense<25> : tensor<4xi32>\n"
        "%1 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi32>\n"
        "%n = stablehlo.shift_left %1, %0 : tensor<4xi32>\n" + REQUANTIZE,
        ["tensor<4xi8>"],
        "tensor<4xi8>",
        "found shifted numbers up to 4294967296, expected at most 2147483647 (i32)",
    ),
    "a sum that a loop carries": (
        """%c = stablehlo.constant dense<0> : tensor<i32>
        %n, %i = stablehlo.while(%a = %x, %k = %c) : tensor<4xi32>, tensor<i32>
        cond {
          %p = stablehlo.constant dense<5> : tensor<i32>
          %q = stablehlo.compare LT, %k, %p : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %q : tensor<i1>
        } do {
          %p = stablehlo.constant dense<1> : tensor<i32>
          %k1 = stablehlo.add %k, %p : tensor<i32>
          %a1 = stablehlo.add %a, %y : tensor<4xi32>
          stablehlo.return %a1, %k1 : tensor<4xi32>, tensor<i32>
        }
        """
        + REQUANTIZE,
        ["tensor<4xi32>", "tensor<4xi32>"],
        "tensor<4xi8>",
        "found sums up to 4294967296, expected at most 2147483647 (i32)",
    ),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_written_integer_op_of_a_quantized_program_that_may_wrap_is_refused(what: str) -> None:
    body, arguments, result, message = TOO_LARGE[what]
    with pytest.raises(LoweringError) as caught:
        lower(program(body, arguments, result))
    assert message in str(caught.value)


def test_a_written_integer_op_that_is_proved_is_kept() -> None:
    body = f"""%0 = quant.scast %x : {t("4", I8)} to tensor<4xi8>
      %1 = stablehlo.convert %0 : (tensor<4xi8>) -> tensor<4xi32>
      %2 = stablehlo.multiply %1, %1 : tensor<4xi32>
      %low = stablehlo.constant dense<-128> : tensor<i32>
      %high = stablehlo.constant dense<127> : tensor<i32>
      %3 = stablehlo.clamp %low, %2, %high : (tensor<i32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
      %n = stablehlo.convert %3 : (tensor<4xi32>) -> tensor<4xi8>
      {SCAST}"""
    given = program(body, [t("4", I8)], t("4", I8))
    x = np.array([-128, -11, 3, 127], np.int8)
    for each in (given, integer_program(given)):
        (found,) = Interpreter(each).run_values([x])
        assert found.tolist() == [127, 121, 9, 127]


def test_integers_that_no_quantized_value_reads_wrap_around_as_stablehlo_has_it() -> None:
    """Indices and hashes of the user's own."""
    body = f"""%h = stablehlo.multiply %y, %y : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %i = stablehlo.add %h, %one : tensor<1xi32>
      %s = stablehlo.reshape %i : (tensor<1xi32>) -> tensor<i32>
      %r = stablehlo.dynamic_slice %x, %s, sizes = [4] : ({t("8", I8)}, tensor<i32>) -> {t("4", I8)}"""
    given = program(body, [t("8", I8), "tensor<1xi32>"], t("4", I8))
    x = np.arange(8, dtype=np.int8)
    for each in (given, integer_program(given)):
        (found,) = Interpreter(each).run_values([x, np.array([65536], np.int32)])
        assert found.tolist() == [1, 2, 3, 4]


def test_a_maximum_of_windows_without_padding_is_one_of_the_elements() -> None:
    """The initial value, the least i32, is not a bound: this is how an exported softmax finds its maximum."""
    text = """func.func @main(%x: tensor<1x8x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1xi32> {
      %0 = "quant.scast"(%x) : (tensor<1x8x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x8xi8>
      %1 = stablehlo.convert %0 : (tensor<1x8xi8>) -> tensor<1x8xi32>
      %least = stablehlo.constant dense<-2147483648> : tensor<i32>
      %2 = "stablehlo.reduce_window"(%1, %least) <{window_dimensions = array<i64: 1, 8>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.maximum %a, %b : tensor<i32>
        stablehlo.return %m : tensor<i32>
      }) : (tensor<1x8xi32>, tensor<i32>) -> tensor<1x1xi32>
      %3 = stablehlo.subtract %2, %2 : tensor<1x1xi32>
      return %3 : tensor<1x1xi32>
    }"""
    lower(parse_program(text))
    with pytest.raises(LoweringError, match="found differences up to 2147483775"):
        lower(
            parse_program(
                text.replace(
                    "array<i64: 1, 8>", "array<i64: 1, 8>, padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>"
                ).replace("tensor<1x1xi32>", "tensor<2x1xi32>")
            )
        )


@pytest.mark.parametrize(
    ("behaviour", "multiplier", "shift"),
    [
        *(("fixed32", m, n) for m, n in [(2**31 - 1, 0), (2**31 - 1, 30), (2**31 - 1, 31), (2**31 - 1, 62)]),
        *(("fixed32", m, n) for m, n in [(2**30, 50), (2**30 - 1, -2), (5, 3), (2**16, 40)]),
        *(("pot", 1, n) for n in (-31, 0, 40, 62)),
        *(("tosa-double", m, n) for m, n in [(2**31 - 1, 2), (2**30, 62)]),
        *(("fixed32-double", m, n) for m, n in [(2**31 - 1, 30), (2**31 - 1, -31)]),
    ],
)
def test_any_accumulator_of_64_bits_is_requantized(behaviour: str, multiplier: int, shift: int) -> None:
    numbers = [0, 1, -1, 2**31, 2**33, -(2**40), 2**45 + 3, 2**62, -(2**53) - 7, 2**57 + 9, 2**63 - 1, -(2**63)]
    text = f"""func.func @main(%x: tensor<12xi64>) -> tensor<12xi16> {{
      %m = stablehlo.constant dense<{multiplier}> : tensor<1xi32>
      %s = stablehlo.constant dense<{shift}> : tensor<1xi32>
      %r = "fxpmath.requantize"(%x, %m, %s) <{{behaviour = "{behaviour}", zero_point = -5 : i64,
        storage_min = -32768 : i64, storage_max = 32767 : i64}}>
        : (tensor<12xi64>, tensor<1xi32>, tensor<1xi32>) -> tensor<12xi16>
      return %r : tensor<12xi16>
    }}"""
    lowered = integer_program(parse_program(text))
    # The behaviours of 32 bits saturate accumulators first.
    given = [min(max(x, INT32_MIN), INT32_MAX) for x in numbers] if "double" in behaviour else numbers
    of = Exact(lambda x: x * multiplier, lambda condition, one, other: one if condition else other)
    expected = [requantized(behaviour, of, x, shift, -5, (-32768, 32767)) for x in given]
    assert Interpreter(lowered).run_values([np.array(numbers)])[0].tolist() == expected
    code = NativeProgram(lowered)
    (found,) = code({code.inputs[0].name: np.array(numbers)}).values()
    assert found.tolist() == expected
