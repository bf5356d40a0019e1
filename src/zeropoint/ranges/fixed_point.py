"""The ranges of fixed-point ops: requantizations, weighted sums, tables.

Every requantization behaviour is monotone in the accumulator. So the bounds of the result are the images of the
accumulator's bounds.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.fxpmath.checks import number
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.arrays import AnyArray, IntArray, along_axis
from zeropoint.numerics.requantize import Requantization
from zeropoint.numerics.rounding import rounding_divide_by_pot, saturating_rounding_doubling_high_mul
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
    except ValueError:  # outside the behaviour's domain, which lowering rejects
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
    start = int(np.iinfo(element_dtype(element_of(op.operand))).min)
    return of_array(entries[index.least - start : index.greatest - start + 1]).hull


def rounding_divide(ranges: Ranges, op: RoundingDivideByPotOp) -> Interval:
    """The quotients of the bounds, because the division is nondecreasing."""
    exponent = number(op.exponent)
    return ranges.of(op.operand).mapped(lambda bounds: rounding_divide_by_pot(bounds, exponent))


def saturating_add(ranges: Ranges, op: SaturatingAddOp) -> Interval:
    """lhs + rhs, clamped."""
    return (ranges.of(op.lhs) + ranges.of(op.rhs)).clamped(number(op.storage_min), number(op.storage_max))


def high_product(ranges: Ranges, op: SaturatingRoundingDoublingHighMulOp) -> Interval:
    """The products of the bounds, in ascending order also for negative multipliers."""
    x, multiplier = ranges.of(op.operand), number(op.multiplier)
    ends = [saturating_rounding_doubling_high_mul(bounds, multiplier) for bounds in (x.low, x.high)]
    return Interval.made(np.minimum(*ends), np.maximum(*ends))


def quotient(ranges: Ranges, op: QuotientOp) -> Interval:
    """The storage bounds, because a small divisor gives any quotient."""
    del ranges
    return Interval.of(number(op.storage_min), number(op.storage_max))


def interpolate(ranges: Ranges, op: InterpolateOp) -> Interval:
    """The range of the entries around the operand's positions, because a result lies between two entries."""
    entries = ranges.array(op.table)
    if entries is None:
        return ranges.of(op.table).hull
    operand, start = ranges.of(op.operand).hull, -(1 << 15)
    first, last = ((bound - start) >> op.shift for bound in (operand.least, operand.greatest))
    return of_array(entries[first : last + 2]).hull
