"""Energies and decibels."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from zeropoint.numerics.noise import NoiseSums, decibels, energy, energy_between


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


def as_one_sum(values: np.ndarray) -> float:
    """The energy from wide arrays of all elements."""
    wide = np.array(values, dtype=np.float64)
    return float(np.square(wide).sum())


LAYOUTS = {
    "rows": lambda array: array,
    "channels last": lambda array: np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "gaps": lambda array: array[:, :, :, :-1],
    "backwards": lambda array: array[:, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 1, 1, 5), (1, 3, 40, 50), (2, 16, 33, 63), (1, 64, 81, 97), (1, 7, 250, 1001)])
def test_energy_in_parts_has_the_bits_of_one_sum(shape: tuple[int, ...], layout: str):
    random = np.random.default_rng(sum(shape))
    first, second = (LAYOUTS[layout](random.standard_normal(shape).astype(np.float32)) for _ in range(2))
    assert energy(first) == as_one_sum(first)
    assert energy_between(first, second) == as_one_sum(first - second)
    assert energy_between(first, LAYOUTS["rows"](second.copy())) == as_one_sum(first - second.copy())
    assert energy_between(first, np.float32(0.25)) == as_one_sum(first - np.float32(0.25))


@pytest.mark.parametrize("size", [1, 127, 128, 129, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 300_007, 1 << 20])
def test_energy_in_parts_has_the_bits_of_one_sum_for_every_length(size: int):
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    assert energy(values) == as_one_sum(values)


def test_energy_of_values_that_are_not_finite_is_not_finite():
    values = np.ones(1 << 17, np.float32)
    values[70_000] = np.inf
    assert energy(values) == inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(energy_between(values, values))


def test_noise_is_divided_into_what_a_kernel_inherits_and_adds():
    sums = NoiseSums()
    sums.add(np.array([3.0, 4.0]), np.array([3.0, 6.0]), np.array([4.0, 6.0]))
    sums.add(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert (sums.signal, sums.total, sums.inherited, sums.added) == (26, 5, 4, 1)
