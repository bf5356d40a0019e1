"""The bound that chooses the arithmetic of integer sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.interp.exactness import exact_dtype, greatest_magnitude, greatest_sum, to_integers


@pytest.mark.parametrize(
    ("bound", "dtype"),
    [
        (0, np.float32),
        (1 << 24, np.float32),
        ((1 << 24) + 1, np.float64),
        (1 << 53, np.float64),
        ((1 << 53) + 1, np.int64),
        (1 << 80, np.int64),
    ],
)
def test_the_quickest_exact_dtype(bound: int, dtype: type):
    assert exact_dtype(bound) == np.dtype(dtype)


def test_integers_up_to_the_limits_are_numbers_of_the_floats_and_the_next_are_not():
    assert int(np.float32(1 << 24)) == 1 << 24
    assert int(np.float32((1 << 24) + 1)) != (1 << 24) + 1
    assert int(np.float64(1 << 53)) == 1 << 53
    assert int(np.float64((1 << 53) + 1)) != (1 << 53) + 1


def test_magnitude_of_the_least_integer_does_not_overflow():
    assert greatest_magnitude(np.array([-128, 3], np.int8)) == 128
    assert greatest_magnitude(np.array([-(1 << 63)], np.int64)) == 1 << 63
    assert greatest_magnitude(np.zeros(0, np.int8)) == 0


def test_greatest_sum_is_over_the_terms_of_one_output():
    weights = np.array([[[1, -2], [3, 4]], [[-5, -6], [0, 0]]])  # 2 groups, 2 outputs, 2 terms
    assert greatest_sum(weights) == 11
    assert greatest_sum(np.zeros((1, 0, 3), np.int64)) == 0


def test_greatest_sum_of_huge_weights_rules_floats_out():
    assert exact_dtype(greatest_sum(np.full((1, 1, 4), 1 << 62, np.int64))) == np.int64


@given(st.lists(st.integers(-(1 << 53), 1 << 53), min_size=1), st.sampled_from([np.int8, np.int16, np.int32]))
def test_sums_wrap_to_the_result_type(sums: list[int], dtype: type):
    bits = np.dtype(dtype).itemsize * 8
    expected = [(s + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for s in sums]
    assert to_integers(np.array(sums, np.float64), np.dtype(dtype)).tolist() == expected
    assert to_integers(np.array(sums, np.int64), np.dtype(dtype)).tolist() == expected
