"""The exponentials of LiteRT's 8-bit softmax."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.numerics.litert_exponentials import DISTANCES, distances, exponentials, f32_exponentials
from zeropoint.numerics.rounding import INT32_MAX


@given(st.floats(2.0**-25, 10.0, width=32))
def test_the_fixed_point_is_within_two_to_the_minus_21_of_exp(scale: float) -> None:
    real = np.exp(np.maximum(scale * DISTANCES, -60.0))
    assert np.abs(exponentials(scale) / 2.0**31 - real).max() < 2.0**-21


@pytest.mark.parametrize("scale", [0.1, 0.5, 4.0])
def test_distances_of_32_or_more_do_not_count(scale: float) -> None:
    found, counted = distances(scale)
    assert counted[-1]
    assert not counted[scale * DISTANCES <= -32].any()
    assert (found[~counted] == found[counted].min()).all()
    assert (exponentials(scale)[~counted] == 0).all()


def test_the_greatest_score_counts_as_one() -> None:
    assert exponentials(0.1)[-1] == INT32_MAX
    assert f32_exponentials(0.1)[-1] == 1.0


def test_the_table_in_floats_is_rounded_once() -> None:
    found, steps = f32_exponentials(0.1), np.float32(0.1) * DISTANCES.astype(np.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.exp(steps.astype(np.float64)).astype(np.float32))
