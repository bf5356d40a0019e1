"""Weights that hold no numbers are measured without a warning; the NaN itself is reported elsewhere."""

from __future__ import annotations

import warnings

import numpy as np

from zeropoint.solve.widths.rounding_noise import _widened  # pyright: ignore[reportPrivateUsage] (a warning has no other place)


def test_a_signalling_nan_among_weights_prints_no_warning() -> None:
    weights = np.array([[0x7F800001, 0x3F800000]], np.uint32).view(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(_widened(weights), [[np.nan, 1.0]])
