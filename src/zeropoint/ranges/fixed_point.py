"""The ranges of fixed-point ops: requantizations, weighted sums, tables.

Every requantization behaviour is monotonic in the accumulator, so the bounds of the result are the images of the
accumulator's bounds.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.fxpmath.checks import number
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.arrays import AnyArray, IntArray, along_axis
from zeropoint.numerics.requantize import Requantization
from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.interval import Interval, of_array


def requantization_of(ranges: Ranges, op: RequantizeOp) -> Requantization | None:
    """The op's computation if its multiplier is constant; None otherwise."""
    parts = [ranges.array(value) for value in op.operands[1:]]
    known = [part for part in parts if part is not None]
    return op.requantization(*known) if len(known) == len(parts) else None


def channels_of(op: RequantizeOp, numbers: IntArray) -> IntArray:
    """Multipliers or shifts, reshaped to broadcast with the accumulator."""
    if numbers.size <= 1 or op.axis is None:
        return numbers.reshape(())
    return along_axis(numbers, len(shape_of(op.accumulator)), int(op.axis.value.data), "multiplier")


def requantized(ranges: Ranges, op: RequantizeOp) -> Interval:
    """The images of the accumulator's bounds."""
    steps, acc = requantization_of(ranges, op), ranges.of(op.accumulator)
    whole = Interval.of(number(op.storage_min), number(op.storage_max))
    if steps is None or not acc.is_bounded:
        return whole
    shape = channels_of(op, np.zeros(steps.multiplier.multiplier.shape, np.int64)).shape
    dtype = np.int32 if acc.fits(32) else np.int64

    def image(bounds: AnyArray) -> AnyArray:
        given = np.broadcast_to(bounds, np.broadcast_shapes(bounds.shape, shape)).astype(dtype)
        return steps.apply(given, np.int64)

    try:
        return acc.narrowed().mapped(image)
    except ValueError:  # outside the behaviour's domain; the lowering rejects it
        return whole


def weighted_terms(ranges: Ranges, op: WeightedSumOp) -> list[Interval]:
    """(x_i - zero_points[i]) * multipliers[i] of each operand."""
    factors = zip(op.inputs, array_values(op.zero_points), array_values(op.multipliers), strict=True)
    return [(ranges.of(x) - Interval.of(zero, zero)) * Interval.of(factor, factor) for x, zero, factor in factors]


def weighted_sum(ranges: Ranges, op: WeightedSumOp) -> Interval:
    """The sum of the terms, rounded, shifted and clamped."""
    found = op.sum
    total = Interval.of(1 << (found.shift - 1), 1 << (found.shift - 1))
    for term in weighted_terms(ranges, op):
        total = total + term
    shifted = total.mapped(lambda bounds: bounds >> np.int64(found.shift))
    zero = Interval.of(found.zero_point, found.zero_point)
    return (shifted + zero).clamped(found.storage_min, found.storage_max)


def table(ranges: Ranges, op: TableOp) -> Interval:
    """The range of the table entries that the operand can select."""
    entries = ranges.array(op.table)
    if entries is None:
        return ranges.of(op.table).hull
    index = ranges.of(op.operand).hull
    start = -(1 << 7)
    return of_array(entries[index.least - start : index.greatest - start + 1]).hull
