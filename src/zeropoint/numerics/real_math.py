"""Real math on quantized values whose scales differ by powers of two: scales are changed by shifts.

Source: "MLIR Quantization", section "FxpMath Dialect": a sum of values whose scales are powers of two of each other is
a rounding division by a power of two and a saturating sum. Ties go away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.rounding import rounding_divide_by_pot

LARGEST_TERM = 1 << 30
"""Bound on the magnitude of each operand after a left shift. A sum of two such operands fits 32 bits."""
LARGEST_DIVISION = 30


def power_of_two(ratio: float) -> int | None:
    """n with ratio = 2^-n; None if the ratio is not a power of two."""
    fraction, exponent = np.frexp(np.float64(ratio))
    return 1 - int(exponent) if fraction == 0.5 else None


def clamped(output: AffineParameters, low: int, high: int) -> AffineParameters:
    """The parameters with their storage range narrowed to low..high, which may be outside of the storage range."""
    least, greatest = output.storage_min, output.storage_max
    return replace(output, storage_min=min(max(least, low), greatest), storage_max=max(min(greatest, high), least))


@dataclass(frozen=True)
class ShiftedSum:
    """clamp(sum_i sign_i * ((q_i - z_i) * 2^-shift_i) + zero_point), where at most one division rounds."""

    zero_points: tuple[int, ...]
    shifts: tuple[int, ...]
    """Positive shifts are rounding divisions, negative ones are exact products."""
    signs: tuple[int, ...]
    zero_point: int
    storage_min: int
    storage_max: int

    @staticmethod
    def of(inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int]) -> ShiftedSum | None:
        """The sum; None if a ratio of scales is no power of two, two operands are finer, or 32 bits are too few.

        With two finer operands, there would be two roundings. So the results of a sum are exactly rounded.
        """
        shifts = [power_of_two(float(each.scale.item()) / float(output.scale.item())) for each in inputs]
        found = [shift for shift in shifts if shift is not None]
        rounded = sum(shift > 0 for shift in found)
        if len(found) < len(shifts) or rounded > 1 or max(found) > LARGEST_DIVISION:
            return None
        if any(each.reach << max(-shift, 0) >= LARGEST_TERM for each, shift in zip(inputs, found, strict=True)):
            return None
        return ShiftedSum(
            tuple(int(each.zero_point.item()) for each in inputs),
            tuple(found),
            tuple(signs),
            int(output.zero_point.item()),
            output.storage_min,
            output.storage_max,
        )

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map storage integers of the operands to int64 storage integers. Shapes broadcast."""
        total: AnyArray = np.asarray(self.zero_point, np.int64)
        for q, zero, shift, sign in zip(operands, self.zero_points, self.shifts, self.signs, strict=True):
            centred = np.asarray(q, np.int64) - zero
            total = total + sign * rounding_divide_by_pot(centred << max(-shift, 0), max(shift, 0))
        return np.clip(total, self.storage_min, self.storage_max)
