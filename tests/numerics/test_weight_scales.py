"""Scales of stored weights: those of least squared error among shares of the range."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.numerics.storage import StorageType
from zeropoint.numerics.weight_scales import FACTORS, least_error

RANDOM = np.random.default_rng(0)


def error(weights: list[float], scale: float, point: int, storage: StorageType) -> float:
    """The squared error, in Python numbers."""
    total = 0.0
    for weight in weights:
        stored = min(max(round(weight / scale) + point, storage.min), storage.max)
        total += ((stored - point) * scale - weight) ** 2
    return total


@pytest.mark.parametrize("zero_points", [False, True])
def test_no_share_of_the_range_has_a_smaller_error(zero_points: bool) -> None:
    storage, weights = StorageType(True, 4), RANDOM.normal(0.3, 1, (5, 32))
    scales, points = least_error(weights, storage, zero_points=zero_points)
    for row, scale, point in zip(weights.tolist(), scales.tolist(), points.tolist(), strict=True):
        found = error(row, scale, point, storage)
        low, high = min(row), max(row)
        for factor in FACTORS:
            if zero_points:
                tried = float(np.float32((high - low) * factor / 15))
                at = min(max(round(-8 - low * factor / tried), -8), 7)
            else:
                tried, at = float(np.float32(max(-low, high) * factor / 7)), 0
            assert found <= error(row, tried, at, storage) + 1e-9


def test_zero_points_lower_the_error_of_weights_beside_zero() -> None:
    storage, weights = StorageType(True, 4), RANDOM.normal(0.5, 1, (50, 32))
    totals = [
        sum(error(row, *pair, storage) for row, *pair in zip(weights.tolist(), *found, strict=True))
        for zero_points in (False, True)
        for found in [[part.tolist() for part in least_error(weights, storage, zero_points=zero_points)]]
    ]
    assert totals[1] < 0.8 * totals[0]


def test_eight_bits_keep_the_whole_range() -> None:
    weights = RANDOM.normal(size=(3, 64))
    scales, points = least_error(weights, StorageType(True, 8))
    np.testing.assert_array_equal(scales, (np.abs(weights).max(axis=1) / 127).astype(np.float32).astype(float))
    assert not points.any()


@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("value", [0.0, 2.5, -2.5, 1e-40])
def test_constant_blocks_are_held(value: float, zero_points: bool) -> None:
    scales, points = least_error(np.full((1, 8), value), StorageType(True, 4), zero_points=zero_points)
    assert scales[0] > 0
    assert -8 <= points[0] <= 7
    assert error([value], float(scales[0]), int(points[0]), StorageType(True, 4)) <= (0.01 * abs(value) + 1e-18) ** 2
