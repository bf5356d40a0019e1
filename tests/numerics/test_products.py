"""Sums of products of floats against exact rational arithmetic, rounded once a step."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeropoint.numerics import products
from zeropoint.numerics.products import sums_of_products

INFINITY = np.float32(np.inf)


def rounded(exact: Fraction) -> np.float32:
    """The f32 nearest to a number, ties to even; infinity from halfway beyond the greatest one."""
    if exact == 0:
        return np.float32(0)
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 23)
    units = round(magnitude / step)  # Python rounds ties to even
    found = INFINITY if units * step >= Fraction(2) ** 128 else np.float32(units * float(step))
    return -found if exact < 0 else found


def chain(a: np.ndarray, b: np.ndarray) -> np.float32:
    """The sum of finite f32, by definition; its zero is +0."""
    total = np.float32(0)
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if not np.isfinite(total):
            return total
        total = rounded(Fraction(x) * Fraction(y) + Fraction(float(total)))
    return total + np.float32(0)


def f32(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


ANY = st.integers(0, 2**32 - 1).map(f32).filter(np.isfinite)
NEAR = st.builds(
    lambda digits, exponent: float(np.float32(digits) * np.float32(2.0) ** exponent),
    st.integers(-(2**24), 2**24) | st.sampled_from([1, 3, -1, 2**23 + 1, 2**24 - 1, 2**12 + 1]),
    st.integers(-30, 4) | st.integers(-120, -60),
)
"""Numbers whose products and sums meet in the middle between two f32."""


@settings(max_examples=400)
@given(st.lists(st.tuples(ANY | NEAR, ANY | NEAR), min_size=1, max_size=6))
def test_every_step_is_rounded_once(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs, np.float32).T
    found = sums_of_products(a[None, :], b[:, None])
    assert found.dtype == np.float32
    assert found[0, 0].tobytes() == chain(a, b).tobytes()


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # 1 + 2^-24 is in the middle of 1 and the next f32; a product of 2^-24 (1 +- 2^-23) 1 is above or below it.
        ([(1.0, 1.0), (2.0**-24, 1.0)], 0x3F800000),
        ([(1.0, 1.0), (2.0**-12 * (1 + 2.0**-23), 2.0**-12 * (1 + 2.0**-23))], 0x3F800001),
        ([(1.0, 1.0), (2.0**-24, 1 - 2.0**-24)], 0x3F800000),
        ([(1 + 2.0**-23, 1.0), (2.0**-24 * (1 - 2.0**-24), 1 - 2.0**-24)], 0x3F800001),
        ([(-1.0, 1.0), (-(2.0**-12) * (1 + 2.0**-23), 2.0**-12 * (1 + 2.0**-23))], 0xBF800001),
        # The same in f64's own rounding: 2^-24 (1 + 2^-23)^2 needs 47 bits, beside 1 + 2^-23 more than f64 has.
        ([(1 + 2.0**-23, 1.0), (2.0**-12 * (1 - 2.0**-23), 2.0**-12 * (1 + 2.0**-23))], 0x3F800001),
        # Subnormal: 2^-150 and a bit more is rounded up to 2^-149, 2^-150 to 0.
        ([(2.0**-75, 2.0**-75)], 0),
        ([(2.0**-75, 2.0**-75 * (1 + 2.0**-23))], 1),
        ([(2.0**-127, 1.0), (2.0**-75 * (1 + 2.0**-23), 2.0**-75 * (1 + 2.0**-23))], 0x00400001),
        ([(2.0**-127, 1.0), (2.0**-75 * (1 - 2.0**-23), 2.0**-75 * (1 + 2.0**-23))], 0x00400000),
        ([(3e38, 1.0), (3e38, 1.0), (-3e38, 1.0)], 0x7F800000),
        ([(-1e-30, 1e-30)], 0),
        ([(-0.0, 1.0), (-0.0, 1.0)], 0),
    ],
)
def test_numbers_in_the_middle(pairs: list[tuple[float, float]], expected: int) -> None:
    a, b = np.array(pairs, np.float32).T
    assert hex(sums_of_products(a[None, :], b[:, None]).view(np.uint32).item()) == hex(expected)
    assert chain(a, b).view(np.uint32) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 7, 1), (3, 2, 5, 70), (2, 70, 9, 3), (1, 1, 3, 9000), (40, 30, 4, 40)])
def test_blocks_are_parts_of_one_result(dtype: type[np.floating], shape: tuple[int, ...], monkeypatch) -> None:
    batch, rows, terms, columns = shape
    random = np.random.default_rng(0)
    a = random.normal(size=(batch, rows, terms)).astype(dtype)
    b = random.normal(size=(1, terms, columns)).astype(dtype)
    expected = np.zeros((batch, rows, columns), dtype)
    for k in range(terms):
        if dtype is np.float64:
            expected = expected + a[:, :, k, None] * b[:, k, None, :]
        else:  # of few terms the sum in f64 is in no middle
            expected = (expected + a[:, :, k, None].astype(np.float64) * b[:, k, None, :]).astype(dtype)
    np.testing.assert_array_equal(sums_of_products(a, b), expected)
    monkeypatch.setattr(products, "BLOCK", 64)
    monkeypatch.setattr(products, "LONGEST", 32)
    np.testing.assert_array_equal(sums_of_products(a, b), expected)


def test_infinities_and_nan() -> None:
    a = np.array([[np.inf, 1.0], [np.inf, 0.0], [1.0, np.nan], [-np.inf, 1.0]], np.float32)
    b = np.array([[1.0, -2.0], [0.0, np.inf]], np.float32)
    found = sums_of_products(a, b)
    np.testing.assert_array_equal(found, [[np.inf, np.nan], [np.inf, np.nan], [np.nan, np.nan], [-np.inf, np.inf]])


def test_no_terms_and_no_sums() -> None:
    assert sums_of_products(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)).tolist() == [[0] * 3] * 2
    assert sums_of_products(np.ones((2, 4), np.float32), np.ones((4, 0), np.float32)).shape == (2, 0)
