"""Integer softmax against exact exponentials: the cubic at every f, rows of every kind, and no overflow of 32 bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.softmax import COEFFICIENTS, CUBIC_ERROR, FRACTION, GREATEST_SCORE, MOST_TERMS, Softmax

I32 = 1 << 31


def _exact(scores: IntArray, scale: float) -> np.ndarray:
    e = np.exp((scores - scores.max(-1, keepdims=True)).astype(np.float64) * scale)
    return e / e.sum(-1, keepdims=True)


def _errors(softmax: Softmax, scores: IntArray) -> float:
    exact = np.minimum(_exact(scores, softmax.scale) * 2.0**softmax.bits, 2**softmax.bits - 1)
    return float(np.abs(softmax.apply(scores) - exact).max())


def test_the_cubic_is_as_close_as_stated_at_every_fraction() -> None:
    f = np.arange(1 << FRACTION, dtype=np.int64)
    c1, c2, c3 = COEFFICIENTS
    for bits in (21, 30):
        inner = (((c3 * f) >> 15) + c2) * f
        assert np.abs(inner).max() < I32
        y = (((inner >> 15) + c1) * f >> (30 - bits)) + (1 << bits)
        assert np.abs((inner >> 15) + c1).max() * f.max() < I32
        assert np.abs(y / 2.0**bits * 2.0 ** (f / 2.0**FRACTION) - 1).max() < CUBIC_ERROR
        assert y[0] == y.max() == 1 << bits
        assert y.min() > 0


@pytest.mark.parametrize("bits", [8, 11, 15])
@pytest.mark.parametrize("terms", [1, 2, 5, 512, 1000, 40000])
@pytest.mark.parametrize("scale", [1e-6, 7e-4, 0.1, 3.0, 1e4])
def test_probabilities_have_the_stated_error(bits: int, terms: int, scale: float) -> None:
    softmax, random = Softmax.of(scale, terms, bits), np.random.default_rng(terms)
    spread = min(12 / scale, 32767)
    rows = [random.normal(0, spread / 3, (4, terms)), random.integers(-32768, 32768, (4, terms))]
    rows += [np.zeros((1, terms)), np.where(np.arange(terms) == 0, 0, -min(13 / scale, 65535))[None]]
    scores = np.clip(np.rint(np.concatenate(rows)), -32768, 32767).astype(np.int64)
    assert _errors(softmax, scores) <= 0.5 + softmax.error


@pytest.mark.parametrize("bits", [8, 11, 15])
@pytest.mark.parametrize("terms", [2, 100, 3000])
@pytest.mark.parametrize("scale", [3e-9, 2.572e-7, 9.1e-7, 4e-6])
def test_scores_of_30_bits_have_the_stated_error(bits: int, terms: int, scale: float) -> None:
    softmax, random = Softmax.of(scale, terms, bits), np.random.default_rng(terms)
    for reach in (2.0, 5.0, math.log(terms), 20.0):
        distances = np.minimum(np.rint(random.uniform(0, reach / scale, (20, terms))), 2 * GREATEST_SCORE)
        distances[:10, 1:] = distances[:10, 1:2]  # the others alike: half of the sum each
        distances[:, 0] = 0
        assert _errors(softmax, GREATEST_SCORE - distances.astype(np.int64)) <= 0.5 + softmax.error


def test_every_pair_of_8_bit_scores_has_the_stated_error() -> None:
    softmax = Softmax.of(0.08, 2, 8)
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    assert _errors(softmax, np.stack([a.ravel(), b.ravel()], 1)) <= 0.5 + softmax.error
    assert softmax.error < 0.15


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([8, 11]),
    st.floats(1e-9, 1e6),
    st.integers(1, 3000),
    st.lists(st.integers(-GREATEST_SCORE, GREATEST_SCORE), min_size=1),
)
def test_no_step_overflows_32_bits(bits: int, scale: float, terms: int, numbers: list[int]) -> None:
    softmax = Softmax.of(scale, terms, bits)
    word = 1 << 63 if softmax.wide_sums else I32
    scores = np.resize(np.array(numbers, np.int64), (1, terms))
    distance = np.minimum(scores.max() - scores, softmax.reach)
    assert (scores.max() - scores).max() < I32
    assert 0 <= softmax.shift < 32
    assert 0 <= distance.max() * softmax.multiplier <= softmax.reach * softmax.multiplier < I32
    e = softmax.exponentials(scores)
    assert e.min() >= 0
    assert e.max() == 1 << softmax.exponent_bits < I32
    total = (int(e.sum()) + (1 << softmax.dropped >> 1)) >> softmax.dropped
    numerator = (1 << 30) + total // 2
    assert e.sum() + (1 << softmax.dropped >> 1) < word
    assert numerator < word
    assert int((e >> softmax.dropped).max()) * (numerator // total) + (1 << softmax.result_shift >> 1) < I32


def test_rows_and_widths_without_an_integer_form_are_refused() -> None:
    for arguments in ((0.1, MOST_TERMS + 1, 8), (0.1, 0, 8), (0.1, 8, 32), (0.0, 8, 8), (math.inf, 8, 8)):
        with pytest.raises(ValueError, match="expected"):
            Softmax.of(*arguments)
