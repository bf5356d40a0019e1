"""Products of rows that are rounded to 8 bits, lowered to ordinary integer ops."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

from row_scaled import ATTRIBUTE, HOSTILE, RowProduct
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DivideOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, integer_program
from zeropoint.numerics.profile import profile
from zeropoint.numerics.requantize import requantize

SMALL = RowProduct((3,), 6, 2)
Found = TypeVar("Found", bound=Operation)


def exactly_lowered(given: Program, x: Array) -> Program:
    """The integer program, which computes what the quantized program does."""
    lowered = integer_program(given)
    verify(lowered.module)
    before, after = (Interpreter(each).run_values([x]) for each in (given, lowered))
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(found, expected)
    return lowered


def ops(program: Program, kind: type[Found]) -> list[Found]:
    return [op for op in program.entry.ops if isinstance(op, kind)]


@pytest.mark.parametrize("case", HOSTILE, ids=str)
def test_the_integer_program_computes_the_definition(case: RowProduct) -> None:
    given, x = case.program(), case.inputs()
    lowered = exactly_lowered(given, x)
    (dot,) = ops(lowered, DotGeneralOp)
    assert [element_of(value) for value in (dot.lhs, dot.rhs, dot.result)] == [i8, i8, i32]
    (found,) = Interpreter(lowered).run_values([x])
    scale = 0.005 * 127 * 4096 * case.terms**0.5 / 2**case.bits
    by = profile("fixed32").multiplier(np.array(0.005 / scale), case.bits, 32)
    low, high = -(1 << (case.bits - 1)), (1 << (case.bits - 1)) - 1
    wanted = requantize(case.sums(x), by, -5, low, high, axis=None, dtype=found.dtype)
    np.testing.assert_array_equal(found, wanted)


def test_products_of_the_same_activations_round_them_once() -> None:
    given = SMALL.program(products=3)
    lowered = exactly_lowered(given, SMALL.inputs())
    assert len(ops(lowered, DotGeneralOp)) == 3
    assert len(ops(lowered, DivideOp)) == 1


def test_weights_stay_in_8_bits() -> None:
    lowered = integer_program(SMALL.program())
    (dot,) = ops(lowered, DotGeneralOp)
    stored = constant_array(dot.rhs, lowered.weights)
    assert stored is not None
    assert stored.dtype == np.int8


def test_the_attribute_survives_printing() -> None:
    text = print_program(SMALL.program())
    assert ATTRIBUTE in text
    assert print_program(parse_program(text)) == text


def test_another_kind_of_scales_is_refused() -> None:
    text = SMALL.text().replace('"per_row"', '"per_column"')
    with pytest.raises(Exception, match=r'activation_scales.*expected "per_row"'):
        verify(parse_program(text).module)


def test_weights_that_are_computed_are_refused() -> None:
    x = "tensor<2x4x!quant.uniform<i16:f32, 0.5>>"
    w = "tensor<4x3x!quant.uniform<i16<-127:127>:f32, 0.5>>"
    r = "tensor<2x3x!quant.uniform<i32:f32, 0.25>>"
    given = parse_program(
        f"func.func @main(%x: {x}, %w: {w}) -> {r} {{\n%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] "
        f"{{{ATTRIBUTE}}} : ({x}, {w}) -> {r}\nreturn %r : {r}\n}}"
    )
    with pytest.raises(LoweringError, match="expected a matrix product with constant weights of 8 bits"):
        integer_program(given)


def test_sums_beyond_32_bits_are_refused() -> None:
    wide = RowProduct((2,), 1000, 1, low=-32768, high=32767, zero_point=0, extreme=True)
    with pytest.raises(LoweringError, match=r"found sums of up to \d+, expected at most 2147483647; split its sums"):
        integer_program(wide.program())
