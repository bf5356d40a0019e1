"""Elementwise ops: literal cases, and all of them against StableHLO's interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation

from interp.programs import assert_as_upstream, one_op, run_op
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo import (
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ComparisonType,
    ComparisonTypeAttr,
    ConvertOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_dtype

EXACT_UNARY = [hlo.AbsOp, hlo.CeilOp, hlo.FloorOp, hlo.NegateOp, hlo.SignOp, hlo.SqrtOp]
ROUNDED_UNARY = [
    hlo.CosineOp,
    hlo.ExponentialOp,
    hlo.ExponentialMinusOneOp,
    hlo.LogOp,
    hlo.LogPlusOneOp,
    hlo.LogisticOp,
    hlo.RsqrtOp,
    hlo.SineOp,
    hlo.TanhOp,
]
ARITHMETIC = [hlo.AddOp, hlo.SubtractOp, hlo.MultiplyOp, hlo.DivideOp, hlo.MaximumOp, hlo.MinimumOp]
FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 88.0, -88.0, 1e-30, np.inf, -np.inf, np.nan], np.float32)
ui8, si4 = IntegerType(8, Signedness.UNSIGNED), IntegerType(4)


def _random(element: Attribute, seed: int, count: int = 40) -> Array:
    dtype, rng = element_dtype(element), np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    return rng.standard_normal(count).astype(dtype)


@pytest.mark.parametrize("op", EXACT_UNARY)
def test_exactly_rounded_functions_equal_upstream(op: type[Operation]):
    assert_as_upstream(one_op([TensorType(f32, [len(FLOATS)])], op), FLOATS)


@pytest.mark.parametrize("op", ROUNDED_UNARY)
def test_functions_are_within_a_step_or_two_of_upstream(op: type[Operation]):
    x = np.concatenate([FLOATS, _random(f32, 3)])
    program = one_op([TensorType(f32, [len(x)])], op)
    assert_as_upstream(program, x, relative=3e-7)


@pytest.mark.parametrize("op", [*ARITHMETIC, hlo.PowerOp])
@pytest.mark.parametrize("element", [f32, f64, f16, bf16])
def test_float_arithmetic_equals_upstream(op: type[Operation], element: Attribute):
    x, y = _random(element, 1), _random(element, 2)
    if op is hlo.PowerOp:
        x = np.abs(x)
    program = one_op([TensorType(element, [40])] * 2, op)
    assert_as_upstream(
        program, x, y, relative={2: 0.01, 4: 3e-7, 8: 1e-14}[x.dtype.itemsize] if op is hlo.PowerOp else 0
    )


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("element", [i8, i16, i32, i64, ui8])
def test_integer_arithmetic_equals_upstream_and_wraps(op: type[Operation], element: Attribute):
    x, y = _random(element, 1), _random(element, 2)
    if op is hlo.DivideOp:
        y[y == 0] = 7
    assert_as_upstream(one_op([TensorType(element, [40])] * 2, op), x, y)


def test_division_of_integers_truncates_towards_zero():
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert run_op(hlo.DivideOp, [TensorType(i32, [4])] * 2, x, y).tolist() == [3, -3, -3, 3]


def test_integers_narrower_than_their_dtype_wrap_at_their_width():
    x, y = np.array([7, -8, 5], np.int8), np.array([1, -1, 5], np.int8)
    four = TensorType(si4, [3])
    assert run_op(hlo.AddOp, [four] * 2, x, y).tolist() == [-8, 7, -6]
    unsigned = TensorType(IntegerType(4, Signedness.UNSIGNED), [2])
    assert run_op(hlo.MultiplyOp, [unsigned] * 2, *[np.array([15, 4], np.uint8)] * 2).tolist() == [1, 0]


@pytest.mark.parametrize("op", [hlo.AndOp, hlo.OrOp])
@pytest.mark.parametrize("element", [i1, i32])
def test_and_or_act_on_bits(op: type[Operation], element: Attribute):
    if element is i1:
        x, y = np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)
        expected = [False, False, False, True] if op is hlo.AndOp else [False, True, True, True]
    else:
        x, y = np.array([12, -1, 5, 0], np.int32), np.array([10, 7, 3, 9], np.int32)
        expected = [8, 7, 1, 0] if op is hlo.AndOp else [14, -1, 7, 9]
    assert run_op(op, [TensorType(element, [4])] * 2, x, y).tolist() == expected


def test_clamp_with_scalar_bounds_and_with_bounds_per_element():
    x = np.array([-1, 0.5, 9, np.nan], np.float32)
    scalar, tensor = TensorType(f32, []), TensorType(f32, [4])
    six = run_op(ClampOp, [scalar, tensor, scalar], np.float32(0), x, np.float32(6))
    np.testing.assert_array_equal(six, np.array([0, 0.5, 6, np.nan], np.float32))
    low, high = np.array([0, 1, 2, 3], np.float32), np.array([1, 2, 3, 4], np.float32)
    assert_as_upstream(one_op([tensor] * 3, ClampOp), low, np.array([-1, 1.5, 9, 3], np.float32), high)


@pytest.mark.parametrize("direction", ComparisonDirection)
def test_float_comparison_equals_upstream_also_for_nan(direction: ComparisonDirection):
    x, y = np.meshgrid(FLOATS, FLOATS)
    types = [TensorType(f32, x.shape)] * 2
    program = one_op(types, lambda a, b: CompareOp(a, b, direction))
    relation = {"EQ": "equal", "NE": "not_equal", "GE": "greater_equal", "GT": "greater", "LE": "less_equal"}
    expected = getattr(np, relation.get(direction.value, "less"))(x, y)
    np.testing.assert_array_equal(run_op(lambda a, b: CompareOp(a, b, direction), types, x, y), expected)
    assert program.outputs[0].type.element_type == i1


def test_total_order_ranks_signed_zeros_and_nans():
    ranked = np.array([-np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)
    ranked[0] = np.copysign(np.float32(np.nan), np.float32(-1))

    def build(a, b) -> Operation:
        op = CompareOp(a, b, ComparisonDirection.LT)
        op.properties["compare_type"] = ComparisonTypeAttr(ComparisonType.TOTALORDER)
        return op

    x, y = np.meshgrid(ranked, ranked, indexing="ij")
    less = run_op(build, [TensorType(f32, x.shape)] * 2, x, y)
    np.testing.assert_array_equal(less, np.triu(np.ones((8, 8), bool), 1))


def test_select_by_element_and_by_a_scalar():
    tensor, pred = TensorType(i32, [3]), TensorType(i1, [3])
    a, b = np.array([1, 2, 3], np.int32), np.array([-1, -2, -3], np.int32)
    picked = run_op(SelectOp, [pred, tensor, tensor], np.array([True, False, True]), a, b)
    assert picked.tolist() == [1, -2, 3]
    assert run_op(SelectOp, [TensorType(i1, []), tensor, tensor], np.array(False), a, b).tolist() == [-1, -2, -3]


def _convert(x: Array, source: Attribute, target: Attribute) -> Array:
    return run_op(lambda a: ConvertOp(a, TensorType(target, x.shape)), [TensorType(source, x.shape)], x)


def test_floats_become_integers_towards_zero_and_clamped():
    x = np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf, -np.inf], np.float32)
    assert _convert(x, f32, i8).tolist() == [1, -1, 127, -128, 0, 127, -128]
    assert _convert(x, f32, ui8).tolist() == [1, 0, 255, 0, 0, 255, 0]
    assert _convert(x, f32, si4).tolist() == [1, -1, 7, -8, 0, 7, -8]


@pytest.mark.parametrize("unsigned", [False, True])
def test_floats_become_64_bit_integers_up_to_the_ends_of_the_range(unsigned: bool):
    target = IntegerType(64, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)
    x = np.array([2.0**62, 2.0**63, 2.0**64 - 2048, 1e30, -(2.0**63), -1e30, np.nan])
    signed = [2**62, 2**63 - 1, 2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 0]
    positive = [2**62, 2**63, 2**64 - 2048, 2**64 - 1, 0, 0, 0]
    assert _convert(x, f64, target).tolist() == (positive if unsigned else signed)


def test_integers_become_narrower_ones_modulo_their_width():
    x = np.array([127, 128, 255, 256, -129], np.int32)
    assert _convert(x, i32, i8).tolist() == [127, -128, -1, 0, 127]
    assert _convert(x, i32, si4).tolist() == [-1, 0, -1, 0, -1]


def test_conversion_to_i1_asks_for_not_zero():
    assert _convert(np.array([0, -0.0, 0.1, np.nan], np.float32), f32, i1).tolist() == [False, False, True, True]
    assert _convert(np.array([0, 2, -256], np.int32), i32, i1).tolist() == [False, True, True]


@pytest.mark.parametrize("target", [f16, bf16, f64, i1, i16])
def test_conversion_of_floats_equals_upstream(target: Attribute):
    x = np.array([0.0, 0.5, 1.00390625, -3.7, 1000.25, 65504.0 if target is not i16 else 3.0], np.float32)
    program = one_op([TensorType(f32, x.shape)], lambda a: ConvertOp(a, TensorType(target, x.shape)))
    assert_as_upstream(program, x)


def test_bfloat16_values_are_held_as_such():
    x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert run_op(hlo.AddOp, [TensorType(bf16, [2])] * 2, x, x).dtype == ml_dtypes.bfloat16
