"""Multiplication of two quantized operands. `of(...)` builds the parameters, and `apply` computes the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.elementwise import scalars
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import (
    Multiplier,
    RequantizeBehaviour,
    accumulator_limit,
    ratio_of_scales,
    requantize,
)
from zeropoint.numerics.rounding import INT32_MAX


@dataclass(frozen=True, eq=False)
class Multiplication:
    """(a - za) * (b - zb), requantized with m = s1 * s2 / s_out."""

    zero_points: tuple[int, int]
    multiplier: Multiplier
    zero_point: int
    storage_min: int
    storage_max: int
    accumulator_width: int

    @staticmethod
    def of(
        inputs: Sequence[AffineParameters],
        output: AffineParameters,
        behaviour: RequantizeBehaviour,
        storage_width: int,
        *,
        in_f32: bool = False,
    ) -> Multiplication:
        """The product of two operands. With `in_f32`, the multiplier is fl32(fl32(s1 * s2) / s_out).

        Raises ValueError if a product may exceed the multiplier's limit."""
        (first, second), zeros = scalars(inputs)
        (out_scale,), (out_zero,) = scalars([output])
        reach = inputs[0].reach * inputs[1].reach
        width = 32 if reach <= INT32_MAX else 64
        real = ratio_of_scales(first * second, out_scale, in_f32=in_f32)
        multiplier = Multiplier.of(real, behaviour, storage_width, width)
        limit = int(accumulator_limit(multiplier, width))
        if reach > limit:
            raise ValueError(
                f"found products up to {reach}; '{multiplier.behaviour.value}' with the multiplier "
                f"{float(multiplier.real):.6g} takes magnitudes up to {limit} (widen the range of the result)"
            )
        return Multiplication((zeros[0], zeros[1]), multiplier, out_zero, output.storage_min, output.storage_max, width)

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map two arrays of storage integers to storage integers. Shapes broadcast."""
        word = np.int32 if self.accumulator_width == 32 else np.int64
        first, second = (
            np.asarray(q).astype(word) - word(zero) for q, zero in zip(operands, self.zero_points, strict=True)
        )
        return requantize(first * second, self.multiplier, self.zero_point, self.storage_min, self.storage_max)
