"""The noise of a range: what it is, and which kernels are its readers (`output_noise.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.numerics import asymmetric, dequantize, quantize
from zeropoint.numerics.noise import energy, energy_between
from zeropoint.numerics.ranges import RealRange

MOVES = ("reshape", "transpose", "slice", "pad", "broadcast", "squeeze", "expand_dims", "flatten", "reverse")
"""Kernels that only move data. The rounding of their operand is judged at the readers of the result."""


@dataclass(eq=False)
class RangeNoise:
    """The noise of the candidate ranges of one value. Arrays are (ranges, samples).

    `readers` is the noise of the value's readers divided by their signal, which is summed over all samples. A reader
    that is always 0 does not count. `own` is the squared error of the value itself, and `cut` is the part of it that
    clipping causes; both are sums over elements. `size` is the number of elements in all samples. Only finite values
    count.
    """

    readers: Array
    own: Array
    cut: Array
    size: int = 0


def rounded(array: Array, limits: RealRange) -> Array:
    """An f32 array after quantization to 8 bits over a range, and dequantization. Its order in memory is kept."""
    # The same map as in quantization, so that the rounding of the zero point counts, too.
    chosen = asymmetric(*limits, -128, 127)
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    stored = quantize(array.transpose(order), chosen.scale, chosen.zero_point, -128, 127)
    return dequantize(stored, chosen.scale, chosen.zero_point).transpose(np.argsort(order))


def energy_of_finite(array: Array) -> float:
    """The sum of squares without infinities and NaN: an infinity is stored as the end of any range."""
    total = energy(array)
    return total if np.isfinite(total) else energy(array[np.isfinite(array)])


def finite_energy_between(values: Array, others: Array) -> float:
    """The same of their difference."""
    total = energy_between(values, others)
    return total if np.isfinite(total) else energy_of_finite(values - others)


def energy_cut(values: Array, limits: RealRange) -> float:
    """The squared error that clipping to a range causes, of finite values."""
    # Most ranges contain all values of most samples. An extreme is NaN if a value is.
    if limits[0] <= values.min(initial=np.inf) and values.max(initial=-np.inf) <= limits[1]:
        return 0.0
    return finite_energy_between(values, np.clip(values, *limits))


def is_kernel(op: Operation) -> bool:
    """Whether an op is a region whose first result is f32, so that it has a signal and noise."""
    return isinstance(op, QuantizeRegionOp) and element_of(op.outputs[0]) == f32


def moves(op: Operation) -> bool:
    """Whether a kernel only moves data."""
    return isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in MOVES
