"""Bits, shifts, and the functions of `ir.stablehlo.real`: literal cases, and against StableHLO's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation

from interp.programs import assert_as_upstream, one_op, run_op
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_dtype

ui8, si4 = IntegerType(8, Signedness.UNSIGNED), IntegerType(4)
SHIFTS = [hlo.ShiftLeftOp, hlo.ShiftRightArithmeticOp, hlo.ShiftRightLogicalOp]
FLOATS = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e9, -0.0, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize("op", [*SHIFTS, hlo.XorOp, hlo.RemainderOp])
@pytest.mark.parametrize("element", [i8, i16, i32, i64, ui8])
def test_integers_equal_upstream(op: type[Operation], element: Attribute):
    dtype = element_dtype(element)
    limits, rng = np.iinfo(dtype), np.random.default_rng(5)
    x = rng.integers(limits.min, limits.max, 40, dtype, endpoint=True)
    y = rng.integers(1, 8 * dtype.itemsize, 40, dtype)
    assert_as_upstream(one_op([TensorType(element, [40])] * 2, op), x, y)


@pytest.mark.parametrize("op", [hlo.PopcntOp, hlo.CountLeadingZerosOp, hlo.NotOp])
@pytest.mark.parametrize("element", [i8, i16, i32, i64, ui8])
def test_bits_of_integers_equal_upstream(op: type[Operation], element: Attribute):
    limits = np.iinfo(element_dtype(element))
    x = np.array([0, 1, 2, 100, limits.max, limits.min], limits.dtype)
    assert_as_upstream(one_op([TensorType(element, [6])], op), x)


@pytest.mark.parametrize(
    ("op", "expected"),
    [(hlo.ShiftLeftOp, [0, 0]), (hlo.ShiftRightLogicalOp, [0, 0]), (hlo.ShiftRightArithmeticOp, [-1, 0])],
)
def test_a_shift_by_the_width_or_a_negative_number_leaves_only_what_comes_in(op: type[Operation], expected: list[int]):
    for amount in (8, -1):
        x, y = np.array([-128, 127], np.int8), np.full(2, amount, np.int8)
        assert run_op(op, [TensorType(i8, [2])] * 2, x, y).tolist() == expected


def test_four_bit_integers_are_shifted_and_counted_in_four_bits():
    x, y, four = np.array([-8, 7], np.int8), np.array([1, 1], np.int8), TensorType(si4, [2])
    assert run_op(hlo.ShiftLeftOp, [four] * 2, x, y).tolist() == [0, -2]
    assert run_op(hlo.ShiftRightLogicalOp, [four] * 2, x, y).tolist() == [4, 3]
    assert run_op(hlo.ShiftRightArithmeticOp, [four] * 2, x, y).tolist() == [-4, 3]
    assert run_op(hlo.PopcntOp, [four], x).tolist() == [1, 3]
    assert run_op(hlo.CountLeadingZerosOp, [four], x).tolist() == [0, 1]


@pytest.mark.parametrize("op", [hlo.RoundNearestAfzOp, hlo.RoundNearestEvenOp, hlo.IsFiniteOp])
def test_exact_functions_equal_upstream(op: type[Operation]):
    assert_as_upstream(one_op([TensorType(f32, [len(FLOATS)])], op), FLOATS)


def test_ties_go_away_from_zero_or_to_the_even_integer():
    vector = [TensorType(f32, [4])]
    assert run_op(hlo.RoundNearestAfzOp, vector, FLOATS[:4]).tolist() == [1, -1, 2, 3]
    assert run_op(hlo.RoundNearestEvenOp, vector, FLOATS[:4]).tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize("op", [hlo.CbrtOp, hlo.TanOp])
def test_rounded_functions_are_within_a_step_of_upstream(op: type[Operation]):
    x = np.array([0.0, 1.0, -8.0, 0.3, -1.2], np.float32)
    assert_as_upstream(one_op([TensorType(f32, [5])], op), x, relative=3e-7)


def test_atan2_tells_the_quadrants_apart_and_remainder_has_the_dividends_sign():
    y, x = np.array([1, 1, -1, -1], np.float32), np.array([1, -1, -1, 1], np.float32)
    pairs = [TensorType(f32, [4])] * 2
    np.testing.assert_allclose(run_op(hlo.Atan2Op, pairs, y, x) / np.pi, [0.25, 0.75, -0.75, -0.25], rtol=1e-6)
    a, b = np.array([17, 17, -17, -17], np.float32), np.array([3, -3, 3, -3], np.float32)
    assert run_op(hlo.RemainderOp, pairs, a, b).tolist() == [2, 2, -2, -2]
