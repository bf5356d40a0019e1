"""Strides, dilations and padding of windows in LiteRT's terms: SAME, VALID, or a preceding PAD.

Source: TensorFlow's definition of SAME: the output has ceil(size / stride) positions, and the smaller half of the
required padding comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import IntArray

SAME, VALID = 0, 1


@dataclass(frozen=True)
class ExportedWindow:
    """Windows over the two spatial dimensions of an image."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]

    @property
    def scheme(self) -> int | None:
        """SAME or VALID; None if the padding is neither."""
        if not any(map(any, self.padding)):
            return VALID
        return SAME if self.padding == tuple(map(self._same, range(2))) else None

    def _same(self, axis: int) -> tuple[int, int]:
        stride, size = self.strides[axis], self.size[axis]
        extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        return total // 2, total - total // 2

    @property
    def counts(self) -> IntArray:
        """The number of elements in each window, without padding, as (output height, output width). No dilation."""
        found: list[IntArray] = []
        for axis in range(2):
            (low, high), size, extent = self.padding[axis], self.size[axis], self.kernel[axis]
            starts = np.arange(0, low + size + high - extent + 1, self.strides[axis]) - low
            found.append(np.minimum(starts + extent, size) - np.maximum(starts, 0))
        return np.multiply.outer(found[0], found[1])

    @property
    def strides_and_dilations(self) -> dict[str, int]:
        """The stride and dilation fields of a convolution's options."""
        return {
            "strideH": self.strides[0],
            "strideW": self.strides[1],
            "dilationHFactor": self.dilations[0],
            "dilationWFactor": self.dilations[1],
        }

    @property
    def padded(self) -> tuple[int, int]:
        """The size of the padded image."""
        first, second = (size + low + high for size, (low, high) in zip(self.size, self.padding, strict=True))
        return first, second

    @property
    def paddings(self) -> list[tuple[int, int]]:
        """The PAD amounts, low and high, of the four dimensions."""
        return [(0, 0), *self.padding, (0, 0)]
