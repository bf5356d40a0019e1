from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.numerics.accumulator import (
    accumulator_bound,
    accumulator_range,
    least_saturating_scale,
    least_weight_scale,
)

weights = st.lists(st.integers(-128, 127), min_size=1, max_size=5)


@given(weights, st.integers(-8, 0), st.integers(0, 8), st.integers(-9, 9), st.integers(-1000, 1000))
def test_the_range_is_that_of_every_partial_sum_and_is_reached(row, low, high, zero_point, bias):
    least, greatest = accumulator_range(np.array([row], np.int16), low, high, zero_point, np.array([bias]))
    terms = [[0, *((q - zero_point) * w for q in (low, high))] for w in [*row]]
    sums = [sum(chosen) + b for chosen in product(*terms) for b in (0, bias)]
    assert (int(least[0]), int(greatest[0])) == (min(sums), max(sums))
    bound = accumulator_bound(np.array([row], np.int16), low, high, zero_point, np.array([bias]))
    assert int(bound[0]) == max(map(abs, sums))


def test_the_bound_is_per_channel():
    found = accumulator_bound(np.array([[1, 2], [-3, 4]], np.int8), -128, 127, -128, np.array([5, -6]))
    assert found.tolist() == [3 * 255 + 5, 4 * 255]


def test_raw_products_have_no_zero_point():
    assert accumulator_bound(np.array([[127, -127]], np.int8), 0, 255).tolist() == [127 * 255]
    assert accumulator_bound(np.array([[127, -127]], np.int8), -128, 127).tolist() == [127 * 128 + 127 * 127]


def test_a_long_row_of_extreme_weights_does_not_overflow_the_proof():
    found = accumulator_bound(np.full((1, 100_000), -128, np.int8), 0, 255, 0)
    assert found.tolist() == [100_000 * 128 * 255]


def test_weights_are_rows_of_channels():
    with pytest.raises(ValueError, match=r"expected \(channels, terms\)"):
        accumulator_bound(np.zeros(4, np.int8), 0, 255)


@given(
    st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda b: b == 0 or abs(b) > 1e-38),
    st.floats(2.0**-60, 100.0),
    st.integers(0, 2**31 - 3),
)
def test_the_least_weight_scale_leaves_room_for_the_rounded_bias_and_no_more(bias, input_scale, terms):
    scale = float(least_weight_scale(bias, input_scale, terms))
    if bias == 0:
        assert scale == 0
        return
    stored = round(Fraction(bias) / (Fraction(input_scale) * Fraction(scale)))
    assert abs(stored) + terms <= 2**31 - 1
    assert abs(float(np.rint(bias / (input_scale * scale)))) + terms <= 2**31 - 1
    assert abs(stored) + terms >= 2**31 - 3


def test_least_scales_are_per_channel():
    found = least_weight_scale(np.array([0.0, 1.0, -2.0]), 0.5, np.array([0, 0, 2**30]))
    assert found[0] == 0
    assert found[1] == pytest.approx(1 / (2**31 * 0.5), rel=1e-8)
    assert found[2] == pytest.approx(2 / (2**30 * 0.5), rel=1e-8)


def test_terms_without_room_for_a_bias_are_refused():
    with pytest.raises(ValueError, match="found sums of products up to 2147483647"):
        least_weight_scale(1.0, 1.0, 2**31 - 1)


@given(
    bias=st.floats(-1e6, 1e6),
    input_scale=st.floats(1e-6, 10.0),
    greatest=st.floats(1e-3, 1e6),
    step=st.sampled_from([255, 65535]),
)
def test_a_sum_that_leaves_int32_at_the_saturating_scale_is_past_the_output(bias, input_scale, greatest, step):
    """A saturated sum less the bias, and the sum in 64 bits, are both beyond the greatest output, by half of it."""
    scale = float(least_saturating_scale(bias, input_scale, greatest))
    stored_bias = round(bias / (input_scale * scale))
    multiplier = input_scale * scale * step / greatest  # to output steps
    for sign in (1, -1):
        saturated = sign * (2**31 - 1) + stored_bias
        assert abs(saturated) * multiplier >= 1.5 * step
        assert (saturated > 0) == (sign > 0)
