"""TensorFlow's fake quantization, in f32: the parameters of a range, and the quantized values as floats.

Every step is rounded to f32, as in the kernels of `FakeQuantWithMinMaxArgs` and of its form per channel. For storage
q_min..q_max, with q_min = 1 for a narrow range:

    scale = (max - min) / (q_max - q_min)             inverse = (q_max - q_min) / (max - min)
    zero_point = round(clamp(q_min - min / scale, q_min, q_max))          ties away from zero
    low, high = (q_min - zero_point) scale, (q_max - zero_point) scale
    zero = floor(-low inverse + 1/2)
    y = floor((clamp(x, low, high) - low) inverse - zero + 1/2) scale     ties towards positive infinity

So a range without 0 is shifted until it contains 0. [-1, 1] has the zero point 127, because 1 / scale is below 127.5 in
f32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.rounding import round_half_away
from zeropoint.numerics.storage import integer_range

MOST_BITS = 16
"""TensorFlow simulates up to this many bits."""


@dataclass(frozen=True, eq=False)
class FakeQuantization:
    """The parameters of one range, or of one range per channel, for unsigned storage. Floats are f32 arrays."""

    least: int
    greatest: int
    scale: AnyArray
    inverse: AnyArray
    zero_point: IntArray

    @staticmethod
    def of(minimum: npt.ArrayLike, maximum: npt.ArrayLike, num_bits: int, narrow_range: bool) -> FakeQuantization:
        """The parameters of finite ranges. An empty range has the scale 0 and the zero point `least`."""
        low, high = np.asarray(minimum, np.float32), np.asarray(maximum, np.float32)
        least, greatest = int(narrow_range), integer_range(num_bits, signed=False)[1]
        extent, steps = np.asarray(high - low), np.float32(greatest - least)
        empty = extent == 0
        scale = np.asarray(extent / steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(empty, np.float32(0), steps / extent)
            from_min = np.where(empty, np.float32(least), np.float32(least) - low / scale)
        zero_point = round_half_away(np.clip(from_min, np.float32(least), np.float32(greatest))).astype(np.int64)
        return FakeQuantization(least, greatest, scale, inverse, zero_point)

    def apply(self, x: AnyArray) -> AnyArray:
        """The simulated values of an f32 array that broadcasts with the parameters; 0 for an empty range."""
        low, high = ((np.float32(end) - self.zero_point.astype(np.float32)) * self.scale for end in self._ends)
        half = np.float32(0.5)
        # TensorFlow rounds by floor(x + 1/2), in f32.
        zero = np.floor(-low * self.inverse + half)
        inside = np.maximum(np.minimum(x, high), low)
        return np.asarray(np.floor((inside - low) * self.inverse - zero + half) * self.scale)

    @property
    def _ends(self) -> tuple[int, int]:
        return self.least, self.greatest
