"""The native counter of the bins of histograms counts as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.bins import NativeBins
from zeropoint.ir.tensors import Array

COUNT = NativeBins()
MANY = 1 << 15


@pytest.mark.parametrize("number", [0, 1, 7, MANY, MANY + 3, 3 * MANY + 2])
@pytest.mark.parametrize("kind", ["relu6", "normal", "not finite"])
def test_counts_are_those_of_numpy(number: int, kind: str) -> None:
    values = np.random.default_rng(number).normal(0, 4, number).astype(np.float32)
    if kind == "relu6":
        values = np.clip(values, 0, 6)
    if kind == "not finite":
        values[::7], values[::5], values[::11] = np.nan, -np.inf, -0.0
    assert_counted(values)


def test_one_array_leaves_nothing_for_the_next_one() -> None:
    assert_counted(np.full(MANY, -3.0, np.float32))
    assert_counted(np.full(MANY, 0.5, np.float32))


def assert_counted(values: Array) -> None:
    words = values.view(np.uint32)
    expected, found = np.bincount(words >> 16), COUNT(words)
    assert len(found) == len(expected)
    np.testing.assert_array_equal(found, expected)
