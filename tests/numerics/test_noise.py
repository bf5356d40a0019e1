"""Energies and decibels."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from zeropoint.numerics.noise import NoiseSums, decibels, energy


@pytest.mark.parametrize(
    ("signal", "noise", "expected"),
    [
        (100, 1, 20),
        (1, 100, -20),
        (1, 0, inf),
        (0, 0, inf),
        (0, 1, -inf),
        (1, inf, -inf),
        (1, nan, -inf),
        (inf, 1, inf),
    ],
)
def test_decibels_have_a_value_where_signal_or_noise_is_zero_or_not_finite(
    signal: float, noise: float, expected: float
):
    assert decibels(signal, noise) == pytest.approx(expected)


def test_decibels_of_a_ratio_that_underflows_are_minus_infinity():
    assert decibels(5e-324, 1e300) == -inf


def test_energy_is_summed_in_f64():
    assert energy(np.full(1000, 1e30, np.float32)) == pytest.approx(1e63, rel=1e-6)


def test_noise_is_divided_into_what_a_kernel_inherits_and_adds():
    sums = NoiseSums()
    sums.add(np.array([3.0, 4.0]), np.array([3.0, 6.0]), np.array([4.0, 6.0]))
    sums.add(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert (sums.signal, sums.total, sums.inherited, sums.added) == (26, 5, 4, 1)
