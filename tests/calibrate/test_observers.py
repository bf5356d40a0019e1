"""Observers: counts and ranges that depend on the multiset of the values only."""

from __future__ import annotations

import inspect
import pickle
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import zeropoint as zp
from property_cases import some
from zeropoint.calibrate import (
    DEFAULT_OBSERVER,
    OBSERVERS,
    MeanSquareObserver,
    PercentileObserver,
    expected_runs,
    observer_factory,
)
from zeropoint.calibrate.histogram import ABSOLUTE_ERROR, RELATIVE_ERROR, DistributionObserver
from zeropoint.calibrate.moving_average import MovingAverageObserver
from zeropoint.cli import main

SPECS = ("entropy", "minmax", "moving_average", "mse", "output", "percentile:99")
NAMES = "entropy, minmax, moving_average, mse, output, percentile"
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def arrays(elements, least=1):
    return hnp.arrays(np.float32, st.integers(least, 60), elements=elements)


def state(observer) -> bytes:
    """Everything an observer holds, and its range."""
    counts = (observer.count, observer.nan_count, observer.infinite_count)
    parts = [np.array(counts).tobytes()]
    if observer.count:
        parts.append(np.array(observer.range(), np.float64).tobytes())
    if isinstance(observer, DistributionObserver):
        parts.append(observer.seen.histogram.dense(1 << 16).tobytes())
    if isinstance(observer, MovingAverageObserver):
        parts.append(observer.sums.tobytes())
    if isinstance(observer, PercentileObserver):
        parts.append(observer.histogram.dense(1 << 16).tobytes())
    return b"".join(parts)


def observe(spec, batches):
    observer = observer_factory(spec)()
    for batch in batches:
        observer.update(batch)
    return observer


def test_minmax_gives_the_extremes_of_all_batches():
    observer = observe("minmax", [np.float32([[1, -2.5]]), np.float32([7, 0]), np.float32(3)])
    assert observer.range() == (-2.5, 7.0)
    assert observer.count == 5


@pytest.mark.parametrize("spec", SPECS)
def test_nan_and_infinities_are_counted_and_left_out_of_the_range(spec):
    observer = observe(spec, [np.float32([np.nan, 1, np.inf, -1]), np.float32([-np.inf, np.inf, np.nan, np.nan])])
    assert (observer.count, observer.nan_count, observer.infinite_count) == (2, 3, 3)
    low, high = observer.range()
    assert -1 <= low <= high <= 1
    assert np.isfinite([low, high]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_a_range_of_nothing_is_an_error(spec):
    observer = observe(spec, [np.float32([]), np.float32([np.nan])])
    with pytest.raises(ValueError, match="found no finite value"):
        observer.range()


@given(batches=st.lists(arrays(FLOATS), min_size=1, max_size=5), data=st.data())
def test_the_order_of_samples_changes_no_bit_of_a_moving_average(batches, data):
    order = data.draw(st.permutations(batches))
    assert state(observe("moving_average", order)) == state(observe("moving_average", batches))


@given(batches=st.lists(arrays(FINITE), min_size=1, max_size=6))
def test_a_moving_average_is_the_exact_mean_of_the_extremes_rounded_once(batches):
    found = observe("moving_average", batches).range()
    for number, extreme in zip(found, (np.min, np.max), strict=True):
        mean = sum(Fraction(float(extreme(batch))) for batch in batches) / len(batches)
        assert number == float(np.float32(float(mean)))


def test_a_moving_average_ignores_samples_without_a_finite_value():
    observer = observe("moving_average", [np.float32([-1, 3]), np.float32([np.nan]), np.float32([-3, 1])])
    assert observer.range() == (-2.0, 2.0)
    assert observer.nan_count == 1


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "moving_average"])
@some(50)
@given(data=st.data())
def test_order_and_batches_change_no_bit(spec, data):
    values = data.draw(arrays(FLOATS))
    order = data.draw(st.permutations(range(len(values))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    expected = observe(spec, [values])
    assert state(observe(spec, np.split(values[list(order)], cuts))) == state(expected)


@pytest.mark.parametrize("spec", SPECS)
@some(50)
@given(data=st.data())
def test_merge_is_one_pass_over_both(spec, data):
    left, right = data.draw(arrays(FLOATS)), data.draw(arrays(FLOATS))
    first, second = observe(spec, [left]), observe(spec, [right])
    before = state(first), state(second)
    both = state(observe(spec, [left, right]))
    assert state(first.merge(second)) == both
    assert state(second.merge(first)) == both
    assert (state(first), state(second)) == before


@pytest.mark.parametrize("spec", SPECS)
def test_negative_zero_does_not_depend_on_the_order(spec):
    for values in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        low, high = observe(spec, [np.float32(values)]).range()
        assert not np.signbit([low, high]).any()


@pytest.mark.parametrize("spec", SPECS)
def test_the_state_does_not_grow_with_the_data(spec):
    every_bin = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    observer = observe(spec, [every_bin[:10]])
    observer.update(every_bin)
    size = len(pickle.dumps(observer))
    assert size <= (1 << 16) * 10 + 2000  # a bin's index and its count
    for repeats in (1, 9):
        observer.update(np.tile(every_bin, repeats))
    assert len(pickle.dumps(observer)) <= size + 64  # integers grow by a few digits


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_floats_are_observed_in_f32(spec, dtype):
    values = np.random.default_rng(1).standard_normal(1000).astype(dtype)
    assert state(observe(spec, [values])) == state(observe(spec, [values.astype(np.float32)]))


def test_finite_f64_past_f32_saturates_and_is_not_infinite():
    observer = observe("minmax", [np.array([1e300, -1e300, np.inf, np.nan])])
    limit = float(np.finfo(np.float32).max)
    assert observer.range() == (-limit, limit)
    assert (observer.count, observer.nan_count, observer.infinite_count) == (2, 1, 1)


@pytest.mark.parametrize("spec", SPECS)
def test_integers_are_refused(spec):
    with pytest.raises(TypeError, match="found values of dtype int8; expected floats"):
        observe(spec, [np.int8([1, 2])])


@given(arrays(FINITE), st.sampled_from([50.5, 75.0, 90.0, 99.0, 99.99, 100.0]))
def test_a_percentile_is_within_the_stated_bound_of_numpys(values, percentile):
    low, high = observe(f"percentile:{percentile}", [values]).range()
    ordered = np.sort(values.astype(np.float64))
    for found, percent in ((low, 100 - percentile), (high, percentile)):
        rank = percent / 100 * (len(values) - 1)
        around = ordered[[int(np.floor(rank)), min(int(np.floor(rank)) + 1, len(values) - 1)]]
        bound = RELATIVE_ERROR * np.abs(around).max() + ABSOLUTE_ERROR
        slack = 1e-6 * np.abs(around).max() + 2.0**-149  # the result is rounded to f32
        assert abs(found - np.percentile(ordered, percent)) <= bound + slack


@pytest.mark.parametrize("scale", [1e-42, 1e-38, 1e-3, 1.0, 1e3, 1e37])
@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_percentiles_of_many_values_follow_numpys_on_every_scale(scale, percentile):
    values = (np.random.default_rng(2).standard_normal(100_000) * scale).astype(np.float32)
    low, high = observe(f"percentile:{percentile}", np.array_split(values, 7)).range()
    exact = np.percentile(values.astype(np.float64), [100 - percentile, percentile])
    assert np.all(np.abs([low, high] - exact) <= 1.01 * RELATIVE_ERROR * np.abs(exact) + ABSOLUTE_ERROR)


@given(arrays(FINITE))
def test_percentile_100_is_the_exact_range(values):
    assert observe("percentile:100", [values]).range() == observe("minmax", [values]).range()


def test_percentiles_stay_inside_the_extremes_and_zeros_stay_zero():
    values = np.float32([0.0] * 900 + [6.0] * 100)  # a relu6
    assert observe("percentile:99", [values]).range() == (0.0, 6.0)


def test_an_outlier_moves_the_range_of_minmax_only():
    values = np.append(np.linspace(-1, 1, 100_001, dtype=np.float32), np.float32(1000))
    assert observe("minmax", [values]).range() == (-1.0, 1000.0)
    assert observe("percentile:99.9", [values]).range() == pytest.approx((-0.998, 0.998), rel=RELATIVE_ERROR)


def test_nan_with_a_payload_in_its_low_bits_is_not_an_infinity():
    values = np.array([0x7F800001, 0xFF800001, 0x7F800000, 0x3F800000], np.uint32).view(np.float32)
    observer = observe("percentile", [values])
    assert (observer.count, observer.nan_count, observer.infinite_count) == (1, 2, 1)
    assert observer.range() == (1.0, 1.0)


def test_strided_views_are_observed():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)[1:3]
    assert observe("minmax", [values]).range() == (1.0, 22.0)
    assert observe("percentile:100", [values]).range() == (1.0, 22.0)


def test_observers_of_different_percentiles_do_not_merge():
    with pytest.raises(ValueError, match=r"found percentiles 99 and 99\.9; expected equal ones"):
        PercentileObserver(99.0).merge(PercentileObserver(99.9))


def test_observers_are_named_in_one_table():
    assert list(OBSERVERS) == ["entropy", "minmax", "moving_average", "mse", "output", "percentile"]
    assert isinstance(minmax := observer_factory("minmax")(), PercentileObserver)
    assert minmax.percentile == 100
    assert isinstance(observer_factory("mse")(), MeanSquareObserver)
    assert observer_factory("percentile")().percentile == 99.99
    assert observer_factory("percentile:99.9")().percentile == 99.9


def test_everything_that_quantizes_has_the_same_default():
    assert inspect.signature(zp.quantize).parameters["observer"].default == DEFAULT_OBSERVER
    for name in ("quantize", "sensitivity"):
        (option,) = [option for option in main.commands[name].params if option.name == "observer"]
        assert option.default == DEFAULT_OBSERVER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median", f"found observer 'median'; expected one of: {NAMES}"),
        ("", f"found observer ''; expected one of: {NAMES}"),
        ("entropy:3", "found observer 'entropy:3'; expected 'entropy', which takes no argument"),
        (
            "moving_average:0.1",
            "found observer 'moving_average:0.1'; expected 'moving_average', which takes no argument",
        ),
        ("minmax:3", "found observer 'minmax:3'; expected 'minmax', which takes no argument"),
        ("output:3", "found observer 'output:3'; expected 'output', which takes no argument"),
        ("mse:3", "found observer 'mse:3'; expected 'mse', which takes no argument"),
        ("percentile:high", "found observer 'percentile:high'; expected a number: 'percentile:99.9'"),
        ("percentile:50", "found percentile 50; expected more than 50 and at most 100"),
        ("percentile:101", "found percentile 101; expected more than 50 and at most 100"),
        ("percentile:nan", "found percentile nan; expected more than 50 and at most 100"),
    ],
)
def test_an_unknown_observer_is_an_error_that_names_the_choices(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        observer_factory(text)


@pytest.mark.parametrize(("observer", "runs"), [("minmax", 32), ("mse", 32), ("output", 32 + 3 * 8)])
def test_ranges_that_readers_judge_take_more_runs(observer: str, runs: int) -> None:
    """A quarter of the samples run once more, and the readers of a value once for each of two ranges."""
    assert expected_runs(observer, 32) == runs
    assert expected_runs(observer, 0) == 1
