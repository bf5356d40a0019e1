"""The bound on rows that are multiplied by a constant over half of their range, and when it does not hold."""

from __future__ import annotations

import pytest

from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import MultiplyOp
from zeropoint.ir.text import parse_program
from zeropoint.ranges import ranges_of

ROWS = """
func.func @main(%x: tensor<4x8xi16>) -> tensor<4x8xi32> {{
  %v = stablehlo.convert %x : (tensor<4x8xi16>) -> tensor<4x8xi32>
  %other = stablehlo.add %v, %v : tensor<4x8xi32>
  %first = stablehlo.constant dense<{first}> : tensor<i32>
  %last = stablehlo.constant dense<-2147483648> : tensor<i32>
  %low = stablehlo.reduce(%v init: %first) applies stablehlo.{lower} across dimensions = [{axis}]
    : (tensor<4x8xi32>, tensor<i32>) -> tensor<{kept}xi32>
  %high = stablehlo.reduce(%{source} init: %last) applies stablehlo.maximum across dimensions = [{axis}]
    : (tensor<4x8xi32>, tensor<i32>) -> tensor<{kept}xi32>
  %total = stablehlo.add %low, %high : tensor<{kept}xi32>
  %half = stablehlo.constant dense<{half}> : tensor<{kept}xi32>
  %m = stablehlo.shift_right_arithmetic %total, %half : tensor<{kept}xi32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [{dims}] : (tensor<{kept}xi32>) -> tensor<4x8xi32>
  %u = stablehlo.subtract %v, %mb : tensor<4x8xi32>
  %reach = stablehlo.subtract %{end}, %m : tensor<{kept}xi32>
  %one = stablehlo.constant dense<{least}> : tensor<{kept}xi32>
  %a = stablehlo.maximum %reach, %one : tensor<{kept}xi32>
  %c = stablehlo.constant dense<{constant}> : tensor<{kept}xi32>
  %q = stablehlo.divide %c, %a : tensor<{kept}xi32>
  %b = stablehlo.broadcast_in_dim %q, dims = [{dims}] : (tensor<{kept}xi32>) -> tensor<4x8xi32>
  %y = stablehlo.multiply %u, %b : tensor<4x8xi32>
  return %y : tensor<4x8xi32>
}}
"""
GIVEN = {
    "first": "2147483647",
    "lower": "minimum",
    "source": "v",
    "axis": "1",
    "kept": "4",
    "half": "1",
    "end": "high",
    "least": "1",
    "constant": "536870912",
    "dims": "0",
}


def rows(**changes: str) -> Program:
    return parse_program(ROWS.format(**{**GIVEN, **changes}))


def bounds(program: Program) -> tuple[int, int]:
    (product,) = [op for op in program.entry.ops if isinstance(op, MultiplyOp)]
    found = ranges_of(program).of(product.result)
    return found.least, found.greatest


def test_a_row_times_a_constant_over_half_of_its_range_is_at_most_the_constant() -> None:
    assert bounds(rows()) == (-(1 << 29), 1 << 29)
    assert bounds(rows(axis="0", kept="8", dims="1")) == (-(1 << 29), 1 << 29)


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "other"},
        {"lower": "maximum"},
        {"half": "2"},
        {"end": "low"},
        {"least": "0"},
        {"constant": "-536870912"},
    ],
    ids=str,
)
def test_other_products_have_the_bounds_of_their_factors(changes: dict[str, str]) -> None:
    assert bounds(rows(**changes)) == (-(1 << 31), (1 << 31) - 1)


def test_a_row_that_is_divided_by_another_dimension_has_no_such_bound() -> None:
    square = ROWS.replace("4x8", "4x4").format(**{**GIVEN, "dims": "1"})
    assert bounds(parse_program(square)) == (-(1 << 31), (1 << 31) - 1)
