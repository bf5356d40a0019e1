"""Quotients of integers without bounds overflow only where the divisor may be -1."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import LoweringError, integer_program

EXTREMES = [-(2**63), -(2**63) + 1, -7, -1, 0, 1, 7, 2**63 - 1]
DIVISORS = [-128, -2, 0, 1, 2, 3, 5, 127]
MOST = 2**30


def scaled_quotient(divisor: str) -> Program:
    """x / d of i64, clamped to 31 bits and scaled to i8."""
    return parse_program(f"""func.func @main(%x: tensor<8xi64> {{zeropoint.name = "x"}},
        %n: tensor<8xi8> {{zeropoint.name = "n"}}) -> (tensor<8xi8>, tensor<8xi32>) {{
      %wide = stablehlo.convert %n : (tensor<8xi8>) -> tensor<8xi64>
      %two = stablehlo.constant dense<2> : tensor<8xi64>
      {divisor}
      %q = stablehlo.divide %x, %d : tensor<8xi64>
      %low = stablehlo.constant dense<{-MOST}> : tensor<8xi64>
      %high = stablehlo.constant dense<{MOST}> : tensor<8xi64>
      %c = stablehlo.clamp %low, %q, %high : tensor<8xi64>
      %i = stablehlo.convert %c : (tensor<8xi64>) -> tensor<8xi32>
      %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
      %k = stablehlo.constant dense<50> : tensor<1xi32>
      %r = "fxpmath.requantize"(%i, %m, %k) <{{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
        storage_max = 127 : i64}}> : (tensor<8xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<8xi8>
      return %r, %i : tensor<8xi8>, tensor<8xi32>
    }}""")


@pytest.mark.parametrize(
    ("divisor", "by"),
    [
        *((f"%d = stablehlo.constant dense<{n}> : tensor<8xi64>", [n] * 8) for n in (3, -2, 1)),
        ("%d = stablehlo.maximum %wide, %two : tensor<8xi64>", [max(n, 2) for n in DIVISORS]),
    ],
)
def test_a_number_without_bounds_may_be_divided_by_anything_but_minus_one(divisor: str, by: list[int]) -> None:
    program = integer_program(scaled_quotient(divisor))
    given = {"x": np.array(EXTREMES, np.int64), "n": np.array(DIVISORS, np.int8)}
    _, found = Interpreter(program)(given).values()
    exact = [(abs(x) // abs(d)) * (1 if (x < 0) == (d < 0) else -1) for x, d in zip(EXTREMES, by, strict=True)]
    assert found.tolist() == [max(-MOST, min(MOST, number)) for number in exact]


@pytest.mark.parametrize(
    "divisor", ["%d = stablehlo.constant dense<-1> : tensor<8xi64>", "%d = stablehlo.negate %wide : tensor<8xi64>"]
)
def test_a_number_without_bounds_that_may_be_divided_by_minus_one_is_refused(divisor: str) -> None:
    with pytest.raises(LoweringError, match="found quotients beyond"):
        integer_program(scaled_quotient(divisor))
