import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numerics import rational
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.storage import StorageType

EXPRESSED = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def rounded_to(dtype: np.dtype, value: Fraction) -> Fraction:
    """The value of normal range rounded to a float of that many significant bits, ties to even: exact arithmetic."""
    if value == 0:
        return value
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    exponent -= 1 if abs(value) < Fraction(2) ** exponent else 0
    unit = Fraction(2) ** (exponent - DIGITS[dtype.name] + 1)
    return rational.half_even(value / unit) * unit


def reference(x: float, scale: float, zero_point: int, low: int, high: int, behaviour: str, dtype: np.dtype) -> int:
    """quantize, each operation of the expressed type as an exact one and a rounding."""
    if behaviour == QuantizeBehaviour.RNE_BY_RANGE:
        dtype = np.promote_types(dtype, np.float32)
    value, s = Fraction(x), rounded_to(dtype, Fraction(scale))
    if behaviour == QuantizeBehaviour.RNE_BY_RANGE:
        ends = [rounded_to(dtype, (end - zero_point) * s) for end in (low, high)]
        k = rounded_to(dtype, (high - low) / rounded_to(dtype, ends[1] - ends[0]))
        steps = rounded_to(dtype, rounded_to(dtype, value * k) - rounded_to(dtype, ends[0] * k))
        return rational.clamp(rational.half_even(steps) + low, low, high)
    if behaviour == QuantizeBehaviour.RNE_RECIPROCAL:
        scaled = rounded_to(dtype, value * rounded_to(dtype, 1 / s))
    else:
        scaled = rounded_to(dtype, value / s)
    if behaviour in (QuantizeBehaviour.RNE_AFTER_ZERO_POINT, QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO):
        return rational.clamp(rational.half_even(rounded_to(dtype, scaled + zero_point)), low, high)
    if behaviour == QuantizeBehaviour.TRUNCATE_NO_CLAMP:
        q = rational.truncate(rounded_to(dtype, scaled + zero_point))
        return (q - low) % (high - low + 1) + low
    rounding = rational.half_away if behaviour == QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT else rational.half_even
    return rational.clamp(rounding(scaled) + zero_point, low, high)


@pytest.mark.parametrize("dtype", EXPRESSED, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("behaviour", QuantizeBehaviour)
@settings(max_examples=30)
@given(
    x=st.floats(-256.0, 256.0, width=16).filter(lambda x: x == 0 or abs(x) > 1e-3),
    scale=st.floats(1 / 64, 8.0, width=32),
    zero_point=st.integers(-128, 127),
)
def test_quantize_equals_the_rational_formula_in_every_expressed_type(dtype, behaviour, x, scale, zero_point):
    x = float(np.asarray(x).astype(dtype))
    found = quantize(x, scale, zero_point, -128, 127, behaviour=behaviour, expressed=dtype)
    assert int(found) == reference(x, scale, zero_point, -128, 127, behaviour, dtype)
    assert found.dtype == np.int8


@pytest.mark.parametrize("behaviour", QuantizeBehaviour)
@pytest.mark.parametrize("storage", ["i4", "u4", "i8", "u8", "i16", "u16"])
def test_every_stored_value_comes_back_exhaustively(behaviour, storage):
    storage = StorageType.parse(storage)
    stored = np.arange(storage.min, storage.max + 1)
    for scale in (1.0, 0.25, 3.0, 2.0**-20):  # exact products: so that truncation has nothing to cut
        for zero_point in (storage.min, storage.max, (storage.min + storage.max) // 2):
            reals = dequantize(stored, scale, zero_point)
            found = quantize(reals, scale, zero_point, storage.min, storage.max, behaviour=behaviour)
            if behaviour is not QuantizeBehaviour.RNE_RECIPROCAL or scale != 3.0:
                assert np.array_equal(found, stored)
            else:  # 1/3 is rounded in f32, but not enough to reach the next integer
                assert np.array_equal(found.astype(int), stored)


def test_ties_with_an_odd_zero_point_tell_the_behaviours_apart():
    found = {
        behaviour: [int(quantize(0.5, 1.0, zero_point, -128, 127, behaviour=behaviour)) for zero_point in (0, 3)]
        for behaviour in QuantizeBehaviour
    }
    assert found == {
        QuantizeBehaviour.RNE_AFTER_ZERO_POINT: [0, 4],
        QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO: [0, 4],
        QuantizeBehaviour.RNE_BEFORE_ZERO_POINT: [0, 3],
        QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT: [1, 4],
        QuantizeBehaviour.TRUNCATE_NO_CLAMP: [0, 3],
        QuantizeBehaviour.RNE_RECIPROCAL: [0, 3],
        QuantizeBehaviour.RNE_BY_RANGE: [0, 4],
    }


def test_a_reciprocal_rounds_differently_from_a_division():
    x, scale = np.float32(0.30000001192092896) * np.float32(2.5), np.float32(0.30000001192092896)
    grid = np.arange(-4000, 4000, dtype=np.float32) * np.float32(0.5) * scale
    divided = quantize(grid, scale, 0, -(2**15), 2**15 - 1, behaviour=QuantizeBehaviour.RNE_BEFORE_ZERO_POINT)
    multiplied = quantize(grid, scale, 0, -(2**15), 2**15 - 1, behaviour=QuantizeBehaviour.RNE_RECIPROCAL)
    assert (divided != multiplied).any()
    assert np.abs(divided.astype(int) - multiplied.astype(int)).max() == 1
    assert int(quantize(x, scale, 0, -128, 127)) == 2


@pytest.mark.parametrize("behaviour", QuantizeBehaviour)
@pytest.mark.parametrize("dtype", EXPRESSED, ids=lambda dtype: dtype.name)
def test_nan_is_the_zero_point_and_infinities_clamp(behaviour, dtype):
    x = np.array([np.nan, np.inf, -np.inf])
    for low, high, zero_point in [(-128, 127, 5), (0, 255, 7), (-127, 127, -3), (-(2**31), 2**31 - 1, 9)]:
        found = quantize(x, 0.5, zero_point, low, high, behaviour=behaviour, expressed=dtype)
        of_nan = 0 if behaviour is QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO else zero_point
        assert found.tolist() == [of_nan, high, low]


def test_stablehlo_stores_nan_as_zero_within_the_storage_range():
    behaviour = QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO
    assert quantize(np.nan, 0.5, 5, 3, 100, behaviour=behaviour) == 3
    assert quantize(np.nan, 0.5, -5, -100, -2, behaviour=behaviour) == -2


def test_what_f16_does_not_hold_clamps_without_a_warning():
    x, f16 = np.float32([1e6, -1e6, 1.0, 0.0]), np.float16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quantize(x, 1.0, 3, -128, 127, expressed=f16).tolist() == [127, -128, 4, 3]
        assert quantize(x, 1e-9, 3, -128, 127, expressed=f16).tolist() == [127, -128, 127, 3]  # the scale becomes 0
        assert dequantize(np.int16([20000, -3]), 100.0, 0, f16).tolist() == [np.inf, -300.0]


def test_values_past_every_float_bound_clamp_to_the_exact_bounds_of_wide_storage():
    x = np.array([3e38, -3e38, 2.0**31, -(2.0**31), 1.0], dtype=np.float32)
    found = quantize(x, 1e-10, 0, -(2**31), 2**31 - 1)
    assert found.tolist() == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2**31 - 1]
    assert quantize(x, 1e-10, 2**31, 0, 2**32 - 1).tolist() == [2**32 - 1, 0, 2**32 - 1, 0, 2**32 - 1]
    assert quantize(np.float32(7.0), 1.0, 0, -(2**31), 2**31 - 1).tolist() == 7


@given(x=st.integers(-(10**12), 10**12), zero_point=st.integers(0, 255))
def test_truncation_wraps_past_a_full_range_and_clamps_to_a_part_of_one(x, zero_point):
    behaviour = QuantizeBehaviour.TRUNCATE_NO_CLAMP
    wrapped = quantize(float(x), 1.0, zero_point, 0, 255, behaviour=behaviour, expressed=np.float64)
    assert int(wrapped) == (x + zero_point) % 256
    clamped = quantize(float(x), 1.0, zero_point, 0, 200, behaviour=behaviour, expressed=np.float64)
    assert int(clamped) == min(max(x + zero_point, 0), 200)


def test_truncation_goes_towards_zero_on_both_sides():
    x = np.array([-1.9, -0.9, 0.9, 1.9])
    found = quantize(x, 1.0, 0, -128, 127, behaviour=QuantizeBehaviour.TRUNCATE_NO_CLAMP)
    assert found.tolist() == [-1, 0, 0, 1]


def test_per_channel_parameters_broadcast():
    x = np.array([[1.0, -1.0], [1.0, -1.0]], dtype=np.float32)
    scale, zero_point = np.array([[0.5], [0.25]]), np.array([[0], [10]])
    stored = quantize(x, scale, zero_point, -128, 127)
    assert stored.tolist() == [[2, -2], [14, 6]]
    assert dequantize(stored, scale, zero_point).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", EXPRESSED, ids=lambda dtype: dtype.name)
@settings(max_examples=40)
@given(q=st.integers(-128, 127), zero_point=st.integers(-128, 127), scale=st.floats(2.0**-9, 100.0, width=32))
def test_dequantize_equals_the_rational_formula(dtype, q, zero_point, scale):
    found = dequantize(np.int8(q), scale, zero_point, dtype)
    difference = rounded_to(dtype, Fraction(q - zero_point))
    assert found.dtype == dtype
    assert Fraction(float(found)) == rounded_to(dtype, difference * rounded_to(dtype, Fraction(scale)))


def test_real_zero_is_exact_for_every_zero_point():
    zero_points = np.arange(-128, 128)
    assert not dequantize(zero_points, 0.1, zero_points).any()
    for behaviour in QuantizeBehaviour:
        found = quantize(np.zeros(256), 0.1, zero_points, -128, 127, behaviour=behaviour)
        assert np.array_equal(found, zero_points)


def test_the_result_has_the_dtype_asked_for():
    assert quantize(1.0, 1.0, 0, 0, 127).dtype == np.int8
    assert quantize(1.0, 1.0, 0, 0, 127, dtype=np.uint8).dtype == np.uint8


def test_an_empty_storage_range_is_rejected():
    with pytest.raises(ValueError, match=r"storage range 5\.\.4"):
        quantize(1.0, 1.0, 0, 5, 4)


def test_empty_arrays_stay_empty():
    assert quantize(np.zeros((0, 3)), 1.0, 0, -128, 127).shape == (0, 3)
    assert dequantize(np.zeros((2, 0), np.int8), 1.0, 0).shape == (2, 0)


@pytest.mark.parametrize("behaviour", [each for each in QuantizeBehaviour if each.shifts_with_zero_point])
def test_behaviours_that_add_the_zero_point_last_shift_with_it(behaviour):
    """Unsigned storage is signed storage plus half the range; near ties, and far outside."""
    ties = (np.arange(-600, 600, dtype=np.float32) / 2 + np.float32(1e-6)) * np.float32(0.37)
    x = np.concatenate([ties, np.array([np.nan, np.inf, -np.inf, 1e9, -1e9], np.float32)])
    unsigned = quantize(x, 0.37, 143, 0, 255, behaviour=behaviour, dtype=np.int64)
    assert np.array_equal(unsigned - 128, quantize(x, 0.37, 15, -128, 127, behaviour=behaviour, dtype=np.int64))


def test_a_zero_point_added_before_rounding_changes_what_is_near_a_tie():
    """0.499999 + 131 is 131.5 in f32, 0.499999 + 3 is below 3.5."""
    behaviour = QuantizeBehaviour.RNE_AFTER_ZERO_POINT
    assert not behaviour.shifts_with_zero_point
    x = np.float32(0.499999)
    assert int(quantize(x, 1.0, 131, 0, 255, behaviour=behaviour)) == 132
    assert int(quantize(x, 1.0, 3, -128, 127, behaviour=behaviour)) == 3


def test_words_by_range_are_exact_where_f32_does_not_hold_the_distance_of_the_ends():
    low, high = -(2**31), 2**31 - 1
    for zero_point in (high, 5, low):
        for x in (-13.2, -0.5, 0.0, 1.0, 14.15):
            found = quantize(np.float32(x), 0.1, zero_point, low, high, behaviour=QuantizeBehaviour.RNE_BY_RANGE)
            given = float(np.float32(x))
            assert int(found) == reference(given, 0.1, zero_point, low, high, "rne-by-range", np.dtype(np.float32))
