"""Reductions with any body: the quantized program, the integer one and its machine code give the same integers.

A body that rounds is not associative, so the order counts: neighbours level by level for `reduce`, left to right for
windows (`interp/reduction.py`). Two cases are judged by Python's integers in that order.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lower.exact import ROUNDINGS, clamp
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops

I8, I16 = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i16:f32, 0.1:5>"
U8, I32 = "!quant.uniform<u8:f32, 0.25:17>", "!quant.uniform<i32:f32, 0.25:-5>"
UNIT = "!quant.uniform<i32:f32, 1.0:-5>"

BODIES = {
    "a product": "%s = stablehlo.multiply %a, %b : tensor<{0}>",
    "a sum and a maximum": "%r = stablehlo.add %a, %b : tensor<{0}>\n %s = stablehlo.maximum %r, %b : tensor<{0}>",
    "a function": "%r = stablehlo.subtract %a, %b : tensor<{0}>\n %s = stablehlo.abs %r : tensor<{0}>",
}
KINDS = {
    "one type": (I8, I8, I8),
    "the types of the RFC": (U8, I32, "!quant.uniform<u8:f32, 2.0:100>"),
    "an accumulator with a zero point": (I32, I32, I32),
    "an accumulator at scale 1": (I8, UNIT, I8),
    "16 bits": (I8, I16, "!quant.uniform<i8:f32, 0.9>"),
    "integers": ("i8", "i32", "i8"),
}
WINDOW = "window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>"
PADDING = "padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>"
FLOAT_BODIES = {("a product", I32), ("a function", I32), ("a function", UNIT)}
"""Bodies with an op that has no integer form."""


def body_text(body: str, kind: str) -> str:
    return f"""^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
        {BODIES[body].format(kind)}
        stablehlo.return %s : tensor<{kind}>"""


def reduction(what: str, body: str, kinds: tuple[str, str, str], *, profile: str = "fixed32") -> Program:
    given, inside, result = kinds
    x, scalar = f"tensor<6x5x{given}>", f"tensor<{given}>"
    regions, extra = f"({{ {body_text(body, inside)} }})", ""
    arguments, types = "%x, %i", [x, scalar]
    shape = {"reduce": "6", "reduce_window": "3x5", "select_and_scatter": "6x5"}[what]
    attributes = f"{WINDOW}, {PADDING}"
    if what == "reduce":
        attributes = "dimensions = array<i64: 1>"
    if what == "select_and_scatter":
        regions = f"""({{ ^bb0(%a: tensor<{given}>, %b: tensor<{given}>):
          %c = stablehlo.compare GE, %a, %b : (tensor<{given}>, tensor<{given}>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }}, {{ {body_text(body, inside)} }})"""
        extra, arguments, types = f", %y: tensor<3x5x{given}>", "%x, %y, %i", [x, f"tensor<3x5x{given}>", scalar]
    made = f"tensor<{shape}x{result}>"
    return parse_program(f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: {x}{extra}, %i: {scalar}) -> {made} {{
      %r = "stablehlo.{what}"({arguments}) <{{{attributes}}}> {regions} : ({", ".join(types)}) -> {made}
      return %r : {made}
    }}
    }}""")


def inputs(program: Program) -> list[Array]:
    """Random integers of the whole storage, the same in every run."""
    random = np.random.default_rng(0)
    made: list[Array] = []
    for port in program.inputs:
        dtype = element_dtype(port.type.element_type)
        limits = np.iinfo(dtype)
        made.append(random.integers(limits.min, limits.max, shape_of(port.type), dtype, endpoint=True))
    return made


def agree(program: Program, *, native: bool = True) -> tuple[Program, list[Array]]:
    """The integer program and its results, which are those of the quantized program and of machine code."""
    lowered, given = lower(program), inputs(program)
    verify(lowered.module)
    names = [port.name for port in lowered.inputs]
    wanted = Interpreter(program).run_values(given)
    runs = [Interpreter(lowered).run_values(given)]
    if native:
        runs.append(list(NativeProgram(lowered)(dict(zip(names, given, strict=True))).values()))
    for found in runs:
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(one, other)
    return lowered, list(wanted)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("what", ["reduce", "reduce_window", "select_and_scatter"])
def test_any_body_is_an_integer_program_and_machine_code(what: str, body: str, kinds: str) -> None:
    native = what != "select_and_scatter" or kinds == "one type"  # its code takes seconds to compile
    lowered, _ = agree(reduction(what, body, KINDS[kinds]), native=native)
    reasons = [reason for _, reason in float_ops(lowered)]
    assert bool(reasons) == ((body, KINDS[kinds][1]) in FLOAT_BODIES), reasons


def multiplied(a: int, b: int, profile: str) -> int:
    """The product of two values of I8, requantized to I8."""
    return clamp(ROUNDINGS[profile]((a - 3) * (b - 3), Fraction(0.5)) + 3, (-128, 127))


@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
def test_a_product_is_rounded_at_every_step_of_neighbours_level_by_level(profile: str) -> None:
    program = reduction("reduce", "a product", (I8, I8, I8), profile=profile)
    x, init = np.random.default_rng(1).integers(-4, 9, (6, 5), np.int8), np.int8(5)
    wanted: list[int] = []
    for row in x.tolist():
        level = row
        while len(level) > 1:
            pairs = [multiplied(*level[n : n + 2], profile) for n in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        wanted.append(multiplied(int(init), level[0], profile))
    assert Interpreter(lower(program)).run_values([x, np.array(init)])[0].tolist() == wanted


def test_a_product_over_windows_is_rounded_from_left_to_right() -> None:
    program = reduction("reduce_window", "a product", (I8, I8, I8))
    x, init = np.random.default_rng(1).integers(-4, 9, (6, 5), np.int8), 5
    padded = np.pad(x, [(1, 0), (0, 1)], constant_values=init).tolist()
    wanted: list[list[int]] = []
    for row in range(3):
        wanted.append([])
        for column in range(5):
            total = init
            for r in range(3):
                for c in range(2):
                    total = multiplied(total, padded[2 * row + r][column + c], "fixed32")
            wanted[-1].append(total)
    assert Interpreter(lower(program)).run_values([x, np.array(init, np.int8)])[0].tolist() == wanted


def test_a_quantized_maximum_with_its_index_is_an_integer_program() -> None:
    program = parse_program(f"""func.func @main(%x: tensor<4x9x{U8}>) -> (tensor<4x{U8}>, tensor<4xi32>) {{
      %n = "stablehlo.iota"() <{{iota_dimension = 1 : i64}}> : () -> tensor<4x9xi32>
      %i = stablehlo.constant() <{{value = dense<0> : tensor<i8>}}> : () -> tensor<{U8}>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = "stablehlo.reduce"(%x, %n, %i, %z) <{{dimensions = array<i64: 1>}}> ({{
      ^bb0(%a: tensor<{U8}>, %m: tensor<i32>, %b: tensor<{U8}>, %k: tensor<i32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<{U8}>, tensor<{U8}>) -> tensor<i1>
        %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<{U8}>
        %w = stablehlo.select %c, %m, %k : tensor<i1>, tensor<i32>
        stablehlo.return %v, %w : tensor<{U8}>, tensor<i32>
      }}) : (tensor<4x9x{U8}>, tensor<4x9xi32>, tensor<{U8}>, tensor<i32>) -> (tensor<4x{U8}>, tensor<4xi32>)
      return %r#0, %r#1 : tensor<4x{U8}>, tensor<4xi32>
    }}""")
    lowered, (found, index) = agree(program)
    assert float_ops(lowered) == []
    (x,) = inputs(program)
    np.testing.assert_array_equal(found, x.max(axis=1))
    np.testing.assert_array_equal(index, x.argmax(axis=1))


def test_a_select_of_several_ops_is_lowered_too() -> None:
    text = f"""func.func @main(%x: tensor<6x{I8}>, %s: tensor<5x{I8}>) -> tensor<6x{I8}> {{
      %i = stablehlo.constant() <{{value = dense<3> : tensor<i8>}}> : () -> tensor<{I8}>
      %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{{window_dimensions = array<i64: 2>}}> ({{
      ^bb0(%a: tensor<{I8}>, %b: tensor<{I8}>):
        %m = stablehlo.maximum %a, %b : tensor<{I8}>
        %c = stablehlo.compare EQ, %m, %a : (tensor<{I8}>, tensor<{I8}>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<{I16}>, %b: tensor<{I16}>):
        %t = stablehlo.add %a, %b : tensor<{I16}>
        stablehlo.return %t : tensor<{I16}>
      }}) : (tensor<6x{I8}>, tensor<5x{I8}>, tensor<{I8}>) -> tensor<6x{I8}>
      return %r : tensor<6x{I8}>
    }}"""
    lowered, _ = agree(parse_program(f'module attributes {{zeropoint.profile = "fixed32"}} {{ {text} }}'))
    assert float_ops(lowered) == []


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_sums_of_halves_over_windows_are_machine_code(element: str) -> None:
    text = f"""func.func @main(%x: tensor<1x7x{element}>) -> tensor<1x5x{element}> {{
      %i = stablehlo.constant dense<0.0> : tensor<{element}>
      %r = "stablehlo.reduce_window"(%x, %i) <{{window_dimensions = array<i64: 1, 3>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %s = stablehlo.add %a, %b : tensor<{element}>
        stablehlo.return %s : tensor<{element}>
      }}) : (tensor<1x7x{element}>, tensor<{element}>) -> tensor<1x5x{element}>
      return %r : tensor<1x5x{element}>
    }}"""
    program = parse_program(text)
    x = np.random.default_rng(0).standard_normal((1, 7)).astype(element_dtype(program.inputs[0].type.element_type))
    (wanted,), (found,) = Interpreter(program).run_values([x]), NativeProgram(program)({"arg0": x}).values()
    assert wanted.tobytes() == found.tobytes()


OF_32_BITS = [("add", 0.5), ("subtract", 0.5), ("maximum", 0.5), ("multiply", 1.0)]


@pytest.mark.parametrize(("op", "scale"), OF_32_BITS)
def test_values_of_32_bits_may_have_a_zero_point(op: str, scale: float) -> None:
    kind = f"!quant.uniform<i32:f32, {scale}:7>"
    program = parse_program(f"""func.func @main(%x: tensor<9x{kind}>, %y: tensor<9x{kind}>) -> tensor<9x{kind}> {{
      %0 = stablehlo.{op} %x, %y : tensor<9x{kind}>
      return %0 : tensor<9x{kind}>
    }}""")
    agree(program)
