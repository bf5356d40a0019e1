"""`Distribution`: what a report knows of the values that an observer has seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zeropoint.calibrate import MeanSquareObserver, MinMaxObserver, PercentileObserver
from zeropoint.calibrate.distribution import Distribution
from zeropoint.calibrate.histogram import RELATIVE_ERROR, bin_edges, bin_middles

FLOATS = st.floats(-1e4, 1e4, width=32)
VALUES = arrays(np.float32, st.integers(1, 200), elements=FLOATS)


def seen(values: np.ndarray) -> Distribution:
    observer = PercentileObserver(100.0)
    observer.update(values)
    found = Distribution.of(observer)
    assert found is not None
    return found


@given(VALUES, st.integers(1, 40))
def test_the_counts_of_a_histogram_add_up(values: np.ndarray, bins: int) -> None:
    found = seen(values)
    counts = found.histogram(found.extremes.minimum, found.extremes.maximum, bins)
    assert counts.shape == (bins,)
    assert (counts >= 0).all()
    assert counts.sum() == values.size


@given(VALUES, FLOATS, FLOATS)
def test_the_share_outside_is_exact_but_for_values_in_the_bins_of_the_ends(
    values: np.ndarray, one: float, other: float
) -> None:
    low, high = min(one, other), max(one, other)
    reals = values.astype(np.float64)
    near = np.abs(reals) * 2 * RELATIVE_ERROR + 1e-36
    surely = ((reals > high + near) | (reals < low - near)).mean()
    maybe = ((reals > high - near) | (reals < low + near)).mean()
    assert surely <= seen(values).outside(low, high) + 1e-12
    assert seen(values).outside(low, high) <= maybe + 1e-12


def test_a_histogram_places_values_within_the_width_of_a_bin() -> None:
    values = np.random.default_rng(0).normal(0, 1, 20_000).astype(np.float32)
    counts = seen(values).histogram(-4, 4, 32)
    expected = np.histogram(values.clip(-4, 4), np.linspace(-4, 4, 33))[0]
    assert np.abs(counts - expected).max() <= 0.02 * expected.max()


@given(VALUES)
def test_the_ranges_are_those_of_the_observers(values: np.ndarray) -> None:
    found = seen(values).ranges()
    for name, observer in {
        "minmax": PercentileObserver(100.0),
        "mse": MeanSquareObserver(),
        "percentile:99.9": PercentileObserver(99.9),
    }.items():
        observer.update(values)
        assert found[name] == observer.range()


def test_edges_enclose_the_middles() -> None:
    _, middles = bin_middles(PercentileObserver(100.0))
    positive = np.arange(middles.size // 2)
    low, high = bin_edges(positive)
    assert ((low <= middles[middles.size // 2 :]) & (middles[middles.size // 2 :] <= high)).all()


@pytest.mark.parametrize("observer", [MinMaxObserver(), PercentileObserver(100.0)])
def test_an_observer_without_a_histogram_or_without_values_has_none(observer: PercentileObserver) -> None:
    assert Distribution.of(observer) is None
