"""Linear resizes of images as LiteRT computes them: its three ways to place positions, and the weights of its kernels.

A position reads two neighbours in each dimension, whose integer weights add up to 2^bits. The result is the sum of the
four products of stored integers, divided by 2^(2 bits) and rounded.

| kernel | bits | positions | a middle of two results |
|---|---|---|---|
| LiteRT | 10 | fixed point | away from 0 |
| XNNPACK, 8-bit values | 11 | f32 | up |

Sources: `ResizeBilinearInteger` of LiteRT; XNNPACK's indirection for bilinear resizes, and `s8-ibilinear`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import AnyArray, IntArray

LITERT_BITS, XNNPACK_BITS = 10, 11
"""The fractional bits of the weights along one dimension."""
CLOSE = 1e-4
"""How far weights may be from those of a placement: positions are f32, and differ by their order of operations."""


@dataclass(frozen=True)
class PixelPlacement:
    """How positions of the result are placed in the image: a field of RESIZE_BILINEAR is set, or none."""

    align_corners: bool = False
    half_pixel_centers: bool = False

    def scale(self, size: int, out: int) -> np.float32:
        """The step between positions."""
        if self.align_corners and out > 1:
            return np.float32(size - 1) / np.float32(out - 1)
        return np.float32(size) / np.float32(out)

    def positions(self, size: int, out: int) -> AnyArray:
        """The positions in an image of `size` elements, in f32."""
        counted = np.arange(out, dtype=np.float32)
        half = np.float32(0.5) if self.half_pixel_centers else np.float32(0)
        return (counted + half) * self.scale(size, out) - half


PLACEMENTS = (PixelPlacement(half_pixel_centers=True), PixelPlacement(align_corners=True), PixelPlacement())


@dataclass(frozen=True)
class StoredNeighbours:
    """The two neighbours of each position along a dimension, and the integers by which they are multiplied."""

    first: IntArray
    second: IntArray
    weights: tuple[IntArray, IntArray]


def placement_of(matrices: Sequence[AnyArray]) -> PixelPlacement | None:
    """The placement whose weights are these matrices [size, out], one for each dimension; None if there is none."""
    for placement in PLACEMENTS:
        if all(_is_of(placement, matrix) for matrix in matrices):
            return placement
    return None


def _is_of(placement: PixelPlacement, matrix: AnyArray) -> bool:
    size, out = matrix.shape
    places = np.clip(placement.positions(size, out), 0, size - 1).astype(np.float64)
    distances = np.abs(np.arange(size, dtype=np.float64)[:, None] - places)
    expected: AnyArray = np.clip(1 - distances, 0, 1)
    return np.allclose(matrix, expected, rtol=0, atol=CLOSE)


def litert_neighbours(size: int, out: int, placement: PixelPlacement) -> StoredNeighbours:
    """The neighbours along a dimension in LiteRT's own kernel."""
    one = 1 << LITERT_BITS
    step = (one * size + out // 2) // out
    if placement.align_corners and out > 1:
        step = (one * (size - 1) + (out - 1) // 2) // (out - 1)
    places = np.arange(out, dtype=np.int64) * step
    if placement.half_pixel_centers:
        places += step // 2 - one // 2
    first = np.maximum(places, 0) // one
    # As a division in C, which truncates.
    second = np.minimum(np.maximum(places + one - 1, 0) // one, size - 1)
    share = places - one * first
    return StoredNeighbours(first, second, (one - share, share))


def xnnpack_neighbours(size: int, out: int, placement: PixelPlacement) -> StoredNeighbours:
    """The neighbours along a dimension in XNNPACK's kernel."""
    one = 1 << XNNPACK_BITS
    scale = placement.scale(size, out)
    # Unlike LiteRT's own float kernel, XNNPACK adds half a step after the product.
    offset = np.float32(0.5) * scale - np.float32(0.5) if placement.half_pixel_centers else np.float32(0)
    places = np.clip(np.arange(out, dtype=np.float32) * scale + offset, np.float32(0), np.float32(size - 1))
    first = places.astype(np.int64)
    share = np.rint((places - first.astype(np.float32)) * np.float32(one)).astype(np.int64)
    return StoredNeighbours(first, np.minimum(first + 1, size - 1), (one - share, share))
