"""Runs of a contraction that are adjacent in memory are merged into longer ones."""

from __future__ import annotations

import pytest

from zeropoint.codegen.kernels.contraction_shape import ContractionShape
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.numerics import RequantizeBehaviour

GROUPS = 2
STEP = 4 * GROUPS
"""The number of bytes of a run."""


def shape(runs: tuple[int, ...]) -> ContractionShape:
    """A contraction of three pixels in two rows with gaps."""
    arithmetic = Integers(1, Epilogue(RequantizeBehaviour.FIXED16))
    return ContractionShape(2, 3, 1000, 4, 100, 4, runs, GROUPS, 1, arithmetic)


def most_merged(runs: tuple[int, ...]) -> int:
    """The greatest divisor of the number of runs with which each part of so many runs has no gap."""
    count = len(runs)
    return max(
        each
        for each in range(1, count + 1)
        if count % each == 0 and all(runs[n] == runs[n - n % each] + STEP * (n % each) for n in range(count))
    )


@pytest.mark.parametrize("parts", [[1], [2], [6], [3, 3], [2, 4], [4, 2, 6], [1, 5], [1, 1, 1, 1], [6, 6, 3], [5, 7]])
def test_as_many_runs_are_merged_as_have_no_gap(parts: list[int]):
    runs: list[int] = []
    for number, count in enumerate(parts):
        runs += [1000 * number + STEP * n for n in range(count)]
    merged = shape(tuple(runs)).flat()
    each = most_merged(tuple(runs))
    assert merged.runs == tuple(runs[::each])
    assert merged.groups == GROUPS * each


def test_runs_at_one_place_are_not_merged():
    assert shape((0, 0, 0, 0)).flat().runs == (0, 0, 0, 0)
