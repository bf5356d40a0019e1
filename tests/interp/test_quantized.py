"""Casts and elementwise ops on quantized values, under every profile."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, i1, i8

from interp.programs import execute, one_op, run_op
from zeropoint.interp import Interpreter, UnsupportedError
from zeropoint.interp.affine import requantization
from zeropoint.interp.quantized import implicit_conversion
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ReduceOp,
    SelectOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array
from zeropoint.numerics import PROFILES, dequantize, functions, quantize
from zeropoint.numerics.profile import profile as named_profile

I8, U8, I32 = Storage.of("i8"), Storage.of("u8"), Storage.of("i32")
A = UniformQuantizedType.per_layer(I8, 0.1, -30)
B = UniformQuantizedType.per_layer(I8, 0.25, 7)
C = UniformQuantizedType.per_layer(I8, 0.4, -20)
STEP = {
    "fixed16": 0.53,
    "fixed32": 0.51,
    "float32-rne": 0.51,
    "exact": 0.51,
    "fixed32-double": 0.75,
    "tosa-double": 0.75,
}
"""How far a requantized value may be from the real one: fixed16 has six guard bits, the doubles round twice."""
EVERY = np.arange(-128, 128).astype(np.int8)


def _tensor(element, *shape: int) -> TensorType:
    return TensorType(element, shape)


def _to(element):
    return lambda a: UniformQuantizeOp(a, TensorType(element, a.type.get_shape()))


def test_quantize_and_dequantize_of_a_float():
    x = np.array([1.0, -1.0, 1e9, -1e9, 0.05, np.nan], np.float32)
    # A program that names no profile has StableHLO's own semantics: NaN is stored as 0. Otherwise it is the zero point.
    assert run_op(_to(A), [_tensor(f32, 6)], x).tolist() == [-20, -40, 127, -128, -30, 0]
    stored = run_op(_to(A), [_tensor(f32, 6)], x, profile="float32-rne")
    assert stored.tolist() == [-20, -40, 127, -128, -30, -30]  # 0.05 / 0.1 - 30 = -29.5, ties to even
    assert stored.dtype == np.int8
    real = run_op(UniformDequantizeOp, [_tensor(A, 6)], stored)
    np.testing.assert_allclose(real, [1, -1, 15.7, -9.8, 0, 0], rtol=1e-6)


def test_quantize_per_channel_along_its_axis():
    element = UniformQuantizedType.per_channel(I8, 1, [0.5, 2.0], [3, -4])
    x = np.array([[1.0, 2.0], [-1.0, 8.0]], np.float32)
    stored = run_op(_to(element), [_tensor(f32, 2, 2)], x)
    assert stored.tolist() == [[5, -3], [1, 0]]
    np.testing.assert_array_equal(run_op(UniformDequantizeOp, [_tensor(element, 2, 2)], stored), x)


@pytest.mark.parametrize("name", ["fixed16", "fixed32", "float32-rne", "exact", "fixed32-double", "tosa-double"])
def test_requantize_between_per_layer_types_is_within_a_step_of_the_rational(name: str):
    result = run_op(_to(C), [_tensor(A, 256)], EVERY, profile=name)
    ratio = Fraction(A.scale) / Fraction(C.scale)
    exact = [min(max((int(q) + 30) * ratio - 20, Fraction(-128)), Fraction(127)) for q in EVERY]
    assert all(abs(int(y) - x) <= STEP[name] for x, y in zip(exact, result, strict=True))


def test_requantize_follows_the_profile_of_the_program():
    # m = 1/2 exactly: 3 * 1/2 is a tie, which fixed32 rounds up and round-half-even down to 2, up from 1.
    source = UniformQuantizedType.per_layer(I8, 0.25)
    target = UniformQuantizedType.per_layer(I8, 0.5)
    odd = np.array([1, 3, 5, -1, -3], np.int8)
    half_even = run_op(_to(target), [_tensor(source, 5)], odd, profile="float32-rne")
    half_up = run_op(_to(target), [_tensor(source, 5)], odd, profile="fixed32")
    half_away = run_op(_to(target), [_tensor(source, 5)], odd, profile="fixed32-double")
    assert half_even.tolist() == [0, 2, 2, 0, -2]
    assert half_up.tolist() == [1, 2, 3, 0, -1]
    assert half_away.tolist()[:3] == [1, 2, 3]


def test_a_program_without_a_profile_has_stablehlos_own():
    source, target = UniformQuantizedType.per_layer(I8, 0.25), UniformQuantizedType.per_layer(I8, 0.5)
    odd = np.array([1, 3, 5], np.int8)
    assert run_op(_to(target), [_tensor(source, 3)], odd).tolist() == [0, 2, 2]


def test_requantize_to_the_same_type_is_the_identity():
    np.testing.assert_array_equal(run_op(_to(A), [_tensor(A, 256)], EVERY, profile="fixed16"), EVERY)


def test_requantize_per_channel_accumulators_to_a_per_layer_type():
    source = UniformQuantizedType.per_channel(I32, 0, [0.01, 0.02])
    x = np.array([[100, -200], [100, -200]], np.int32)
    target = UniformQuantizedType.per_layer(I8, 0.1, 5)
    for name in PROFILES:
        assert run_op(_to(target), [_tensor(source, 2, 2)], x, profile=name).tolist() == [[15, -15], [25, -35]]


@pytest.mark.parametrize("name", PROFILES)
def test_quant_casts_quantize_as_the_profile_does(name: str):
    x = np.array([0.25, 0.35, -0.45, 3.0], np.float32)
    element = UniformQuantizedType.per_layer(I8, 0.1, 3)
    stored = run_op(lambda a: QuantizeCastOp(a, _tensor(element, 4)), [_tensor(f32, 4)], x, profile=name)
    expected = quantize(x, 0.1, 3, -128, 127, behaviour=named_profile(name).quantize)
    np.testing.assert_array_equal(stored, expected)
    back = run_op(lambda a: DequantizeCastOp(a, _tensor(f32, 4)), [_tensor(element, 4)], stored)
    np.testing.assert_array_equal(back, dequantize(stored, 0.1, 3))


def test_storage_cast_keeps_the_bits():
    unsigned = UniformQuantizedType.per_layer(U8, 0.5, 128)
    x = np.array([0, 127, 128, 255], np.uint8)
    as_integer = run_op(lambda a: StorageCastOp(a, _tensor(i8, 4)), [_tensor(unsigned, 4)], x)
    assert as_integer.tolist() == [0, 127, -128, -1]
    assert as_integer.dtype == np.int8
    back = run_op(lambda a: StorageCastOp(a, _tensor(unsigned, 4)), [_tensor(i8, 4)], as_integer)
    np.testing.assert_array_equal(back, x)


def test_storage_cast_of_unsigned_four_bits_extends_the_sign():
    unsigned = UniformQuantizedType.per_layer(Storage.of("u4"), 0.5, 8)
    x = np.array([0, 7, 8, 15], np.uint8)
    as_integer = run_op(lambda a: StorageCastOp(a, _tensor(IntegerType(4), 4)), [_tensor(unsigned, 4)], x)
    assert as_integer.tolist() == [0, 7, -8, -1]
    back = run_op(lambda a: StorageCastOp(a, _tensor(unsigned, 4)), [_tensor(IntegerType(4), 4)], as_integer)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("op", [hlo.AddOp, hlo.SubtractOp])
@pytest.mark.parametrize("name", PROFILES)
def test_sums_of_one_type_are_exact_under_every_profile(op, name: str):
    x, y = (a.reshape(-1) for a in np.meshgrid(EVERY, EVERY))
    result = run_op(op, [_tensor(A, x.size)] * 2, x, y, profile=name)
    zero, wide = -30, np.int64
    sign = 1 if op is hlo.AddOp else -1
    expected = np.clip((x.astype(wide) - zero) + sign * (y.astype(wide) - zero) + zero, -128, 127)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["fixed16", "fixed32-double", "tosa-double", "float32-rne", "exact"])
@pytest.mark.parametrize("op", [hlo.AddOp, hlo.SubtractOp, hlo.MultiplyOp])
def test_arithmetic_of_two_types_is_within_a_step_of_the_real_result(op, name: str):
    x, y = (a.reshape(-1) for a in np.meshgrid(EVERY, EVERY))
    result = run_op(
        lambda a, b: op(a, b, _tensor(C, x.size)), [_tensor(A, x.size), _tensor(B, x.size)], x, y, profile=name
    )
    real = functions.BINARY[op.name.removeprefix("stablehlo.")](
        (x.astype(np.float64) + 30) * 0.1, (y.astype(np.float64) - 7) * 0.25
    )
    expected = np.clip(real / 0.4 - 20, -128, 127)
    assert np.abs(result - expected).max() <= STEP[name]


def test_wide_accumulators_of_one_type_clamp_instead_of_wrapping():
    element = UniformQuantizedType.per_layer(I32, 0.5)
    x, y = np.array([2**31 - 1, -(2**31), 5], np.int32), np.array([1, -1, -7], np.int32)
    assert run_op(hlo.AddOp, [_tensor(element, 3)] * 2, x, y).tolist() == [2**31 - 1, -(2**31), -2]
    assert run_op(hlo.SubtractOp, [_tensor(element, 3)] * 2, x, -y).tolist() == [2**31 - 1, -(2**31), -2]
    assert run_op(hlo.AddOp, [_tensor(element, 2)] * 2, x[1:], x[1:]).tolist() == [-(2**31), 10]
    shifted = UniformQuantizedType.per_layer(I32, 0.5, 16)
    assert run_op(hlo.AddOp, [_tensor(shifted, 3)] * 2, x, y).tolist() == [2**31 - 16, -(2**31), -18]


def test_a_bias_of_the_accumulators_type_is_added_per_channel():
    element = UniformQuantizedType.per_channel(I32, 1, [0.5, 0.25])
    x = np.array([[1, 2], [3, 4]], np.int32)
    assert run_op(hlo.AddOp, [_tensor(element, 2, 2)] * 2, x, x * 10).tolist() == [[11, 22], [33, 44]]


FUNCTIONS = [hlo.AbsOp, hlo.LogisticOp, hlo.TanhOp, hlo.ExponentialOp, hlo.NegateOp, hlo.SqrtOp, hlo.SignOp]


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("name", ["fixed16", "fixed32-double"])
def test_functions_are_dequantize_op_quantize(op, name: str):
    result = run_op(lambda a: op(a, _tensor(C, 256)), [_tensor(A, 256)], EVERY, profile=name)
    real = functions.UNARY[op.name.removeprefix("stablehlo.")](dequantize(EVERY, 0.1, -30))
    expected = quantize(real, 0.4, -20, -128, 127, behaviour=named_profile(name).quantize)
    np.testing.assert_array_equal(result, expected)


def test_functions_of_wide_storage_are_dequantize_op_quantize():
    sixteen = UniformQuantizedType.per_layer(Storage.of("i16"), 2.0**-12)
    result_type = UniformQuantizedType.per_layer(Storage.of("i16"), 2.0**-15)
    y = np.arange(-32768, 32768, 17).astype(np.int16)
    result = run_op(lambda a: hlo.LogisticOp(a, _tensor(result_type, y.size)), [_tensor(sixteen, y.size)], y)
    real = functions.UNARY["logistic"](dequantize(y, 2.0**-12, 0))
    np.testing.assert_array_equal(result, quantize(real, 2.0**-15, 0, -32768, 32767))


def test_maximum_minimum_and_clamp_of_one_type_act_on_storage_as_on_reals():
    x, y = (a.reshape(-1) for a in np.meshgrid(EVERY, EVERY))
    types = [_tensor(A, x.size)] * 2
    for op, function in ((hlo.MaximumOp, np.maximum), (hlo.MinimumOp, np.minimum)):
        result = run_op(op, types, x, y)
        np.testing.assert_array_equal(result, function(x, y))
        real = function(dequantize(x, 0.1, -30), dequantize(y, 0.1, -30))
        np.testing.assert_array_equal(result, quantize(real, 0.1, -30, -128, 127))
    low, high = np.int8(-30), np.int8(30)
    result = run_op(ClampOp, [_tensor(A), _tensor(A, 256), _tensor(A)], low, EVERY, high)
    np.testing.assert_array_equal(result, np.clip(EVERY, low, high))


def test_maximum_of_two_types_is_of_the_real_values():
    result = run_op(
        lambda a, b: hlo.MaximumOp(a, b, _tensor(C, 2)),
        [_tensor(A, 2), _tensor(B, 2)],
        np.array([10, -30], np.int8),  # 4.0, 0.0
        np.array([8, 39], np.int8),  # 0.25, 8.0
    )
    assert result.tolist() == [-10, 0]


def test_comparison_of_one_type_and_of_two():
    def compare(a, b):
        return CompareOp(a, b, ComparisonDirection.GT)

    x, y = np.array([1, 2], np.int8), np.array([2, 1], np.int8)
    assert run_op(compare, [_tensor(A, 2)] * 2, x, y).tolist() == [False, True]
    # 3.1 and 3.2 against -1.25 and 10.
    mixed = run_op(compare, [_tensor(A, 2), _tensor(B, 2)], x, np.array([2, 47], np.int8))
    assert mixed.tolist() == [True, False]


def test_select_of_quantized_values():
    pred = np.array([True, False])
    x, y = np.array([1, 2], np.int8), np.array([5, 6], np.int8)
    assert run_op(SelectOp, [_tensor(i1, 2), _tensor(A, 2), _tensor(A, 2)], pred, x, y).tolist() == [1, 6]


def test_constants_of_quantized_type_hold_storage_and_scalars_broadcast():
    text = """
    func.func @main(%x: tensor<3x!quant.uniform<i8:f32, 0.5:4>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:4>> {
      %c = stablehlo.constant() <{value = dense<6> : tensor<i8>}> : () -> tensor<!quant.uniform<i8:f32, 0.5:4>>
      %0 = stablehlo.broadcast_in_dim %c, dims = []
        : (tensor<!quant.uniform<i8:f32, 0.5:4>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:4>>
      %1 = stablehlo.add %x, %0 : tensor<3x!quant.uniform<i8:f32, 0.5:4>>
      return %1 : tensor<3x!quant.uniform<i8:f32, 0.5:4>>
    }"""
    assert execute(text, np.array([4, 5, 127], np.int8)).tolist() == [6, 7, 127]


def test_pad_and_concatenate_move_storage():
    def build(a, v):
        return hlo.PadOp(a, v, [1], [1])

    assert run_op(build, [_tensor(A, 2), _tensor(A)], np.array([1, 2], np.int8), np.int8(-30)).tolist() == [
        -30,
        1,
        2,
        -30,
    ]
    x = np.array([1, 2], np.int8)
    assert run_op(lambda *v: hlo.ConcatenateOp(v, 0), [_tensor(A, 2)] * 2, x, x).tolist() == [1, 2, 1, 2]


def _reduce(source, inner, result, body, init: int, x: Array, profile: str | None = None) -> Array:
    def build(a, i):
        return ReduceOp([a], [i], [_tensor(result)], [0], binary_body(body, inner))

    program = one_op([_tensor(source, x.size), _tensor(source)], build, profile=profile, verified=False)
    return Interpreter(program).run_values([x, np.array(init, x.dtype)])[0]


def test_reduce_with_a_wider_accumulator_converts_at_the_edges():
    # The RFC's first example: u8 in, an i32 accumulator with a zero point, u8 of another scale out.
    source = UniformQuantizedType.per_layer(U8, 0.5, 10)
    inner = UniformQuantizedType.per_layer(I32, 0.25, 16)
    result = UniformQuantizedType.per_layer(U8, 8.0, 3)
    x = np.array([255, 10, 200, 0, 130], np.uint8)
    real = ((x.astype(np.float64) - 10) * 0.5).sum()
    for name in PROFILES:
        assert _reduce(source, inner, result, hlo.AddOp, 10, x, name) == round(real / 8.0) + 3


def _by_any_schedule(values: tuple[int, ...], low: int, high: int) -> set[int]:
    """What the full binary trees over the values give, where every step saturates."""
    if len(values) == 1:
        return {values[0]}
    cuts = range(1, len(values))
    sides = ((_by_any_schedule(values[:cut], low, high), _by_any_schedule(values[cut:], low, high)) for cut in cuts)
    return {min(max(a + b, low), high) for left, right in sides for a in left for b in right}


def test_a_sum_of_one_narrow_type_saturates_once_as_some_schedule_does():
    # 0 by 127 + ((127 - 127) - 127); neighbours first would give 127 - 128 = -1.
    element = UniformQuantizedType.per_layer(I8, 1.0)
    assert _reduce(element, element, element, hlo.AddOp, 0, np.array([127, 127, -127, -127], np.int8)) == 0
    numbers = np.random.default_rng(0)
    for _ in range(50):
        x = numbers.choice([-128, -127, -100, -3, 0, 5, 100, 127], 6).astype(np.int8)
        found = int(_reduce(element, element, element, hlo.AddOp, 0, x))
        assert found == min(max(int(x.sum(dtype=np.int64)), -128), 127)
        assert found in _by_any_schedule(tuple(x.tolist()), -128, 127)


def test_reduce_maximum_of_quantized_values_is_of_storage():
    x = np.random.default_rng(0).integers(-128, 128, 100).astype(np.int8)
    assert _reduce(A, A, A, hlo.MaximumOp, -128, x) == x.max()


def test_a_body_of_another_kind_of_type_is_refused():
    with pytest.raises(UnsupportedError, match="at the edge of a body; expected both quantized or neither"):
        implicit_conversion(A, f32, named_profile("fixed16"))


def test_casts_take_scales_per_block():
    element = UniformQuantizedType.sub_channel(I8, [(0, 2)], np.array([0.5, 0.25]))
    x = np.array([1.0, -1.0, 1.0, -1.0], np.float32)
    stored = run_op(lambda a: QuantizeCastOp(a, _tensor(element, 4)), [_tensor(f32, 4)], x)
    assert stored.tolist() == [2, -2, 4, -4]
    back = run_op(lambda a: DequantizeCastOp(a, _tensor(f32, 4)), [_tensor(element, 4)], stored)
    np.testing.assert_array_equal(back, x)


def test_arithmetic_on_scales_per_block_is_refused_by_name():
    element = UniformQuantizedType.sub_channel(I8, [(0, 2)], np.array([0.5, 0.25]))
    with pytest.raises(UnsupportedError, match="expected one scale, or one per channel"):
        requantization(element, A, named_profile("fixed16"))


def test_unsigned_storage_of_narrow_range_clamps_to_it():
    element = UniformQuantizedType.per_layer(Storage.of("u8", 10, 200), 1.0, 100)
    x = np.array([-1000, 0, 1000], np.float32)
    assert run_op(_to(element), [_tensor(f32, 3)], x).tolist() == [10, 100, 200]
    assert IntegerType(8, Signedness.UNSIGNED) != i8


def test_products_of_32_bit_values_far_from_their_zero_point_saturate():
    """They are 2^31 + 9 * 10^8 from it: the product is above 2^63."""
    element = UniformQuantizedType.per_layer(I32, 1.0, 900_000_000)
    x = np.array([-(2**31), 900_000_003, 0], np.int32)
    y = np.array([-(2**31), 900_000_004, 900_000_001], np.int32)
    found = run_op(hlo.MultiplyOp, [_tensor(element, 3)] * 2, x, y)
    assert found.tolist() == [2**31 - 1, 900_000_012, 0]
