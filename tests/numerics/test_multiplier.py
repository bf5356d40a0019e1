from fractions import Fraction
from math import frexp

import numpy as np
import pytest
from hypothesis import given

from numerics import rational
from numerics.multipliers import multipliers
from zeropoint.numerics.multiplier import (
    fixed16_multiplier,
    fixed32_multiplier,
    pot_shift,
    quantize_multiplier,
    tosa_multiplier,
    wide_multiplier,
)


@given(multipliers(-70, 60))
def test_quantize_multiplier_equals_the_source_formula(m):
    q, e = frexp(m)
    expected = rational.half_away(Fraction(q) * 2**31)
    if expected == 2**31:
        expected, e = 2**30, e + 1
    if e < -31:
        expected, e = 0, 0
    mantissa, exponent = quantize_multiplier(m)
    assert (int(mantissa), int(exponent)) == (expected, e)


@pytest.mark.parametrize(
    ("m", "expected"),
    [
        (0.0, (0, 0)),
        (1.0, (2**30, 1)),
        (0.5, (2**30, 0)),
        (0.25, (2**30, -1)),
        (1 - 2**-40, (2**30, 1)),  # rounds up to 2^31, and is halved
        (2.0**-32, (2**30, -31)),
        (2.0**-32 * (1 - 2**-20), (0, 0)),  # flushed
        (2.0**-32 * (1 - 2**-40), (2**30, -31)),  # rounds up before it is looked at
        (3.0, (3 * 2**29, 2)),
    ],
)
def test_quantize_multiplier_at_its_corners(m, expected):
    assert tuple(int(part) for part in quantize_multiplier(m)) == expected


@given(multipliers(-31, 31))
def test_fixed32_has_31_bits_of_precision_and_a_bounded_shift(m):
    m0, n = (int(part) for part in fixed32_multiplier(m))
    assert 2**30 <= m0 < 2**31
    assert 0 <= n <= 62
    assert abs(Fraction(m0, 2**n) - Fraction(m)) <= Fraction(m) * Fraction(1, 2**31)


@given(multipliers(32, 1000))
def test_fixed32_caps_what_saturates_anyway(m):
    assert tuple(int(part) for part in fixed32_multiplier(m)) == (2**31 - 1, 0)


@given(multipliers(-1000, -33))
def test_fixed32_of_a_vanishing_multiplier_is_zero(m):
    m0, n = (int(part) for part in fixed32_multiplier(m))
    assert (m0 == 0 and n == 31) or m >= 2.0**-32 * (1 - 2.0**-31)


@given(multipliers(-60, 20))
def test_fixed16_has_15_bits_and_six_guard_bits(m):
    mantissa, s = (int(part) for part in fixed16_multiplier(m))
    assert 2**14 <= mantissa < 2**15
    assert abs(Fraction(mantissa, 2**15) / Fraction(2) ** s - 64 * Fraction(m)) <= 64 * Fraction(m) / 2**15


def test_fixed16_reaches_down_to_a_shift_of_one():
    assert [int(part) for part in fixed16_multiplier(2.0**-7 * (1 - 2**-16))] == [2**14, 0]  # rounds up to 2^-7
    assert [int(part) for part in fixed16_multiplier(2.0**-7 * (1 - 2**-14))] == [32766, 1]
    assert [int(part) for part in fixed16_multiplier(0.0)] == [0, 31]


@given(multipliers(-31, 14))
def test_wide_multiplier_is_the_16x8_form_of_litert(m):
    mantissa, exponent = (int(part) for part in quantize_multiplier(m))
    expected = (mantissa + 2**15) >> 16 if mantissa < 0x7FFF0000 else 0x7FFF
    assert tuple(int(part) for part in wide_multiplier(m)) == (expected, 15 - exponent)
    assert expected < 2**15


@given(multipliers(-31, 29))
def test_tosa_multiplier_has_shifts_that_tosa_allows(m):
    mantissa, shift = (int(part) for part in tosa_multiplier(m))
    assert 2 <= shift <= 62
    assert 0 <= mantissa < 2**31
    if m < 2.0**28:
        assert abs(Fraction(mantissa, 2**shift) - Fraction(m)) <= Fraction(m) * Fraction(1, 2**30)


def test_tosa_multiplier_loses_low_bits_below_its_last_shift():
    assert [int(part) for part in tosa_multiplier(2.0**-40)] == [2**22, 62]
    assert [int(part) for part in tosa_multiplier(2.0**-80)] == [0, 62]


@pytest.mark.parametrize(("m", "n"), [(1.0, 0), (0.5, 1), (2.0**-20, 20), (8.0, -3), (2.0**-90, 62), (2.0**40, -31)])
def test_pot_shift_of_powers_of_two(m, n):
    assert int(pot_shift(m)) == n


@pytest.mark.parametrize("m", [0.0, 3.0, 0.3, 1 + 2**-52])
def test_pot_rejects_other_numbers(m):
    with pytest.raises(ValueError, match="expected a power of two"):
        pot_shift(m)


@pytest.mark.parametrize("m", [-1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "resolve",
    [quantize_multiplier, fixed32_multiplier, fixed16_multiplier, wide_multiplier, tosa_multiplier, pot_shift],
)
def test_a_real_multiplier_has_to_be_finite_and_not_negative(resolve, m):
    with pytest.raises(ValueError, match="expected a finite number >= 0"):
        resolve(np.array([0.5, m]))


def test_multipliers_are_vectorised_over_channels():
    m = np.array([0.25, 1.5, 0.0])
    mantissa, exponent = quantize_multiplier(m)
    assert mantissa.tolist() == [2**30, 3 * 2**29, 0]
    assert exponent.tolist() == [-1, 1, 0]
