"""The range with the least squared error, against quantizing the values with every candidate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.calibrate import MeanSquareObserver
from zeropoint.numerics.affine import dequantize, quantize
from zeropoint.numerics.ranges import asymmetric


def squared_error(values: np.ndarray, low: float, high: float) -> float:
    chosen = asymmetric(low, high, -128, 127)
    stored = quantize(values, chosen.scale, chosen.zero_point, -128, 127)
    return float(((dequantize(stored, chosen.scale, chosen.zero_point).astype(np.float64) - values) ** 2).sum())


def observed(values: np.ndarray) -> tuple[float, float]:
    observer = MeanSquareObserver()
    observer.update(values)
    return observer.range()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["normal", "laplace", "relu", "outliers", "uniform", "one-sided"])
def test_no_narrower_range_has_a_noticeably_smaller_error(shape: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = {
        "normal": random.normal(0.3, 1.0, 20000),
        "laplace": random.laplace(0.0, 1.0, 20000),
        "relu": np.maximum(random.normal(0.0, 1.0, 20000), 0.0),
        "outliers": np.concatenate([random.normal(0.0, 1.0, 20000), [40.0]]),
        "uniform": random.uniform(-1.0, 1.0, 20000),
        "one-sided": random.exponential(1.0, 20000),
    }[shape].astype(np.float32)
    low, high = observed(values)
    least = min(
        squared_error(values, values.min() * a, values.max() * b)
        for a in (0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
        for b in (0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
    )
    # The observer models the rounding error as s^2 / 12, which holds to a few percent for so many values.
    assert squared_error(values, low, high) <= 1.05 * least


def test_an_outlier_that_costs_more_to_keep_than_to_cut_is_cut() -> None:
    values = np.append(np.random.default_rng(0).normal(0.0, 1.0, 200000), 10.0).astype(np.float32)
    assert observed(values)[1] < 9.0


def test_two_values_keep_their_range() -> None:
    assert observed(np.float32([-1.0, 2.0])) == (-1.0, 2.0)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50))
def test_the_range_lies_inside_the_observed_one_and_keeps_a_quarter_of_it(numbers: list[float]) -> None:
    values = np.float32(numbers)
    low, high = observed(values)
    assert min(values.min(), 0.0) <= low <= min(0.25 * values.min(), 0.0)
    assert max(0.25 * values.max(), 0.0) <= high <= max(values.max(), 0.0)
