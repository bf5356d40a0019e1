"""Parameters of weights and biases: the accumulator is proved to fit, from the actual weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.ir.quant import Storage, UniformQuantizedType, stored_array
from zeropoint.numerics.accumulator import accumulator_bound
from zeropoint.solve.weights import bias_type, weight_type

I8, NARROW, I32 = Storage.of("i8"), Storage.of("i8", -127), Storage.of("i32")
LIMIT = 2**30 - 1


def activation(scale: float, zero_point: int) -> UniformQuantizedType:
    return UniformQuantizedType.per_layer(I8, scale, zero_point)


def greatest(weight: np.ndarray, bias: np.ndarray | None, given: UniformQuantizedType, axis: int = 0) -> np.ndarray:
    """The greatest |accumulator| of each channel for the integers that the types make of weight and bias."""
    chosen = weight_type(weight, axis, NARROW, given, bias, LIMIT)
    stored = np.moveaxis(stored_array(weight, chosen), axis, 0).reshape(weight.shape[axis], -1)
    offset = 0 if bias is None else stored_array(bias, bias_type(I32, given, chosen))
    return accumulator_bound(stored, I8.minimum, I8.maximum, given.zero_point, offset)


@given(
    seed=st.integers(0, 2**32),
    channels=st.integers(1, 4),
    terms=st.sampled_from([1, 9, 100, 40_000, 200_000]),
    magnitude=st.floats(-9, 6),
    bias=st.none() | st.floats(-3, 12),
    scale=st.floats(-8, 4),
    zero_point=st.sampled_from([-128, -5, 0, 127]),
)
def test_no_accumulator_of_any_input_passes_the_limit(
    seed, channels, terms, magnitude, bias, scale, zero_point
) -> None:
    random = np.random.default_rng(seed)
    weight = (random.uniform(-1, 1, (channels, terms)) * 10**magnitude).astype(np.float32)
    offset = None if bias is None else (random.normal(0, 1, channels) * 10**bias).astype(np.float32)
    assert greatest(weight, offset, activation(10**scale, zero_point)).max() <= LIMIT


def test_a_scale_is_the_weights_own_where_everything_fits() -> None:
    weight = np.array([[1.0, -127.0], [0.5, 0.25]], np.float32)
    chosen = weight_type(weight, 0, NARROW, activation(0.5, -128), np.array([3.0, 4.0], np.float32), LIMIT)
    assert chosen.scales.tolist() == [1.0, 0.5 / 127]
    assert weight_type(weight.T, 1, NARROW, activation(0.5, -128), None, LIMIT).scales.tolist() == [1.0, 0.5 / 127]


def test_a_large_bias_grows_the_scale_of_its_channel_just_enough() -> None:
    weight = np.full((2, 4), 1e-6, np.float32)
    bias = np.array([100.0, 1e-3], np.float32)
    own = 1e-6 / 127
    grown, kept = weight_type(weight, 0, NARROW, activation(0.01, 0), bias, LIMIT).scales
    assert kept == pytest.approx(own)
    assert grown > own
    bound = greatest(weight, bias, activation(0.01, 0))[0]
    assert LIMIT * (1 - 1e-5) < bound <= LIMIT


def test_a_dead_channel_keeps_its_bias() -> None:
    """A channel of zeros has the least scale there is, at which a bias would not fit."""
    given = activation(0.02, -128)
    weight, bias = np.zeros((2, 9), np.float32), np.array([2.5, 0.0], np.float32)
    chosen = weight_type(weight, 0, NARROW, given, bias, LIMIT)
    kind = bias_type(I32, given, chosen)
    assert stored_array(bias, kind)[0] * kind.scales[0] == pytest.approx(2.5, rel=1e-8)
    assert stored_array(bias, kind)[1] == 0


def test_a_long_sum_of_large_weights_grows_the_scale_instead_of_failing() -> None:
    """200,000 products of up to 255 * 127 pass 2^32: the weights get fewer steps."""
    given = activation(1.0, -128)
    bound = greatest(np.ones((1, 200_000), np.float32), np.array([1.0], np.float32), given)
    assert LIMIT * 0.9 < bound[0] <= LIMIT
    assert greatest(np.ones((1, 200_000), np.float32), None, given)[0] <= LIMIT


@given(
    seed=st.integers(0, 2**32),
    terms=st.sampled_from([1, 100, 5_000, 100_000]),
    bias=st.none() | st.floats(-3, 9),
    scale=st.floats(-6, 2),
    output=st.floats(-6, 6),
)
def test_sums_of_16_bit_activations_fit_32_bits_or_are_past_the_output_when_they_do_not(
    seed, terms, bias, scale, output
) -> None:
    random = np.random.default_rng(seed)
    given = UniformQuantizedType.per_layer(Storage.of("i16"), 10**scale)
    weight = random.uniform(-1, 1, (3, terms)).astype(np.float32)
    offset = None if bias is None else (random.normal(0, 1, 3) * 10**bias).astype(np.float32)
    reach = 10**output * 10**scale
    chosen = weight_type(weight, 0, NARROW, given, offset, LIMIT, greatest_output=reach)
    stored = stored_array(weight, chosen)
    added = np.zeros(3, np.int64)
    if offset is not None:
        added = np.abs(stored_array(offset, bias_type(Storage.of("i64"), given, chosen)).astype(np.int64))
    fits = accumulator_bound(stored, -(2**15), 2**15 - 1, 0, added) <= 2**31 - 1
    past = (2**31 - 1 - added) * given.scale * chosen.scales >= 1.5 * reach
    assert (fits | past).all()
    own = np.abs(weight).max(axis=1) / 127
    assert (chosen.scales >= own * (1 - 1e-6)).all()


def test_long_sums_of_16_bit_activations_keep_the_scales_of_their_weights() -> None:
    """5,000 products may pass 2^34; the output holds a thousandth of that, so that all clamps before 32 bits do."""
    given = UniformQuantizedType.per_layer(Storage.of("i16"), 2.0**-12)
    weight = np.ones((1, 5_000), np.float32)
    assert weight_type(weight, 0, NARROW, given, None, LIMIT, greatest_output=1000.0).scales[0] == 1 / 127
    assert weight_type(weight, 0, NARROW, given, None, LIMIT).scales[0] > 1 / 127 * 15
