"""Integer quotients, comparisons and shifted sums against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_cases import some
from zeropoint.numerics import AffineParameters
from zeropoint.numerics.division import Division, compared_terms
from zeropoint.numerics.real_math import ShiftedSum, power_of_two
from zeropoint.numerics.rounding import rounding_divide_by_pot

WIDTHS = st.sampled_from([8, 16])
SCALES = st.floats(2.0**-10, 2.0**10)


@st.composite
def kinds(draw: st.DrawFn, scales: st.SearchStrategy[float] = SCALES) -> AffineParameters:
    half = 1 << (draw(WIDTHS) - 1)
    zero_point = draw(st.one_of(st.just(0), st.integers(-half, half - 1), st.sampled_from([-half, half - 1])))
    return AffineParameters(np.asarray(draw(scales)), np.asarray(zero_point), -half, half - 1)


@st.composite
def stored(draw: st.DrawFn, kind: AffineParameters) -> int:
    ends = [kind.storage_min, kind.storage_max, int(kind.zero_point)]
    return draw(st.one_of(st.integers(kind.storage_min, kind.storage_max), st.sampled_from(ends)))


def clamped(number: int, kind: AffineParameters) -> int:
    return max(kind.storage_min, min(kind.storage_max, number))


def quotient(division: Division, a: int, b: int) -> int:
    """The definition, in fractions."""
    x, y = a - division.zero_points[0], b - division.zero_points[1]
    if y == 0:
        found = division.zero_point if x == 0 else division.storage_max if x > 0 else division.storage_min
    else:
        exact = Fraction(x * division.multiplier, y * 2**division.shift)
        found = division.zero_point + floor(exact + Fraction(1, 2))
    return max(division.storage_min, min(division.storage_max, found))


@some(100)
@given(st.data())
def test_a_quotient_is_the_rational_number_rounded_half_up(data: st.DataObject) -> None:
    first, second, result = (data.draw(kinds()) for _ in range(3))
    division = Division.of([first, second], result)
    a, b = data.draw(stored(first)), data.draw(stored(second))
    assert int(division.apply(a, b)) == quotient(division, a, b)


@pytest.mark.parametrize(("divisors", "result"), [(255, 255), (65535, 255), (255, 65535)])
def test_a_quotient_in_very_large_steps_saturates(divisors: int, result: int) -> None:
    """x / max(|x|, 1e-12) of data that is all zero has steps of 2.55e14 for each of x; it was refused."""
    first = AffineParameters(np.asarray(1.0), np.asarray(3), -128, 127)
    second = AffineParameters(np.asarray(1e-12 / divisors), np.asarray(0), 0, divisors)
    division = Division.of([first, second], AffineParameters(np.asarray(1.0), np.asarray(-5), -(result + 1) // 2, 99))
    for b in (1, 7, divisors):
        assert division.apply([-128, 2, 3, 4, 127], b).tolist() == [-(result + 1) // 2] * 2 + [-5] + [99] * 2


@some(50)
@given(st.data())
def test_the_ratio_of_a_quotient_has_26_bits_where_results_are_not_zero(data: st.DataObject) -> None:
    first, second, result = (data.draw(kinds()) for _ in range(3))
    division = Division.of([first, second], result)
    real = Fraction(float(first.scale)) / (Fraction(float(second.scale)) * Fraction(float(result.scale)))
    found = Fraction(division.multiplier, 2**division.shift)
    assert abs(found - real) <= real / 2**26 or first.reach * real < Fraction(1, 4)


def test_every_quotient_of_bytes() -> None:
    kind = AffineParameters(np.asarray(0.37), np.asarray(-5), -128, 127)
    division = Division.of([kind, AffineParameters(np.asarray(0.11), np.asarray(9), -128, 127)], kind)
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    expected = [quotient(division, x, y) for x, y in zip(a.flat, b.flat, strict=True)]
    np.testing.assert_array_equal(division.apply(a, b).reshape(-1), expected)


def test_ties_of_a_quotient_go_up_on_either_side_of_zero() -> None:
    division = Division(1, 0, (0, 0), 0, -128, 127)
    assert division.apply([1, -1, 1, -1, 3, -3], [2, 2, -2, -2, 2, 2]).tolist() == [1, 0, 0, 1, 2, -1]


def test_quotients_by_zero_are_the_bounds_and_the_zero_point() -> None:
    division = Division(1, 0, (2, 3), 7, -100, 90)
    assert division.apply([3, 1, 2], [3, 3, 3]).tolist() == [90, -100, 7]


def test_a_ratio_that_64_bits_do_not_hold_is_refused() -> None:
    large, small = (AffineParameters(np.asarray(scale), np.asarray(0), -32768, 32767) for scale in (2.0**20, 2.0**-6))
    with pytest.raises(ValueError, match=r"quotients in steps of .* at most 2\^30"):
        Division.of([large, small], small)


@some(100)
@given(st.data())
def test_values_with_f32_scales_are_compared_exactly(data: st.DataObject) -> None:
    f32 = st.floats(2.0**-60, 2.0**60, width=32)
    first, second = data.draw(kinds(f32)), data.draw(kinds(f32))
    a, b = data.draw(stored(first)), data.draw(stored(second))
    x, y = (Fraction(float(k.scale)) * (q - int(k.zero_point)) for q, k in ((a, first), (b, second)))
    left, right = (int(term) for term in compared_terms([first, second], np.asarray(a), np.asarray(b)))
    assert max(abs(left), abs(right)) < 2**63
    assert (left < right, left == right) == (x < y, x == y)


@some(100)
@given(st.data())
def test_a_shifted_sum_is_the_exact_sum_with_ties_away_from_zero(data: st.DataObject) -> None:
    powers = st.integers(-8, 8).map(lambda n: 2.0**n)
    first, second, result = (data.draw(kinds(powers)) for _ in range(3))
    sign = data.draw(st.sampled_from([1, -1]))
    total = ShiftedSum.of([first, second], result, (1, sign))
    if total is None:
        return
    a, b = data.draw(stored(first)), data.draw(stored(second))
    terms = [
        Fraction(float(k.scale)) * (q - int(k.zero_point)) * s / Fraction(float(result.scale))
        for q, k, s in ((a, first, 1), (b, second, sign))
    ]
    rounded = [floor(abs(term) + Fraction(1, 2)) * (1 if term > 0 else -1) for term in terms]
    assert sum(abs(term - int(term)) > 0 for term in terms) <= 1
    assert int(total.apply(a, b)) == clamped(sum(rounded) + int(result.zero_point), result)


def test_two_operands_that_would_both_round_have_no_shifted_sum() -> None:
    fine, coarse = (AffineParameters(np.asarray(scale), np.asarray(0), -128, 127) for scale in (0.25, 0.5))
    assert ShiftedSum.of([fine, fine], coarse, (1, 1)) is None
    assert ShiftedSum.of([fine, coarse], coarse, (1, 1)) is not None
    assert power_of_two(0.3) is None
    assert rounding_divide_by_pot([3, -3], 1).tolist() == [2, -2]
