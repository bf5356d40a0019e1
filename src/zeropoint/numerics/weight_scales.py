"""Scales and zero points of weights that are stored in few bits and dequantized: those of least squared error.

The range of a block, widened to include 0, is shrunk by each factor of `FACTORS`; the one with the least sum of squared
errors is taken. Weights of 8 bits keep the whole range. Scales are f32, as the runtime's are.

Source: the search for clipped ranges of "AWQ" (Lin et al., 2023), here by the error of the weights instead of the
layer's output.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.ranges import SCALE_FLOOR
from zeropoint.numerics.storage import StorageType

FACTORS = tuple(1 - n / 50 for n in range(21))
"""Shares of a range, from all of it to 60 %."""
SEARCHED_BITS = 4
"""The greatest width for which shares are tried."""


def least_error(blocks: FloatArray, storage: StorageType, *, zero_points: bool = False) -> tuple[FloatArray, IntArray]:
    """Scales and zero points, each of shape [...], for finite weights of shape [..., terms of a block].

    `storage` is signed. Without `zero_points`, they are 0.
    """
    low, high = np.minimum(blocks.min(-1), 0.0), np.maximum(blocks.max(-1), 0.0)
    least = np.full(low.shape, np.inf)
    scales, points = np.ones(low.shape), np.zeros(low.shape, np.int64)
    for factor in FACTORS if storage.width <= SEARCHED_BITS else FACTORS[:1]:
        if zero_points:
            made = _held((high - low) * factor / (storage.max - storage.min))
            tried = np.clip(np.rint(storage.min - low * factor / made), storage.min, storage.max)
        else:
            made = _held(np.maximum(-low, high) * factor / storage.max)
            tried = np.zeros(low.shape)
        stored = np.clip(np.rint(blocks / made[..., None]) + tried[..., None], storage.min, storage.max)
        error = np.square((stored - tried[..., None]) * made[..., None] - blocks).sum(-1)
        better = error < least
        least, scales = np.where(better, error, least), np.where(better, made, scales)
        points = np.where(better, tried.astype(np.int64), points)
    return scales, points


def _held(scales: FloatArray) -> FloatArray:
    """Scales as f32 holds them, not too small for normal numbers."""
    return np.maximum(scales, SCALE_FLOOR).astype(np.float32).astype(np.float64)
