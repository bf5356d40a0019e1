"""Fixed-point ops: their text, and one program for each sentence of their verifiers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from oracle.mlir import checked
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram
from zeropoint.ir.weights import Weights

NUMBERS = "zero_point = 3 : i64, storage_min = -128 : i64, storage_max = 127 : i64"


def requantize(
    *,
    accumulator: str = "2x3xi32",
    result: str = "2x3xi8",
    multiplier: str = "dense<[1073741824, 2, 3]> : tensor<3xi32>",
    shift: str | None = "dense<[31, 0, 62]> : tensor<3xi32>",
    behaviour: str = "fixed32",
    axis: str = "axis = 1 : i64, ",
    numbers: str = NUMBERS,
) -> str:
    types = [multiplier.split(" : ")[1], *([] if shift is None else [shift.split(" : ")[1]])]
    given = f"tensor<{accumulator}>"
    second = "" if shift is None else f"%s = stablehlo.constant {shift}"
    operands, properties = (
        "%acc, %m" if shift is None else "%acc, %m, %s",
        f'{axis}behaviour = "{behaviour}", {numbers}',
    )
    return f"""func.func @main(%acc: {given}) -> tensor<{result}> {{
      %m = stablehlo.constant {multiplier}
      {second}
      %y = "fxpmath.requantize"({operands}) <{{{properties}}}>
        : ({", ".join([given, *types])}) -> tensor<{result}>
      return %y : tensor<{result}>
    }}"""


def weighted_sum(
    *,
    inputs: tuple[str, ...] = ("4xi8", "4xi8"),
    result: str = "4xi8",
    multipliers: str = "3, -2",
    zero_points: str = "1, 0",
    shift: int = 2,
    numbers: str = NUMBERS,
) -> str:
    names = [f"%{index}" for index in range(len(inputs))]
    types = [f"tensor<{kind}>" for kind in inputs]
    ports = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    lists = [f"array<i64: {each}>" if each else "array<i64>" for each in (multipliers, zero_points)]
    return f"""func.func @main({ports}) -> tensor<{result}> {{
      %y = "fxpmath.weighted_sum"({", ".join(names)}) <{{multipliers = {lists[0]}, zero_points = {lists[1]},
        shift = {shift} : i64, {numbers}}}> : ({", ".join(types)}) -> tensor<{result}>
      return %y : tensor<{result}>
    }}"""


def table(*, operand: str = "4xi8", entries: str = "256xi8", result: str = "4xi8") -> str:
    return f"""func.func @main(%x: tensor<{operand}>, %t: tensor<{entries}>) -> tensor<{result}> {{
      %y = "fxpmath.table"(%x, %t) : (tensor<{operand}>, tensor<{entries}>) -> tensor<{result}>
      return %y : tensor<{result}>
    }}"""


A, B, C = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i16:f32, 0.25>", "!quant.uniform<i8:f32, 0.1:-1>"


def one(op: str, *kinds: str, properties: str = "", shape: str = "4") -> str:
    """One op on tensors of some element types, or on types that are given whole; the last one is the result."""
    *operands, result = (kind if kind.startswith("tensor") else f"tensor<{shape}x{kind}>" for kind in kinds)
    names = [f"%{index}" for index in range(len(operands))]
    ports = ", ".join(f"{name}: {kind}" for name, kind in zip(names, operands, strict=True))
    return f"""func.func @main({ports}) -> {result} {{
      %y = "fxpmath.{op}"({", ".join(names)}) <{{{properties}}}> : ({", ".join(operands)}) -> {result}
      return %y : {result}
    }}"""


BOUNDS = "storage_min = -128 : i64, storage_max = 127 : i64"


def quotient(
    *kinds: str, multiplier: int = 3, shift: int = 1, points: str = "1, 2", zero_point: int = 0, bounds: str = BOUNDS
) -> str:
    numbers = f"multiplier = {multiplier} : i64, shift = {shift} : i64, zero_points = array<i64: {points}>"
    properties = f"{numbers}, zero_point = {zero_point} : i64, {bounds}"
    return one("quotient", *(kinds or ("i8", "i16", "i8")), properties=properties)


def matmul(lhs: str = "2x3", rhs: str = "3x4", result: str = "2x4", bias: str = "", *, kind: str = "f32") -> str:
    shapes = (lhs, rhs, *([bias] if bias else []), result)
    return one(f"real_matmul{'_bias' if bias else ''}", *(f"tensor<{shape}x{kind}>" for shape in shapes))


def interpolate(*, operand: str = "4xi16", entries: str = "513xi16", result: str = "4xi16") -> str:
    return f"""func.func @main(%x: tensor<{operand}>, %t: tensor<{entries}>) -> tensor<{result}> {{
      %y = "fxpmath.interpolate"(%x, %t) : (tensor<{operand}>, tensor<{entries}>) -> tensor<{result}>
      return %y : tensor<{result}>
    }}"""


FLOATS = "dense<5.0e-01> : tensor<1xf32>"
ACCEPTED = {
    "one multiplier a channel": requantize(),
    "left shifts of multipliers below 2^30": requantize(
        multiplier="dense<[1073741823, 2147483647, 0]> : tensor<3xi32>", shift="dense<[-2, 0, -1]> : tensor<3xi32>"
    ),
    "one multiplier": requantize(
        multiplier="dense<7> : tensor<1xi32>", shift="dense<9> : tensor<1xi32>", axis="", result="2x3xi32"
    ),
    "64-bit accumulators": requantize(accumulator="2x3xi64", result="2x3xi16"),
    "float multipliers": requantize(multiplier=FLOATS, shift=None, behaviour="float32-rne", axis=""),
    "a weighted sum": weighted_sum(),
    "a weighted sum of 16 bits": weighted_sum(inputs=("4xi16",), multipliers="3", zero_points="-5", result="4xi16"),
    "interpolation": interpolate(),
    "interpolation to 8 bits": interpolate(entries="5xi8", result="4xi8"),
    "a table": table(),
    "a table of unsigned bytes": table(operand="4xui8"),
    "a table of 16 bits": table(entries="256xi16", result="4xi16"),
    "a rounding division": one("rounding_divide_by_pot", "i16", "i16", properties="exponent = 15 : i64"),
    "a saturating sum": one("saturating_add", "i8", "i8", "i8", properties=BOUNDS),
    "a high product": one(
        "saturating_rounding_doubling_high_mul", "i32", "i32", properties="multiplier = -2147483648 : i64"
    ),
    "a quotient": quotient(),
    "a real sum of floats": one("real_add_ew", "f32", "f32", "f32", properties="clamp_min = 0.0 : f64"),
    "a real sum of widths": one("real_sub_ew", A, B, C, properties="clamp_min = -1.0 : f64, clamp_max = 2.0 : f64"),
    "a real product": one("real_mul_ew", A, A, B),
    "a real quotient": one("real_div_ew", B, A, A),
    "a function": one("real_unary_ew", A, B, properties='fn = "RSQRT"'),
    "a comparison with zero": one("real_unary_ew", A, "i1", properties='fn = "CMPLZ"'),
    "matrices": matmul(),
    "stacks of matrices with a bias": matmul("5x2x3", "5x3x4", "5x2x4", "4"),
    "a bias of 32 bits": one(
        "real_matmul_bias",
        f"tensor<2x3x{A}>",
        f"tensor<3x4x{A}>",
        "tensor<4x!quant.uniform<i32:f32, 0.01>>",
        f"tensor<2x4x{A}>",
    ),
    "a table of 16-bit operands": table(operand="4xi16", entries="65536xi8"),
}

ONE = {"multiplier": "dense<7> : tensor<1xi32>", "axis": ""}
REFUSED = {
    "accumulator must be a tensor of i32 or i64, but got 'tensor<2x3xi16>'": requantize(accumulator="2x3xi16"),
    "result must be a tensor of i8 or i16 or i32, but got 'tensor<2x3xi64>'": requantize(result="2x3xi64"),
    "accumulator must have the shape of the result, but got 'tensor<3xi32>' and 'tensor<2x3xi8>'": requantize(
        accumulator="3xi32"
    ),
    "storage_min must be at most storage_max, but got 5 and 4": requantize(
        numbers="zero_point = 0 : i64, storage_min = 5 : i64, storage_max = 4 : i64"
    ),
    "storage_min must be in -128..127 (i8), but got -129": requantize(
        numbers="zero_point = 0 : i64, storage_min = -129 : i64, storage_max = 4 : i64"
    ),
    "storage_max must be in -128..127 (i8), but got 200": requantize(
        numbers="zero_point = 0 : i64, storage_min = 0 : i64, storage_max = 200 : i64"
    ),
    "zero_point must be in -128..127 (i8), but got 128": requantize(
        numbers="zero_point = 128 : i64, storage_min = 0 : i64, storage_max = 4 : i64"
    ),
    "behaviour must be one of fixed16, fixed32, fixed32-double, tosa-double, float32-rne, float64-away, exact, pot, "
    "but got 'nearest'": requantize(behaviour="nearest"),
    "behaviour 'fixed16' has results of i8, but got 'tensor<2x3xi16>'": requantize(
        behaviour="fixed16", result="2x3xi16"
    ),
    "axis must be in 0..1, but got 2": requantize(axis="axis = 2 : i64, "),
    "behaviour 'fixed32' has a shift, but got none": requantize(shift=None),
    "behaviour 'float32-rne' has no shift, but got one": requantize(behaviour="float32-rne"),
    "multiplier must be a vector of 1 or 3 elements i32, but got 'tensor<2xi32>'": requantize(
        multiplier="dense<7> : tensor<2xi32>"
    ),
    "multiplier must be a vector of 1 elements i32, but got 'tensor<3xi32>'": requantize(axis=""),
    "multiplier must be a vector of 1 or 3 elements f32, but got 'tensor<3xi32>'": requantize(
        behaviour="float32-rne", shift=None
    ),
    "shift must be a vector of 1 or 3 elements i32, but got 'tensor<3xi64>'": requantize(
        shift="dense<9> : tensor<3xi64>"
    ),
    "multiplier and shift must have one shape, but got 'tensor<3xi32>' and 'tensor<1xi32>'": requantize(
        shift="dense<9> : tensor<1xi32>"
    ),
    "shift must be in -2..62 for behaviour 'fixed32', but got 99": requantize(
        shift="dense<[31, 99, 0]> : tensor<3xi32>"
    ),
    "shift must be in -31..30 for behaviour 'fixed32-double', but got 31": requantize(
        behaviour="fixed32-double", shift="dense<[31, 0, 0]> : tensor<3xi32>"
    ),
    "multiplier must be in 0..2147483647 for behaviour 'fixed32', but got -1": requantize(
        multiplier="dense<[5, -1, 0]> : tensor<3xi32>"
    ),
    "multiplier must be below 2^30 with a negative shift, but got 1073741824": requantize(
        multiplier="dense<[5, 1073741824, 2147483647]> : tensor<3xi32>", shift="dense<[-2, -1, 0]> : tensor<3xi32>"
    ),
    "multiplier must be below 2^30 with a negative shift, but got 2147483647": requantize(
        **{**ONE, "multiplier": "dense<2147483647> : tensor<1xi32>"}, shift="dense<-2> : tensor<1xi32>"
    ),
    "multiplier must be in 0..32767 for behaviour 'fixed16', but got 32768": requantize(
        behaviour="fixed16", **{**ONE, "multiplier": "dense<32768> : tensor<1xi32>"}, shift="dense<9> : tensor<1xi32>"
    ),
    "there must be at least one input, but got none": weighted_sum(inputs=(), multipliers="", zero_points=""),
    "result must be a tensor of i8 or i16, but got 'tensor<4xi32>'": weighted_sum(result="4xi32"),
    "input #1 must be a tensor of i8 or i16, but got 'tensor<4xi32>'": weighted_sum(inputs=("4xi8", "4xi32")),
    "input #1 must have the shape of the result, but got 'tensor<1xi8>' and 'tensor<4xi8>'": weighted_sum(
        inputs=("4xi8", "1xi8")
    ),
    "multipliers must have one number per input (2), but got 3": weighted_sum(multipliers="1, 2, 3"),
    "zero_points must have one number per input (2), but got 1": weighted_sum(zero_points="1"),
    "shift must be in 1..31, but got 0": weighted_sum(shift=0),
    "shift must be in 1..31, but got 32": weighted_sum(shift=32),
    "multipliers must be in -2147483648..2147483647 (i32), but got 2147483648": weighted_sum(
        multipliers="2147483648, 126"
    ),
    "zero_points must be in -2147483648..2147483647 (i32), but got -2147483649": weighted_sum(
        zero_points="-2147483649, 126"
    ),
    "sums must be in -2147483648..2147483647 (i32), but inputs of these types give -3931635712..3932564288; "
    "divide the multipliers by 2 and subtract 1 from shift": weighted_sum(
        inputs=("4xi16", "4xi16"), multipliers="60000, 60000", zero_points="0, 0", shift=20
    ),
    "sums must be in -2147483648..2147483647 (i32), but inputs of these types give -2130706431..2147483649; "
    "use smaller multipliers": weighted_sum(inputs=("4xi8",), multipliers="-16777216", zero_points="0", shift=1),
    "result must be a tensor of i8 or i16 or i32, but got 'tensor<4xi64>'": one(
        "saturating_add", "i64", "i64", "i64", properties=BOUNDS
    ),
    "operands must have the type of the result, but got 'tensor<4xi8>', 'tensor<4xi16>'": one(
        "saturating_add", "i16", "i8", "i16", properties=BOUNDS
    ),
    "storage_max must be in -128..127 (i8), but got 128": one(
        "saturating_add", "i8", "i8", "i8", properties="storage_min = 0 : i64, storage_max = 128 : i64"
    ),
    "exponent must be in 0..7, but got 8": one("rounding_divide_by_pot", "i8", "i8", properties="exponent = 8 : i64"),
    "result must be a tensor of i32, but got 'tensor<4xi16>'": one(
        "saturating_rounding_doubling_high_mul", "i16", "i16", properties="multiplier = 1 : i64"
    ),
    "multiplier must be in -2147483648..2147483647 (i32), but got 2147483648": one(
        "saturating_rounding_doubling_high_mul", "i32", "i32", properties="multiplier = 2147483648 : i64"
    ),
    "lhs must be a tensor of i8 or i16, but got 'tensor<4xi32>'": quotient("i32", "i8", "i8"),
    "rhs must have the shape of the result, but got 'tensor<1xi8>' and 'tensor<4xi8>'": quotient(
        "i8", "tensor<1xi8>", "i8"
    ),
    "zero point of lhs must be in -128..127, but got 128": quotient(points="128, 0"),
    "multiplier must be in 0..2147483647, but got -1": quotient(multiplier=-1),
    "shift must be in 0..44, but got 45": quotient(shift=45),
    "lhs must be a tensor of floats, or of i8 or i16 with one scale, but got 'tensor<4xi8>'": one(
        "real_add_ew", "i8", A, A
    ),
    "rhs must have the shape of the result, but got 'tensor<1xf32>' and 'tensor<4xf32>'": one(
        "real_mul_ew", "f32", "tensor<1xf32>", "f32"
    ),
    "operands and result must be all floats or all quantized, but got 'tensor<4xf32>', 'tensor<4xf32>', 'tensor<4xf64>'"
    "": one("real_mul_ew", "f32", "f32", "f64"),
    "clamp_min must be at most clamp_max, but got 2.0 and 1.0": one(
        "real_add_ew", A, A, A, properties="clamp_min = 2.0 : f64, clamp_max = 1.0 : f64"
    ),
    "clamp_min must be a number of f64, but got '1.000000e+00 : f32'": one(
        "real_add_ew", A, A, A, properties="clamp_min = 1.0 : f32"
    ),
    "clamp_max must be a number, but got NaN": one(
        "real_add_ew", A, A, A, properties="clamp_max = 0x7FF8000000000000 : f64"
    ),
    "fn must be one of IDENTITY, TANH, SIGMOID, EXP, LOG, NEG, RSQRT, SIN, SQUARE, SQRT, CMPZ, CMPNZ, CMPLZ, CMPGZ, "
    "but got 'COS'": one("real_unary_ew", A, A, properties='fn = "COS"'),
    "result of CMPZ must be a tensor of i1, but got 'tensor<4xf32>'": one(
        "real_unary_ew", "f32", "f32", properties='fn = "CMPZ"'
    ),
    "CMPZ has no clamp, but got one": one(
        "real_unary_ew", "f32", "i1", properties='fn = "CMPZ", clamp_min = 0.0 : f64'
    ),
    "operand must have the shape of the result, but got 'tensor<4xf32>' and 'tensor<3xf32>'": one(
        "real_unary_ew", "f32", "tensor<3xf32>", properties='fn = "TANH"'
    ),
    "lhs, rhs and result must be [..., m, k], [..., k, n] and [..., m, n], but got 'tensor<2x3xf32>', "
    "'tensor<2x4xf32>' and 'tensor<2x4xf32>'": matmul(rhs="2x4"),
    "bias must have one element per column, but got 'tensor<2xf32>' and 'tensor<2x4xf32>'": matmul(bias="2"),
    "operand must be a tensor of i8, ui8 or i16, but got 'tensor<4xi32>'": table(operand="4xi32"),
    "result must be a tensor of i8 or i16 or i32, but got 'tensor<4xf32>'": table(result="4xf32", entries="256xf32"),
    "operand must have the shape of the result, but got 'tensor<4xi8>' and 'tensor<3xi8>'": table(result="3xi8"),
    "table must be 'tensor<256xi8>', but got 'tensor<255xi8>'": table(entries="255xi8"),
    "operand must be a tensor of i16, but got 'tensor<4xi8>'": interpolate(operand="4xi8"),
    "result must be a tensor of i8 or i16, but got 'tensor<4xi64>'": interpolate(result="4xi64", entries="513xi64"),
    "operand must have the shape of the result, but got 'tensor<3xi16>' and 'tensor<4xi16>'": interpolate(
        operand="3xi16"
    ),
    **{
        f"table must be a vector of 2^k + 1 elements i16, k from 2 to 15, but got 'tensor<{entries}>'": interpolate(
            entries=entries
        )
        for entries in ("512xi16", "3xi16", "513xi8", "513x1xi16")
    },
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_ops_go_through_text(case: str) -> None:
    checked(ACCEPTED[case])


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_an_op_may_not_be_is_refused(sentence: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_program(REFUSED[sentence])
    assert str(caught.value).split(" op ", 1)[1] == sentence


@pytest.mark.parametrize(
    ("place", "number", "sentence"),
    [
        (0, 1 << 30, "multiplier must be below 2^30 with a negative shift, but got 1073741824"),
        (0, -1, "multiplier must be in 0..2147483647 for behaviour 'fixed32', but got -1"),
        (1, 99, "shift must be in -2..62 for behaviour 'fixed32', but got 99"),
    ],
)
def test_numbers_in_the_file_of_weights_are_checked(place: int, number: int, sentence: str) -> None:
    arrays: list[Array] = [np.full(100, 7, np.int32), np.full(100, -1, np.int32)]
    arrays[place][50] = number
    text = """func.func @main(%x: tensor<2x100xi32>) -> tensor<2x100xi8> {
      %m = stablehlo.constant dense_resource<m> : tensor<100xi32>
      %s = stablehlo.constant dense_resource<s> : tensor<100xi32>
      %y = "fxpmath.requantize"(%x, %m, %s) <{axis = 1 : i64, behaviour = "fixed32", zero_point = 0 : i64,
        storage_min = -128 : i64, storage_max = 127 : i64}>
        : (tensor<2x100xi32>, tensor<100xi32>, tensor<100xi32>) -> tensor<2x100xi8>
      return %y : tensor<2x100xi8>
    }"""
    with pytest.raises(InvalidProgram, match=re.escape(sentence)):
        parse_program(text, weights=Weights(dict(zip("ms", arrays, strict=True))))
