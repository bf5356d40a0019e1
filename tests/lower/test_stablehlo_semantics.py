"""Quantized ops after `lower` compute what they compute before, under StableHLO's own profile and `float32-rne`."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, StringAttr

from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON, PROFILE
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, lower
from zeropoint.quant_passes.lower_quant_ops import lower_quant_ops

PROFILES = ("stablehlo", "float32-rne", "onnxruntime")
A, B, C = "!quant.uniform<i8:f32, 0.05:3>", "!quant.uniform<i8:f32, 0.03:-7>", "!quant.uniform<i8:f32, 0.1:20>"
WIDE = "!quant.uniform<i16:f32, 0.001>"
ROWS = "!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20,0.02:5}>"
OTHER_ROWS = "!quant.uniform<i8:f32:0, {0.1:-20,0.2:-30,0.3}>"

UNARY = ["abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor", "log", "log_plus_one"]
UNARY += [
    "logistic",
    "negate",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
]
BINARY = ["add", "atan2", "divide", "multiply", "power", "remainder", "subtract"]


def t(element: str, shape: str = "3x64") -> str:
    return f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>"


def program(lines: str, arguments: list[str], result: str) -> Program:
    given = ", ".join(f"%{name}: {found}" for name, found in zip("xyz", arguments, strict=False))
    return parse_program(f"func.func @main({given}) -> {result} {{\n{lines}\nreturn %r : {result}\n}}")


def lowered(before: Program, profile: str, seed: int = 0) -> Program:
    """The program after lowering, which computes the same of random stored integers."""
    before.module.attributes[PROFILE] = StringAttr(profile)
    after = lower(before, profile)
    verify(after.module)
    random = np.random.default_rng(seed)
    values = []
    for port in before.inputs:
        dtype, shape = element_dtype(element_of(port.type)), shape_of(port.type)
        if dtype.kind == "f":
            values.append(random.normal(size=shape).astype(dtype))
        else:
            low, high = (0, 4) if dtype.itemsize == 8 else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
            values.append(random.integers(low, high, shape).astype(dtype))
    first, second = (Interpreter(each).run_values(values) for each in (before, after))
    for expected, found in zip(first, second, strict=True):
        np.testing.assert_array_equal(found, expected)
    return after


def reasons(after: Program) -> list[str]:
    found = [op.attributes.get(FLOAT_REASON) for op in after.module.walk()]
    return [reason.data for reason in found if isinstance(reason, StringAttr)]


def is_integer(after: Program) -> bool:
    """Whether nothing but casts at the edges is quantized or float."""
    edges = ("quant.scast", "func.return", "stablehlo.constant")  # the multipliers of a float profile are floats
    inner = [result for op in after.entry.ops if op.name not in edges for result in op.results]
    return all(isinstance(element_of(result), IntegerType) for result in inner)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("op", UNARY)
def test_a_function_of_eight_bits_is_a_table(op: str, profile: str):
    after = lowered(program(f"%r = stablehlo.{op} %x : ({t(A)}) -> {t(B)}", [t(A)], t(B)), profile)
    assert any(isinstance(found, TableOp) for found in after.module.walk())
    assert reasons(after) == []


@pytest.mark.parametrize("op", ["tanh", "negate"])
def test_a_function_of_wider_storage_stays_float_and_says_so(op: str):
    after = lowered(program(f"%r = stablehlo.{op} %x : {t(WIDE)}", [t(WIDE)], t(WIDE)), "float32-rne")
    assert reasons(after) == ["only functions of one 8-bit value per layer have a table"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_values(op: str, profile: str):
    after = lowered(program(f"%r = stablehlo.{op} %x, %y : ({t(A)}, {t(B)}) -> {t(C)}", [t(A), t(B)], t(C)), profile)
    expected = {
        "multiply": [],
        "add": [f"the profile '{profile}' adds values of two scales in f32"],
        "subtract": [f"the profile '{profile}' adds values of two scales in f32"],
        "divide": [f"the profile '{profile}' divides in float"],
    }
    assert reasons(after) == expected.get(op, ["a function of two quantized values has no integer form"])


@pytest.mark.parametrize("profile", ["stablehlo", "float32-rne", "fixed32", "tosa-double"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(ROWS, OTHER_ROWS), (ROWS, A), (A, ROWS), (ROWS, "!quant.uniform<i16:f32:0, {0.001,0.01:7,0.1}>")],
)
def test_channels_are_requantized_with_their_own_parameters(source: str, target: str, profile: str):
    text = f"%r = stablehlo.uniform_quantize %x : ({t(source)}) -> {t(target)}"
    assert is_integer(lowered(program(text, [t(source)], t(target)), profile))


@pytest.mark.parametrize(
    ("source", "profile"),
    [
        ("!quant.uniform<i32:f32, 0.001>", "fixed32-double"),
        ("!quant.uniform<i32:f32, 0.001:2147483647>", "fixed32-double"),
        ("!quant.uniform<i32:f32, 0.001:2147483647>", "fixed32"),
    ],
)
def test_channels_of_wide_accumulators_are_requantized_by_the_multiplier_of_wide_accumulators(
    source: str, profile: str
):
    target = "!quant.uniform<i16:f32:0, {700.0,300.0,90.1}>"
    lowered(
        program(f"%r = stablehlo.uniform_quantize %x : ({t(source)}) -> {t(target)}", [t(source)], t(target)), profile
    )


def test_channels_are_not_requantized_in_sixteen_bits():
    text = f"%r = stablehlo.uniform_quantize %x : ({t(ROWS)}) -> {t(OTHER_ROWS)}"
    with pytest.raises(LoweringError, match="a profile that requantizes in 32 bits"):
        lower(program(text, [t(ROWS)], t(OTHER_ROWS)), "fixed16")


GATHER = f"""%r = "stablehlo.gather"(%x, %y) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
  collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}}>
  : ({t(A)}, tensor<5x1xi64>) -> {t(A, "5x64")}"""
MOVED = {
    "gather": (GATHER, [t(A), "tensor<5x1xi64>"], t(A, "5x64")),
    "dynamic_slice": (
        f"%r = stablehlo.dynamic_slice %x, %y, %z, sizes = [2, 8]"
        f" : ({t(A)}, tensor<i64>, tensor<i64>) -> {t(A, '2x8')}",
        [t(A), "tensor<i64>", "tensor<i64>"],
        t(A, "2x8"),
    ),
    "reverse": (f"%r = stablehlo.reverse %x, dims = [1] : {t(A)}", [t(A)], t(A)),
    "select": (
        f"%r = stablehlo.select %z, %x, %y : (tensor<3x64xi1>, {t(A)}, {t(A)}) -> {t(A)}",
        [t(A), t(A), "tensor<3x64xi1>"],
        t(A),
    ),
    "bits of integers": (f"%r = stablehlo.bitcast_convert %x : (tensor<3x64xi8>) -> {t(A)}", ["tensor<3x64xi8>"], t(A)),
}


@pytest.mark.parametrize("case", MOVED)
def test_movement_is_of_integers(case: str):
    lines, arguments, result = MOVED[case]
    if "i1" in arguments[-1]:
        lines = lines.replace("%z,", "%p,", 1)
        lines = f"%p = stablehlo.compare LT, %x, %y : ({t(A)}, {t(A)}) -> tensor<3x64xi1>\n" + lines
        arguments = arguments[:2]
    after = lowered(program(lines, arguments, result), "float32-rne")
    assert reasons(after) == []


KERNEL = "!quant.uniform<i8<-127:127>:f32:1, {0.1,0.5}>"
HYBRID = {
    "dot_general": (
        f"""%w = stablehlo.constant() <{{value = dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>}}>
          : () -> tensor<3x2x{KERNEL}>
        %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<5x3xf32>, tensor<3x2x{KERNEL}>) -> tensor<5x2xf32>""",
        ["tensor<5x3xf32>"],
        "tensor<5x2xf32>",
        "it reads quantized values but has no quantized result",
    ),
    "compare": (
        f"%r = stablehlo.compare LT, %x, %y : ({t(A)}, {t(B)}) -> tensor<3x64xi1>",
        [t(A), t(B)],
        "tensor<3x64xi1>",
        "the profile 'float32-rne' compares !quant.uniform<i8:f32, 5.000000e-02:3> with "
        "!quant.uniform<i8:f32, 3.000000e-02:-7> in float",
    ),
}


@pytest.mark.parametrize("case", HYBRID)
def test_ops_without_a_quantized_result_stay_and_say_so(case: str):
    *body, expected = HYBRID[case]
    (reason,) = reasons(lowered(program(*body), "float32-rne"))
    assert reason.startswith(expected)


def test_nan_is_stored_as_the_profile_says_after_lowering_too():
    text = f"""%n = stablehlo.constant dense<0x7FC00000> : tensor<2xf32>
    %0 = stablehlo.uniform_quantize %n : (tensor<2xf32>) -> {t(A, "2")}
    %1 = stablehlo.reshape %0 : ({t(A, "2")}) -> {t(A, "2x1")}
    %r = stablehlo.uniform_dequantize %1 : ({t(A, "2x1")}) -> tensor<2x1xf32>"""
    for profile, real in (("stablehlo", -0.15), ("float32-rne", 0.0)):
        before = program(text, [], "tensor<2x1xf32>")
        before.module.attributes[PROFILE] = StringAttr(profile)
        for each in (before, lower(before, profile)):
            np.testing.assert_allclose(Interpreter(each).run_values([])[0], real, rtol=1e-6)


AWAY_FROM_ZERO = [1, 2, 3, -1, -2, -3]
OWN = """module attributes {zeropoint.profile = "fixed16"} {
  func.func @main(%x: tensor<6xf32>, %n: tensor<6xi8>) -> (tensor<6xi8>, tensor<6xi8>) {
    %0 = quant.qcast %x {zeropoint.profile = "fixed32-double"} : tensor<6xf32> to tensor<6x!quant.uniform<i8:f32, 1.0>>
    %1 = quant.scast %0 : tensor<6x!quant.uniform<i8:f32, 1.0>> to tensor<6xi8>
    %2 = quant.scast %n : tensor<6xi8> to tensor<6x!quant.uniform<i8:f32, 0.5>>
    %3 = stablehlo.divide %2, %2 : tensor<6x!quant.uniform<i8:f32, 0.5>>
    %4 = stablehlo.divide %2, %3 {zeropoint.profile = "fixed32-double"}
      : (tensor<6x!quant.uniform<i8:f32, 0.5>>, tensor<6x!quant.uniform<i8:f32, 0.5>>)
      -> tensor<6x!quant.uniform<i8:f32, 1.0>>
    %5 = quant.scast %4 : tensor<6x!quant.uniform<i8:f32, 1.0>> to tensor<6xi8>
    return %1, %5 : tensor<6xi8>, tensor<6xi8>
  }
}"""
"""A cast and a quotient of halves; both round by a profile of their own, by which the quotient is computed in float."""


@pytest.mark.parametrize("form", ["quantized", "lower", "lower-quant-ops"])
def test_ops_with_a_profile_of_their_own_keep_it(form: str):
    program = parse_program(OWN)
    program = {"quantized": lambda p: p, "lower": lower, "lower-quant-ops": lower_quant_ops}[form](program)
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], np.float32)
    cast, divided = Interpreter(program).run_values([halves, (2 * halves).astype(np.int8)])
    assert cast.tolist() == divided.tolist() == AWAY_FROM_ZERO


def test_a_profile_that_is_given_to_lower_is_that_of_every_op():
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], np.float32)
    program = lower(parse_program(OWN), "fixed32")
    cast, divided = Interpreter(program).run_values([halves, (2 * halves).astype(np.int8)])
    assert cast.tolist() == [0, 2, 2, 0, -2, -2]
    assert divided.tolist() == [1, 2, 3, 0, -1, -2]  # `numerics.division`: ties go up
