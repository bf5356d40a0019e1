"""Large blocks of weights are in large pages, where the system has them, and are the same weights."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from zeropoint.codegen import parameters
from zeropoint.codegen.parameters import ALIGNMENT, LARGE, ParameterBlock


def block(size: int) -> tuple[ParameterBlock, np.ndarray]:
    data = np.random.default_rng(3).integers(0, 256, size, np.uint8)
    made = ParameterBlock()
    made.append(b"others before")
    made.append(data.tobytes())
    return made, data


@pytest.mark.parametrize("size", [1, LARGE - 200, LARGE, LARGE + 4097, 3 * LARGE + 5])
def test_the_weights_stay_where_they_are(size: int) -> None:
    made, data = block(size)
    address = made.array.ctypes.data
    made.in_large_pages()
    assert made.array.ctypes.data == address
    assert address % ALIGNMENT == 0
    np.testing.assert_array_equal(made.array[ALIGNMENT:], data)


@pytest.mark.parametrize(
    ("size", "platform", "asked"), [(LARGE, "linux", True), (LARGE, "darwin", False), (9, "linux", False)]
)
def test_small_blocks_and_other_systems_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, size: int, platform: str, asked: bool
) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def madvise(self, begin: ctypes.c_void_p, count: ctypes.c_size_t, advice: int) -> int:
            assert begin.value is not None
            calls.append((begin.value % 4096, count.value % 4096))
            return -1  # a system without large pages

    monkeypatch.setattr(parameters.ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(parameters.sys, "platform", platform)
    made, data = block(size)
    made.in_large_pages()
    assert calls == ([(0, 0)] * 2 if asked else [])
    np.testing.assert_array_equal(made.array[ALIGNMENT:], data)
