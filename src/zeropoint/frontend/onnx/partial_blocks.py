"""Blocks of weights of which the last one is shorter, as smaller blocks of one size.

ONNX allows ceil(size / block) scales along the axis of blocks. A `!quant.uniform` type has blocks of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from zeropoint.ir.tensors import Array

LEAST = 4
"""The smallest block with a scale. Smaller ones would take more memory than floats."""


def is_partial(shape: Sequence[int], axis: int, block: int, scales: Sequence[int]) -> bool:
    """Whether a tensor's last block along an axis is shorter than the others, given the shape of its scales."""
    wanted = [-(-size // block) if dimension == axis else size for dimension, size in enumerate(shape)]
    return bool(block) and shape[axis] % block > 0 and list(scales) == wanted


def smaller_blocks(
    size: int, axis: int, block: int, scales: Array, points: Array | None
) -> tuple[int, Array, Array | None] | None:
    """Blocks that fill `size` elements, with the scales and zero points of those of `block`; None if too small."""
    made = size if size < block else gcd(size, block)
    if made < LEAST:
        return None
    of_block = np.arange(size // made) * made // block
    return made, scales.take(of_block, axis), None if points is None else points.take(of_block, axis)
