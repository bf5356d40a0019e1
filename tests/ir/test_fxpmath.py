"""Fixed-point ops: their text, and one program for each sentence of their verifiers."""

from __future__ import annotations

import pytest

from oracle.mlir import checked
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram

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


FLOATS = "dense<5.0e-01> : tensor<1xf32>"
ACCEPTED = {
    "one multiplier a channel": requantize(),
    "one multiplier": requantize(
        multiplier="dense<7> : tensor<1xi32>", shift="dense<9> : tensor<1xi32>", axis="", result="2x3xi32"
    ),
    "64-bit accumulators": requantize(accumulator="2x3xi64", result="2x3xi16"),
    "float multipliers": requantize(multiplier=FLOATS, shift=None, behaviour="float32-rne", axis=""),
    "a weighted sum": weighted_sum(),
    "a weighted sum of 16 bits": weighted_sum(inputs=("4xi16",), multipliers="3", zero_points="-5", result="4xi16"),
    "a table": table(),
    "a table of unsigned bytes": table(operand="4xui8"),
    "a table of 16 bits": table(entries="256xi16", result="4xi16"),
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
    "behaviour must be one of fixed16, fixed32, fixed32-double, tosa-double, float32-rne, exact, pot, but got "
    "'nearest'": requantize(behaviour="nearest"),
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
    "multiplier must be in 0..32767 for behaviour 'fixed16', but got 32768": requantize(
        behaviour="fixed16", **{**ONE, "multiplier": "dense<32768> : tensor<1xi32>"}, shift="dense<9> : tensor<1xi32>"
    ),
    "inputs must be at least one, but got none": weighted_sum(inputs=(), multipliers="", zero_points=""),
    "result must be a tensor of i8 or i16, but got 'tensor<4xi32>'": weighted_sum(result="4xi32"),
    "input #1 must be a tensor of i8 or i16, but got 'tensor<4xi32>'": weighted_sum(inputs=("4xi8", "4xi32")),
    "input #1 must have the shape of the result, but got 'tensor<1xi8>' and 'tensor<4xi8>'": weighted_sum(
        inputs=("4xi8", "1xi8")
    ),
    "multipliers must be one an input (2), but got 3": weighted_sum(multipliers="1, 2, 3"),
    "zero_points must be one an input (2), but got 1": weighted_sum(zero_points="1"),
    "shift must be in 1..31, but got 0": weighted_sum(shift=0),
    "shift must be in 1..31, but got 32": weighted_sum(shift=32),
    "multipliers must be in -2147483648..2147483647 (i32), but got 2147483648": weighted_sum(
        multipliers="2147483648, 126"
    ),
    "zero_points must be in -2147483648..2147483647 (i32), but got -2147483649": weighted_sum(
        zero_points="-2147483649, 126"
    ),
    "operand must be a tensor of i8 or ui8, but got 'tensor<4xi16>'": table(operand="4xi16"),
    "result must be a tensor of i8 or i16 or i32, but got 'tensor<4xf32>'": table(result="4xf32", entries="256xf32"),
    "operand must have the shape of the result, but got 'tensor<4xi8>' and 'tensor<3xi8>'": table(result="3xi8"),
    "table must be 'tensor<256xi8>', but got 'tensor<255xi8>'": table(entries="255xi8"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_ops_go_through_text(case: str) -> None:
    checked(ACCEPTED[case])


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_an_op_may_not_be_is_refused(sentence: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_program(REFUSED[sentence])
    assert str(caught.value).split(" op ", 1)[1] == sentence
