"""Rows rounded to 8 bits: every step fits its width, and the sums are near the exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from row_scaled import HOSTILE, RowProduct
from zeropoint.numerics.row_scales import FACTOR, LEVELS, RowScales


@pytest.mark.parametrize("case", HOSTILE, ids=str)
def test_sums_are_those_of_the_definition(case: RowProduct) -> None:
    form, x = RowScales.of(case.low, case.high, case.zero_point, case.weights.T), case.inputs()
    rows, middle, greatest = form.rounded(x, (x.ndim - 1,))
    found = form.sums(rows @ case.weights, middle, greatest, case.weights.sum(axis=0))
    np.testing.assert_array_equal(found + case.bias, case.sums(x))


@pytest.mark.parametrize("case", HOSTILE, ids=str)
def test_sums_are_off_by_the_rounding_of_each_activation(case: RowProduct) -> None:
    """An activation is off by at most one step of its row, A / L, and less than that by the rounded reciprocal."""
    x = case.inputs()
    form = RowScales.of(case.low, case.high, case.zero_point, case.weights.T)
    _, _, greatest = form.rounded(x, (x.ndim - 1,))
    step = greatest / 2**LEVELS
    bound = 1.05 * step * np.abs(case.weights).sum(axis=0) + (greatest << form.dropped) / 2**LEVELS + 1
    assert (np.abs(case.sums(x) - case.exact(x)) <= bound).all()


def test_every_row_keeps_products_in_32_bits_and_results_in_8() -> None:
    """All A of rows of 16 bits, with the elements at which a product or a rounded result is greatest."""
    form = RowScales.of(-32768, 32767, 0, np.ones((1, 1)))
    half = np.arange(0, 1 << 15, dtype=np.int64)
    for low, high in ((-half, half), (-half - 1, half), (-half, half - 1)):
        x = np.stack([low, high, (low + high) // 2], axis=1)
        rounded, middle, greatest = form.rounded(x, (1,))
        assert greatest.max() <= form.reach
        assert (np.abs(x - middle) * (FACTOR // greatest)).max() <= FACTOR < 2**31 - 2**21
        assert -128 <= rounded.min() <= rounded.max() <= 127


def test_sums_beyond_32_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="found sums of up to"):
        RowScales.of(-32768, 32767, 0, np.full((1, 1 << 10), 127))
