"""Integer layer normalization against exact arithmetic, at extremes; and no overflow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.layer_norm import MOST_TERMS, ChannelMaps, LayerNorm, reciprocal_root


def rows(n: int, seed: int) -> IntArray:
    """Random rows of every deviation, and extreme ones."""
    random = np.random.default_rng(seed)
    wide = [random.normal(random.uniform(-20000, 20000), 2.0**k, n) for k in range(-2, 15, 2)]
    one = np.where(np.arange(n) == n // 2, 1, 0)
    ends = [one, -one, one * 65535 - 32768, 32767 - one * 65535, np.where(np.arange(n) % 2, -32768, 32767)]
    ends += [np.full(n, v) for v in (-32768, 0, 5, 32767)] + [np.arange(n) % 2, random.integers(-32768, 32768, n)]
    return np.clip(np.rint(np.array([*wide, *ends])), -32768, 32767).astype(np.int64)


def exact(q: IntArray, norm: LayerNorm) -> np.ndarray:
    """n (q - mean) / sqrt(V), with the V of the definition."""
    n = norm.terms
    v = [max(n * sum(x * x for x in row) - sum(row) ** 2 + norm.epsilon, n) for row in q.tolist()]
    return (n * q - q.sum(-1, keepdims=True)) / np.sqrt(np.array(v, np.float64))[:, None]


def test_the_reciprocal_root_is_as_close_as_stated() -> None:
    m = np.unique(np.concatenate([np.linspace(1 << 30, (1 << 32) - 1, 200001).astype(np.int64), [(1 << 32) - 1]]))
    y = reciprocal_root(m)
    assert np.abs(y / (2.0**45 / np.sqrt(m)) - 1).max() < 2.0**-23
    assert y.max() <= 1 << 30
    assert y.min() >= (1 << 29) - 64


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 64, 384, 1000, MOST_TERMS])
@pytest.mark.parametrize("steps", [0.0, 0.02, 1e4, 4e9])
def test_normalized_values_have_the_stated_error(n: int, steps: float) -> None:
    found, q = LayerNorm.of(1.0, n, steps), rows(n, n)
    t = found.normalized(q)
    assert np.abs(t - exact(q, found) * 2.0**found.fraction).max() <= 0.52
    assert np.abs(t).max() <= (1 << 17) + 1


@pytest.mark.parametrize("n", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("steps", [0.0, 0.02, 0.06, 0.72, 3.3])
def test_rounding_epsilon_has_the_stated_error(n: int, steps: float) -> None:
    """It shows in rows whose elements differ by a step or two."""
    norm, random = LayerNorm.of(1.0, n, steps), np.random.default_rng(n)
    q = np.concatenate([rows(n, n), random.integers(0, 2, (40, n)), random.integers(0, 3, (40, n))])
    q = q[q.max(-1) > q.min(-1)]
    v = [n * sum(x * x for x in row) - sum(row) ** 2 + steps * n * n for row in q.tolist()]
    root = np.sqrt(np.array(v))[:, None]
    real = (n * q - q.sum(-1, keepdims=True)) / root
    found = norm.normalized(q) / 2.0**norm.fraction
    assert (np.abs(found - real) <= 0.52 / 2.0**norm.fraction + np.abs(real) / (2 * root**2)).all()


@settings(max_examples=80, deadline=None)
@given(st.integers(1, MOST_TERMS), st.lists(st.integers(-32768, 32767), min_size=1), st.floats(0, 4e9))
def test_no_step_overflows(n: int, numbers: list[int], steps: float) -> None:
    """The bounds of the docstring, in Python's integers."""
    found, row = LayerNorm.of(1.0, n, steps), np.resize(np.array(numbers, np.int64), n).tolist()
    total, squares = sum(row), sum(q * q for q in row)
    v = max(n * squares - total * total + found.epsilon, n)
    assert n * squares < 1 << 59
    assert v < 1 << 61
    z = (64 - v.bit_length()) & ~1
    m = (v << (z - 2)) >> 30
    assert 1 << 30 <= m < 1 << 32
    assert z >= 2
    y = int(reciprocal_root(np.array(m)))
    assert m * (y * y >> 30) < 1 << 63
    factor, left = (n * y) >> (found.log + 1), z // 2 + found.log - found.reach - 2
    assert 1 << 27 < factor <= 1 << 30
    assert 0 <= left <= 29
    mean = (total + n * 32768 + n // 2) // n - 32768
    rest = total - n * mean
    rho = (abs(rest) << left) // n * (1 if rest >= 0 else -1)
    for q in (max(row), min(row)):
        assert abs((q - mean) << left) < 1 << 31
        assert abs(((q - mean) << left) - rho) <= (1 << 30) + 2


@pytest.mark.parametrize("bits", [8, 16])
def test_results_have_the_stated_error(bits: int) -> None:
    n, random, high = 384, np.random.default_rng(3), (1 << (bits - 1)) - 1
    gamma, beta = random.normal(1, 0.4, n) * 10.0 ** random.uniform(-3, 0, n), random.normal(0, 1, n)
    scale, zero_point = 12 / 2**bits, high // 5
    norm, q = LayerNorm.of(0.01, n, 1e-5), rows(n, 5)
    affine = ChannelMaps.of(gamma, beta, norm.fraction, scale, zero_point, -high - 1, high)
    assert np.abs(affine.factor).max() < 1 << 13
    assert affine.shift.min() >= 1
    assert np.abs(affine.bias).max() + ((1 << 17) + 1) * np.abs(affine.factor).max() < 1 << 31
    real = exact(q, norm) * gamma / scale
    wanted = np.clip(real + beta / scale + zero_point, -high - 1, high)
    found = affine.apply(norm.normalized(q))
    gain = np.abs(exact(q, norm)) * affine.factor_error(norm.fraction)
    assert (np.abs(found - wanted) <= 0.501 + affine.error + gain).all()


@pytest.mark.parametrize(("n", "offset"), [(2, 0.0), (4, 0.2), (48, 3.0), (768, 100.0)])
def test_short_rows_and_large_biases_have_the_stated_error_too(n: int, offset: float) -> None:
    random = np.random.default_rng(n)
    gamma, beta, scale = random.uniform(0.2, 2, n), random.uniform(-1, 1, n) + offset, (4 + offset) / 2**15
    norm, q = LayerNorm.of(3e-4, n, 1e-5), rows(n, n)
    affine = ChannelMaps.of(gamma, beta, norm.fraction, scale, 0, -(1 << 15), (1 << 15) - 1)
    normalized = exact(q, norm)
    wanted = np.clip(normalized * gamma / scale + beta / scale, -(1 << 15), (1 << 15) - 1)
    bound = 0.501 + affine.error + np.abs(normalized) * affine.factor_error(norm.fraction)
    assert (np.abs(affine.apply(norm.normalized(q)) - wanted) <= bound).all()


def test_rows_without_an_integer_form_are_refused() -> None:
    for terms, epsilon in ((MOST_TERMS + 1, 0.0), (0, 0.0), (8, 1e10)):
        with pytest.raises(ValueError, match="expected"):
            LayerNorm.of(1.0, terms, epsilon)
    with pytest.raises(ValueError, match="gamma"):
        ChannelMaps.of(np.array([1e9]), np.zeros(1), 12, 1e-3, 0, -128, 127)
