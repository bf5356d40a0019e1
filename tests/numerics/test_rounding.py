from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics import rational
from zeropoint.numerics import rounding

int32 = st.integers(rational.INT32_MIN, rational.INT32_MAX) | st.sampled_from(
    [rational.INT32_MIN, rational.INT32_MIN + 1, rational.INT32_MAX, -1, 0, 1, 2**30, -(2**30)]
)
int64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1])

FLOAT_ROUNDINGS = [
    (rounding.round_half_even, rational.half_even),
    (rounding.round_half_away, rational.half_away),
    (rounding.truncate, rational.truncate),
]


@pytest.mark.parametrize(("function", "reference"), FLOAT_ROUNDINGS)
@given(st.floats(-(2.0**60), 2.0**60) | st.integers(-(2**24), 2**24).map(lambda n: n / 2))
def test_float_roundings_equal_the_rational_ones(function, reference, x):
    assert int(function(np.asarray(x))) == reference(Fraction(x))


@pytest.mark.parametrize(("function", "reference"), FLOAT_ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_roundings_beside_every_small_tie(function, reference, dtype):
    ties = np.arange(-40, 41).astype(dtype) / dtype(2)
    x = np.concatenate([ties, np.nextafter(ties, dtype(99)), np.nextafter(ties, dtype(-99))]).astype(dtype)
    found = function(x)
    assert found.dtype == dtype
    assert found.astype(int).tolist() == [reference(Fraction(float(v))) for v in x]


def test_half_away_does_not_invent_a_tie_just_below_one_half():
    below = np.float64(0.49999999999999994)
    assert below + 0.5 == 1.0
    assert rounding.round_half_away(below) == 0.0


@given(int64, st.integers(0, 63))
def test_shift_right_half_up_over_all_of_int64(x, n):
    assert int(rounding.shift_right_half_up(x, n)) == rational.half_up(Fraction(x, 2**n))


@given(int64.filter(lambda x: x > -(2**63)), st.integers(0, 62))
def test_rounding_divide_by_pot_is_half_away(x, k):
    found = int(rounding.rounding_divide_by_pot(x, k))
    assert found == rational.rounding_divide_by_pot(x, k)
    assert found == rational.half_away(Fraction(x, 2**k))


@given(int32, int32)
def test_srdhm_equals_gemmlowp_as_written(a, b):
    assert int(rounding.saturating_rounding_doubling_high_mul(a, b)) == rational.srdhm(a, b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (rational.INT32_MIN, rational.INT32_MIN, rational.INT32_MAX),
        (rational.INT32_MIN, rational.INT32_MAX, -rational.INT32_MAX),
        (1, 2**30, 1),  # a tie goes up
        (-1, 2**30, 0),  # a tie goes up
        (-1, 2**30 + 1, -1),
        (0, rational.INT32_MIN, 0),
    ],
)
def test_srdhm_at_its_corners(a, b, expected):
    assert int(rounding.saturating_rounding_doubling_high_mul(a, b)) == expected


@given(int32, st.integers(0, 2**31 - 1), st.integers(-31, 30))
def test_multiply_by_quantized_multiplier_where_the_runtime_defines_it(x, multiplier, exponent):
    x >>= max(exponent, 0)
    expected = rational.multiply_by_quantized_multiplier(x, multiplier, exponent)
    assert int(rounding.multiply_by_quantized_multiplier(x, multiplier, exponent)) == expected


@given(st.data(), st.integers(0, 2**31 - 1), st.integers(2, 62), st.booleans())
def test_tosa_apply_scale_32_in_its_specified_domain(data, multiplier, shift, double_round):
    bound = min(2 ** (shift - 1), 2**31)
    value = data.draw(st.integers(-bound, bound - 1) | st.sampled_from([-bound, bound - 1, -1, 0]))
    found = rounding.tosa_apply_scale_32(value, multiplier, shift, double_round=double_round)
    assert int(found) == rational.tosa_apply_scale_32(value, multiplier, shift, double_round)
    if not double_round:
        assert int(found) == rational.half_up(Fraction(value * multiplier, 2**shift))


@given(st.integers(-(2**47), 2**47 - 1), st.integers(0, 2**15 - 1), st.integers(2, 62))
def test_tosa_apply_scale_16_takes_48_bit_values(value, multiplier, shift):
    found = rounding.tosa_apply_scale_16(value, multiplier, shift)
    assert int(found) == rational.half_up(Fraction(value * multiplier, 2**shift))


def test_integer_roundings_are_vectorised_and_broadcast():
    x = np.arange(-6, 7, dtype=np.int32).reshape(-1, 1)
    n = np.array([0, 1, 2])
    assert rounding.shift_right_half_up(x, n).tolist() == [
        [rational.half_up(Fraction(int(v), 2**k)) for k in (0, 1, 2)] for v in x[:, 0]
    ]
