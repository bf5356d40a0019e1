"""Scales and zero points with the least squared error, for weights stored in few bits and dequantized at run time.

The range of a block, widened to include 0, is shrunk by each factor of `FACTORS`. The factor with the smallest sum of
squared errors is used. 8-bit weights keep the whole range. Scales are f32, like the runtime's.

Source: the search for clipped ranges of "AWQ" (Lin et al., 2023). Here it minimizes the error of the weights instead of
the error of the layer's output.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.ranges import SCALE_FLOOR
from zeropoint.numerics.storage import StorageType

FACTORS = tuple(1 - n / 50 for n in range(21))
"""Shares of a range, from 100 % to 60 %."""
PART = 1 << 15
"""The number of weights that are searched at a time."""
SEARCHED_BITS = 4
"""The largest width for which shares are tried."""


def least_error(blocks: FloatArray, storage: StorageType, *, zero_points: bool = False) -> tuple[FloatArray, IntArray]:
    """Scales and zero points of shape [...], for finite weights of shape [..., terms of a block].

    `storage` is signed. With `zero_points` False, they are 0.
    """
    rows = blocks.reshape(-1, blocks.shape[-1])
    scales, points = np.empty(len(rows)), np.zeros(len(rows), np.int64)
    # In parts that stay in the cache, which makes the search several times as fast.
    each = max(1, PART // rows.shape[1])
    for first in range(0, len(rows), each):
        part = slice(first, first + each)
        scales[part], points[part] = _searched(rows[part], storage, zero_points=zero_points)
    return scales.reshape(blocks.shape[:-1]), points.reshape(blocks.shape[:-1])


def _searched(rows: FloatArray, storage: StorageType, *, zero_points: bool) -> tuple[FloatArray, IntArray]:
    """Scales and zero points of rows."""
    low, high = np.minimum(rows.min(-1), 0.0), np.maximum(rows.max(-1), 0.0)
    least = np.full(low.shape, np.inf)
    scales, points = np.ones(low.shape), np.zeros(low.shape)
    for factor in FACTORS if storage.width <= SEARCHED_BITS else FACTORS[:1]:
        if zero_points:
            made = _held((high - low) * factor / (storage.max - storage.min))
            tried = np.clip(np.rint(storage.min - low * factor / made), storage.min, storage.max)
        else:
            made = _held(np.maximum(-low, high) * factor / storage.max)
            tried = np.zeros(low.shape)
        stored = np.rint(rows / made[:, None])
        np.clip(stored, (storage.min - tried)[:, None], (storage.max - tried)[:, None], out=stored)
        stored *= made[:, None]
        stored -= rows
        error = np.einsum("rk,rk->r", stored, stored)
        better = error < least
        least, scales = np.where(better, error, least), np.where(better, made, scales)
        points = np.where(better, tried, points)
    return scales, points.astype(np.int64)


def _held(scales: FloatArray) -> FloatArray:
    """Scales rounded to f32, and not below the smallest normal number."""
    return np.maximum(scales, SCALE_FLOOR).astype(np.float32).astype(np.float64)
