"""The noise of a contraction's constant weights, and how they scale that of its operand.

The steps in time of a recurrence read the same weights, and several passes ask for the same, so each is found once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

import numpy as np

from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.targets import KernelRow

Found = TypeVar("Found")
WEIGHTS_AT_ONCE = 1 << 20
"""The number of weight elements that are squared at once."""


def contraction_gain(region: QuantizeRegionOp, weights: Weights) -> float | None:
    """The largest sum of squared weights of a channel; None without constant weights."""

    # The worst channel, because its results decide whether the function after them can be trusted.
    def found(parts: Iterator[Array]) -> float | None:
        return max((float((part**2).sum(axis=1).max()) for part in parts), default=None)

    return _of_channels(region, weights, "gain", found)


def weight_noise(region: QuantizeRegionOp, row: KernelRow, weights: Weights) -> float:
    """The variance of rounding the weights, summed over a channel; the largest sum of all channels."""
    per_channel, greatest = row.input_rule(1).per_channel, row.input_rule(1).storage.maximum

    def noise(given: Iterator[Array]) -> float:
        found, parts = 0.0, [abs(part) for part in given]
        whole = max((float(part.max()) for part in parts), default=0.0)
        for part in parts:
            steps = (part.max(axis=1) if per_channel else np.full(len(part), whole)) / greatest
            found = max(found, float((np.count_nonzero(part, axis=1) * steps**2 / 12).max()))
        return found

    return _of_channels(region, weights, (per_channel, greatest), noise)


def _of_channels(
    region: QuantizeRegionOp, weights: Weights, key: Hashable, found: Callable[[Iterator[Array]], Found]
) -> Found:
    """What `found` computes from the weights by channels, some channels at a time. There are none if they are not
    constant."""
    op = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp)), None)
    value, axis = region.inputs[1], None if op is None else weight_channel_axis(op)
    array = constant_array(value, weights)
    if axis is None or array is None or not array.size or not isinstance(value.owner, ConstantOp):
        return found(iter(()))
    form = key, axis, array.dtype.str
    return weights.fact(value.owner.value, form, lambda: found(_parts(weights_by_channel(array, axis))))


def _parts(rows: Array) -> Iterator[Array]:
    # A few channels at a time: two f64 copies of a large matrix would take four times its size.
    step = max(1, WEIGHTS_AT_ONCE // rows.shape[1])
    yield from (_widened(rows[first : first + step]) for first in range(0, len(rows), step))


def _widened(weights: Array) -> Array:
    """Weights in f64. Suppresses the warning about a signalling NaN, because NaN weights have an error of their own."""
    with np.errstate(invalid="ignore"):
        return weights.astype(np.float64)
