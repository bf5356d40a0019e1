"""The packed weights of onnxruntime's `MatMulNBits`: 2, 4 or 8 bits, with a scale for each block.

    weight[k, n] = (stored[k, n] - zero_point[k / block_size, n]) * scale[k / block_size, n]

The file has the transposed weight [N, K], whose rows are split into blocks. The first element of a byte is in its low
bits.

Source: onnxruntime's contributed operators (`com.microsoft`), "MatMulNBits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.tensors import Array

DTYPES: Mapping[int, np.dtype[Any]] = {
    2: np.dtype(ml_dtypes.uint2),
    4: np.dtype(ml_dtypes.uint4),
    8: np.dtype(np.uint8),
}
"""The dtype of stored weights, by number of bits."""


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """The weights of a product: u8 `stored` (K, N), and f32 `scales` and `points` (blocks, N).

    `bits` is the width of a stored number. The zero points `points` are integers, unless the file has float zero
    points. `groups`, i64 (K,), is the block of each row.
    """

    stored: Array
    scales: Array
    points: Array
    groups: Array
    bits: int
    block: int

    @staticmethod
    def of(
        attributes: Mapping[str, Any], packed: Array, scales: Array, points: Array | None, groups: Array | None
    ) -> PackedWeights:
        """The weights of a node with these attributes and constants.

        Raises ModelError for other widths, and for shapes that do not fit.
        """
        rows, columns = int(attributes.get("K", 0)), int(attributes.get("N", 0))
        bits, block = int(attributes.get("bits", 4)), int(attributes.get("block_size", 0))
        if bits not in DTYPES or min(rows, columns, block) < 1 or block * bits % 8:
            raise ModelError(
                f"found MatMulNBits with K {rows}, N {columns}, {bits} bits and blocks of {block}, expected positive "
                f"sizes, 2, 4 or 8 bits, and blocks of whole bytes"
            )
        blocks = -(-rows // block)
        integers = points is None or points.dtype.kind == "u"
        sizes = {
            "weights": (packed.size, columns * blocks * block * bits // 8),
            "scales": (scales.size, columns * blocks),
            "zero points": (0, 0)
            if points is None
            else (points.size, columns * (-(-blocks * bits // 8) if integers else blocks)),
            "groups": (0, 0) if groups is None else (groups.size, rows),
        }
        for name, (found, expected) in sizes.items():
            if found != expected:
                raise ModelError(f"found {found} numbers for the {name} of MatMulNBits, expected {expected}")
        if points is None:
            points = np.full((columns, blocks), 1 << bits >> 1)
        elif integers:
            points = unpacked(points.reshape(columns, -1), bits)[:, :blocks]
        return PackedWeights(
            np.ascontiguousarray(unpacked(packed.reshape(columns, -1), bits)[:, :rows].T),
            np.ascontiguousarray(scales.reshape(columns, blocks).T.astype(np.float32)),
            np.ascontiguousarray(points.reshape(columns, blocks).T.astype(np.float32)),
            np.arange(rows) // block if groups is None else groups.astype(np.int64),
            bits,
            block,
        )

    @property
    def is_regular(self) -> bool:
        """Whether `DequantizeLinear` can express it: blocks are in order, and zero points are integers."""
        in_order = np.array_equal(self.groups, np.arange(len(self.groups)) // self.block)
        return in_order and np.array_equal(self.points, np.rint(self.points))

    def real(self) -> Array:
        """The dequantized f32 weights (K, N)."""
        return (self.stored.astype(np.float32) - self.points[self.groups]) * self.scales[self.groups]


def unpacked(packed: Array, bits: int) -> Array:
    """Unpack the numbers of `bits` bits in the last dimension of a u8 array. The low bits of a byte come first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed.astype(np.uint8)[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)
