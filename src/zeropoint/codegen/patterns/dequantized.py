"""Float weights that a program stores as integers with scales: `Dequantized`.

%w = quant.scast (constant)             : tensor<96x24xi4> to tensor<96x24x!quant.uniform<i4:f32:{0:32, 1:1}, {...}>>
%r = quant.dcast %w                     : the match starts here, backwards

`ir/dequantized.py` has the other forms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.kernels.dequantized import WORD
from zeropoint.ir.dequantized import stored_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array, element_of
from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.storage import half_range

WIDTHS = (2, 4, 8)
"""The widths in bits at which native code stores weights."""


@dataclass(frozen=True, eq=False)
class Dequantized:
    """weight[k, n] = f32(stored[k, n] - points[b, n]) * scales[b, n], where b = k // terms per block.

    `stored` has shape (terms, channels) and signed integers of `bits` bits. `scales` and `points` have shape
    (blocks, channels).
    """

    stored: IntArray
    scales: FloatArray
    points: IntArray
    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(terms, channels)."""
        return self.stored.shape

    @staticmethod
    def of(program: Program, value: SSAValue, terms: int) -> Dequantized | None:
        """The weights of a matrix whose terms are along dimension `terms`.

        None if the value is not a dequantized constant, or if a word of packed weights would have terms of several
        blocks.
        """
        found = stored_constant(program, value)
        if found is None or found[0].ndim != 2:
            return None
        stored, kind = found
        if not kind.storage.is_integer or kind.expressed_type != element_of(value):
            return None
        scales, points = (_by_block(kind, part, stored.shape, terms) for part in (kind.scales, kind.zero_points))
        if scales is None or points is None:
            return None
        stored = (stored if terms == 0 else stored.T).astype(np.int64)
        for bits in WIDTHS:
            half = half_range(bits)
            middle = half if stored.min(initial=0) >= 0 and stored.max(initial=0) >= half else 0
            low, high = stored.min(initial=0) - middle, stored.max(initial=0) - middle
            if -half <= low and high < half and len(stored) // len(scales) % (WORD // bits) == 0:
                return Dequantized(stored - middle, scales.astype(np.float64), points - middle, bits)
        return None


def _by_block(kind: UniformQuantizedType, numbers: Array, shape: tuple[int, ...], terms: int) -> Array | None:
    """The scales or zero points as (blocks, channels); None if they vary along the terms only."""
    channels = shape[1 - terms]
    if kind.is_per_layer:
        return np.broadcast_to(numbers.reshape(1, 1), (1, channels))
    if kind.axis is not None:
        return None if kind.axis == terms else numbers.reshape(1, channels)
    laid = numbers if terms == 0 else numbers.T
    return np.repeat(laid, channels // laid.shape[1], axis=1)
