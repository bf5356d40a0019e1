"""Integer ops of a quantized program that may wrap around in a body (of a scatter, a map, a sort, a reduction), or for
some of their operands (a power, a quotient by -1, a shift by a computed amount), are refused; proved ones are kept.
"""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import LoweringError, integer_program, lower
from zeropoint.report.explain.reaches import reaches

X = "tensor<4xi32>"
REQUANTIZE = """%m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %k = stablehlo.constant dense<50> : tensor<1xi32>
  %r = "fxpmath.requantize"(%n, %m, %k) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>"""


def program(text: str, given: str) -> Program:
    result = "tensor<4xi8>"
    return parse_program(f"func.func @main(%x: {given}) -> {result} {{\n{text}\nreturn %r : {result}\n}}")


def body(ops: str, arguments: str = "a b", element: str = "i32", returned: str = "i32") -> str:
    scalars = ", ".join(f"%{name}: tensor<{element}>" for name in arguments.split())
    return f"({{\n^bb0({scalars}):\n{ops}\nstablehlo.return %s : tensor<{returned}>\n}})"


ADD = body("%s = stablehlo.add %a, %b : tensor<i32>")
SCATTER = """scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"""
ROWS = "%i = stablehlo.constant dense<0> : tensor<4x1xi32>\n%c = stablehlo.constant dense<0> : tensor<4xi32>\n"
SCATTERED = f"({X}, tensor<4x1xi32>, {X}) -> {X}"
ONE = "%c = stablehlo.constant dense<1> : tensor<i32>\n"
SPREAD = f"%n = stablehlo.broadcast_in_dim %q, dims = [] : (tensor<i32>) -> {X}"
COMPARATOR = body(
    """%d = stablehlo.subtract %a, %b : tensor<i32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %s = stablehlo.compare LT, %d, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>""",
    returned="i1",
)
TOO_LARGE = {
    "the sum of a scatter": (
        f'{ROWS}%n = "stablehlo.scatter"(%c, %i, %x) {ADD} {{{SCATTER}}} : {SCATTERED}',
        "found sums up to 8589934592",
    ),
    "a product in a scatter": (
        f'{ROWS}%n = "stablehlo.scatter"(%x, %i, %x) {body("%s = stablehlo.multiply %a, %b : tensor<i32>")} '
        f"{{{SCATTER}}} : {SCATTERED}",
        "found products up to 4611686018427387904",
    ),
    "a sum in a map": (
        f'%n = "stablehlo.map"(%x, %x) {ADD} {{dimensions = array<i64: 0>}} : ({X}, {X}) -> {X}',
        "found sums up to 4294967296",
    ),
    "a difference in a comparator": (
        f'%n = "stablehlo.sort"(%x) {COMPARATOR} {{dimension = 0 : i64, is_stable = true}} : ({X}) -> {X}',
        "found differences up to 4294967295",
    ),
    "a product of all numbers": (
        f'{ONE}%q = "stablehlo.reduce"(%x, %c) {body("%s = stablehlo.multiply %a, %b : tensor<i32>")} '
        f"{{dimensions = array<i64: 0>}} : ({X}, tensor<i32>) -> tensor<i32>\n{SPREAD}",
        "found products up to 4611686018427387904",
    ),
    "two sums in one reduction": (
        f"""{ONE}%q:2 = "stablehlo.reduce"(%x, %x, %c, %c) ({{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>, %d: tensor<i32>, %e: tensor<i32>):
            %s = stablehlo.add %a, %d : tensor<i32>
            stablehlo.return %s, %s : tensor<i32>, tensor<i32>
        }}) {{dimensions = array<i64: 0>}} : ({X}, {X}, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
        {SPREAD.replace("%q", "%q#0")}""",
        "found sums up to 4294967296",
    ),
    "a power": (
        f"%e = stablehlo.constant dense<3> : {X}\n%n = stablehlo.power %x, %e : {X}",
        "found powers beyond 2^63",
    ),
    "a quotient by -1": (
        f"%e = stablehlo.constant dense<-1> : {X}\n%n = stablehlo.divide %x, %e : {X}",
        "found quotients up to 2147483648",
    ),
    "a shift by a computed amount": (
        f"%n = stablehlo.shift_left %x, %x : {X}",
        "found shifted numbers up to 4611686018427387904",
    ),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_written_ops_that_may_wrap_in_a_body_or_for_some_operands_are_refused(what: str) -> None:
    text, message = TOO_LARGE[what]
    given = program(f"{text}\n{REQUANTIZE}", X)
    with pytest.raises(LoweringError) as caught:
        lower(given)
    assert message in str(caught.value)
    assert any(min(reach.headroom) < 0 for reach in reaches(given))


NARROW = "%w = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi32>\n"
PROVED = {
    "the sum of a scatter": (
        f'{ROWS}%n = "stablehlo.scatter"(%c, %i, %w) {ADD} {{{SCATTER}}} : {SCATTERED}',
        [-130, 0, 0, 0],
    ),
    "a sum in a map": (
        f'%n = "stablehlo.map"(%w, %w) {ADD} {{dimensions = array<i64: 0>}} : ({X}, {X}) -> {X}',
        [-256, -10, 6, 0],
    ),
    "a difference in a comparator": (
        f'%n = "stablehlo.sort"(%w) {COMPARATOR} {{dimension = 0 : i64, is_stable = true}} : ({X}) -> {X}',
        [-128, -5, 0, 3],
    ),
    "a power": (f"%e = stablehlo.constant dense<3> : {X}\n%n = stablehlo.power %w, %e : {X}", [-(128**3), -125, 27, 0]),
    "a quotient by -1": (
        f"%e = stablehlo.constant dense<-1> : {X}\n%n = stablehlo.divide %w, %e : {X}",
        [128, 5, -3, 0],
    ),
    "a shift by a computed amount": (
        f"%one = stablehlo.constant dense<1> : {X}\n%e = stablehlo.and %w, %one : {X}\n"
        f"%n = stablehlo.shift_left %w, %e : {X}",
        [-128, -10, 6, 0],
    ),
}


@pytest.mark.parametrize("what", PROVED)
def test_written_ops_that_cannot_wrap_in_a_body_are_kept(what: str) -> None:
    text, numbers = PROVED[what]
    unit = REQUANTIZE.replace("dense<50>", "dense<30>")
    given = program(f"{NARROW}{text}\n{unit}", "tensor<4xi8>")
    lowered = integer_program(given)
    x = np.array([-128, -5, 3, 0], np.int8)
    expected = np.clip(numbers, -128, 127).tolist()
    for each in (given, lowered):
        (found,) = Interpreter(each).run_values([x])
        assert found.tolist() == expected
    code = NativeProgram(lowered)
    (found,) = code({code.inputs[0].name: x}).values()
    assert found.tolist() == expected
