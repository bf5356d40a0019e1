"""Loops and branches of quantized values: the integer program and its standard forms have their bits."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.lower.context import stored_element
from zeropoint.standard import lower_to_loops, lower_to_standard

Q, W, ACC = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i32:f32, 0.25>"
ROW, SUMS, FLOATS = f"tensor<2x3x{Q}>", f"tensor<2x3x{ACC}>", "tensor<2x3xf32>"
X = np.array([[1, -20, 100], [127, -128, 4]], np.int8)
Y = np.array([[1, -2, 3], [4, 5, 2**31 - 1]], np.int32)
WEIGHTS = f"""%w = stablehlo.constant() <{{value = dense<[[1, 2, -3], [0, 1, 0], [5, -1, 1]]> : tensor<3x3xi8>}}>
  : () -> tensor<3x3x{W}>"""


def loop(carried: str, start: str, body: str) -> str:
    """Three trips of a body that makes %s of %a; the result is %r."""
    return f"""{WEIGHTS}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r, %n = stablehlo.while(%a = {start}, %k = %zero) : {carried}, tensor<i32>
  cond {{
    %p = stablehlo.constant dense<3> : tensor<i32>
    %q = stablehlo.compare LT, %k, %p : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }} do {{
    %p = stablehlo.constant dense<1> : tensor<i32>
    %k1 = stablehlo.add %k, %p : tensor<i32>
    {body}
    stablehlo.return %s, %k1 : {carried}, tensor<i32>
  }}"""


def branches(what: str, *regions: str) -> str:
    """An `if` by %c or a `case` by %i."""
    by = "%c" if what == "if" else "%i"
    return f'"stablehlo.{what}"({by}) ({", ".join(f"{{ {region} }}" for region in regions)})'


CASES = {
    "a product with weights and a bias from around it": (
        loop(
            ROW,
            "%x",
            f"""%d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : ({ROW}, tensor<3x3x{W}>) -> {SUMS}
            %b = stablehlo.add %d, %y : {SUMS}
            %s = stablehlo.uniform_quantize %b : ({SUMS}) -> {ROW}""",
        ),
        ROW,
    ),
    "accumulators that saturate": (loop(SUMS, "%y", f"%s = stablehlo.add %a, %a : {SUMS}"), SUMS),
    "floats outside": (
        loop(
            FLOATS,
            "%f",
            f"""%0 = stablehlo.uniform_quantize %a : ({FLOATS}) -> {ROW}
            %1 = stablehlo.multiply %0, %x : {ROW}
            %s = stablehlo.uniform_dequantize %1 : ({ROW}) -> {FLOATS}""",
        ),
        FLOATS,
    ),
    "a branch in a loop": (
        loop(
            ROW,
            "%x",
            "%s = "
            + branches(
                "if",
                f"%1 = stablehlo.add %a, %x : {ROW}\nstablehlo.return %1 : {ROW}",
                f"%2 = stablehlo.subtract %x, %a : {ROW}\nstablehlo.return %2 : {ROW}",
            )
            + f" : (tensor<i1>) -> {ROW}",
        ),
        ROW,
    ),
    "branches, whose operand is read again": (
        "%s = "
        + branches(
            "case",
            f"%1 = stablehlo.add %x, %x : {ROW}\nstablehlo.return %1 : {ROW}",
            f"%2 = stablehlo.tanh %x : {ROW}\nstablehlo.return %2 : {ROW}",
        )
        + f" : (tensor<i32>) -> {ROW}\n%r = stablehlo.add %s, %x : {ROW}",
        ROW,
    ),
}


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("profile", ["fixed16", "fixed32"])
@pytest.mark.parametrize("choice", [0, 1])
def test_loops_and_branches_are_lowered(what: str, profile: str, choice: int) -> None:
    text, result = CASES[what]
    given = parse_program(f"""module attributes {{zeropoint.profile = "{profile}"}} {{
func.func @main(%x: {ROW}, %y: {SUMS}, %f: {FLOATS}, %c: tensor<i1>, %i: tensor<i32>) -> {result} {{
  {text}
  return %r : {result}
}}
}}""")
    arrays = [X, Y, X.astype(np.float32) / 2, np.array(bool(choice)), np.array(choice, np.int32)]
    lowered = integer_program(given)
    (expected,) = Interpreter(given).run_values(arrays)
    for each in (lowered, lower_to_standard(lowered), lower_to_loops(lowered)):
        np.testing.assert_array_equal(Interpreter(each).run_values(arrays)[0], expected)
    kept = [op for op in lowered.entry.walk() if any(stored_element(value) is not None for value in op.results)]
    assert {op.name for op in kept} <= {"quant.scast", "stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"}


def test_a_sum_in_a_loop_is_computed_in_64_bits() -> None:
    text, _ = CASES["accumulators that saturate"]
    given = parse_program(f"func.func @main(%y: {SUMS}) -> {SUMS} {{\n{text}\nreturn %r : {SUMS}\n}}")
    y = np.array([[2**30, -(2**30), 5], [0, -1, 2**31 - 1]], np.int32)
    (found,) = Interpreter(integer_program(given)).run_values([y])
    assert found.reshape(-1).tolist() == [min(max(8 * n, -(2**31)), 2**31 - 1) for n in y.reshape(-1).tolist()]
