"""The ranges of elementwise ops on integers.

Source: the StableHLO specification, applied to bounds. Results are exact integers; whether they fit the result type is
checked separately (`obligations.py`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.storage import half_range
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.contraction import combined
from zeropoint.ranges.interval import Interval, joined


def add(ranges: Ranges, op: hlo.AddOp) -> Interval:
    """lhs + rhs."""
    return ranges.of(op.lhs) + ranges.of(op.rhs)


def subtract(ranges: Ranges, op: hlo.SubtractOp) -> Interval:
    """lhs - rhs; not negative if lhs is the maximum of rhs along some dimensions."""
    # Interval arithmetic alone would allow a negative result of `max(x) - x`, the exponent of a softmax.
    result = ranges.of(op.lhs) - ranges.of(op.rhs)
    return result.extreme(Interval.of(0, 0), np.maximum) if _is_maximum_of(op.lhs, op.rhs) else result


def _is_maximum_of(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is `x` reduced by `maximum` and broadcast to its shape again."""
    broadcast = value.owner
    reduce = broadcast.operand.owner if isinstance(broadcast, hlo.BroadcastInDimOp) else None
    if not isinstance(broadcast, hlo.BroadcastInDimOp) or not isinstance(reduce, hlo.ReduceOp):
        return False
    kept = [dim for dim in range(len(shape_of(x))) if dim not in array_values(reduce.dimensions)]
    same = [*reduce.inputs] == [x] and array_values(broadcast.broadcast_dimensions) == tuple(kept)
    return same and combined(reduce) == "maximum"


def multiply(ranges: Ranges, op: hlo.MultiplyOp) -> Interval:
    """lhs * rhs; a square is nonnegative."""
    lhs, rhs = ranges.of(op.lhs), ranges.of(op.rhs)
    result = lhs * rhs
    return Interval(np.maximum(result.low, 0), result.high) if op.lhs is op.rhs else result


def negate(ranges: Ranges, op: hlo.NegateOp) -> Interval:
    """-operand."""
    return -ranges.of(op.operand)


def absolute(ranges: Ranges, op: hlo.AbsOp) -> Interval:
    """|operand|."""
    x = ranges.of(op.operand)
    # A range that contains 0 has the least magnitude 0, not that of an end.
    nearest = np.where((x.low <= 0) & (x.high >= 0), 0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return Interval(nearest, x.magnitude)


def sign(ranges: Ranges, op: hlo.SignOp) -> Interval:
    """-1, 0 or 1."""
    return ranges.of(op.operand).mapped(np.sign)


def maximum(ranges: Ranges, op: hlo.MaximumOp) -> Interval:
    """The greater of two values."""
    return ranges.of(op.lhs).extreme(ranges.of(op.rhs), np.maximum)


def minimum(ranges: Ranges, op: hlo.MinimumOp) -> Interval:
    """The lesser of two values."""
    return ranges.of(op.lhs).extreme(ranges.of(op.rhs), np.minimum)


def clamp(ranges: Ranges, op: hlo.ClampOp) -> Interval:
    """minimum(maximum(operand, min), max)."""
    low, x, high = (ranges.of(operand) for operand in (op.min, op.operand, op.max))
    return x.extreme(low, np.maximum).extreme(high, np.minimum)


def select(ranges: Ranges, op: hlo.SelectOp) -> Interval:
    """One of two values."""
    return joined([ranges.of(op.on_true), ranges.of(op.on_false)])


def shift_left(ranges: Ranges, op: hlo.ShiftLeftOp) -> Interval:
    """operand * 2^amount for amounts from 0 to less than the width, and 0 for all other amounts."""
    amounts, most = ranges.of(op.rhs).hull, 8 * element_dtype(element_of(op.result)).itemsize - 1
    low, high = max(amounts.least, 0), min(amounts.greatest, most)
    # The result is monotone in the amount for either sign, so the ends bound it.
    found = [ranges.of(op.lhs).times(1 << amount) for amount in (low, high) if low <= high]
    return joined([*found, *([] if amounts.within(0, most) else [Interval.of(0, 0)])])


def shift_right(ranges: Ranges, op: hlo.ShiftRightArithmeticOp) -> Interval:
    """floor(operand / 2^amount) for amounts from 0 to 62; otherwise, and for unsigned numbers whose highest bit may be
    set, which is copied, the range of the type.
    """
    x, amounts, dtype = ranges.of(op.lhs), ranges.of(op.rhs).hull, element_dtype(element_of(op.result))
    if not amounts.within(0, 62) or (dtype.kind == "u" and x.greatest >= half_range(8 * dtype.itemsize)):
        return type_interval(element_of(op.result))
    ends = [x.mapped(lambda bounds, n=amount: bounds >> np.int64(n)) for amount in (amounts.least, amounts.greatest)]
    return joined(ends)


def bitwise_and(ranges: Ranges, op: hlo.AndOp) -> Interval:
    """lhs & rhs: from 0 to the upper bound of an operand that is not negative, the lesser one of two."""
    bounds = [found.greatest for found in map(ranges.of, op.operands) if found.least >= 0]
    return Interval.of(0, min(bounds)) if bounds else type_interval(element_of(op.result))


def bitwise_xor(ranges: Ranges, op: hlo.XorOp) -> Interval:
    """lhs ^ rhs: of numbers that are not negative, as many bits as the larger one has; with the least number of the
    type, which flips the sign, the shifted range; otherwise the range of the type.
    """
    x, y = (ranges.of(operand) for operand in op.operands)
    whole = type_interval(element_of(op.result))
    if x.least >= 0 and y.least >= 0:
        return Interval.of(0, (1 << max(x.greatest, y.greatest).bit_length()) - 1)
    if y.hull.within(whole.least, whole.least) and x.least >= 0:
        return x + y
    if y.hull.within(whole.least, whole.least) and x.greatest < 0:
        return x - y
    return whole


def divide(ranges: Ranges, op: hlo.DivideOp) -> Interval:
    """lhs / rhs, towards 0, by divisors above 0; lhs and -lhs by those around -1; else the range of the type."""
    x, y = ranges.of(op.lhs), ranges.of(op.rhs).hull
    if y.least <= -1 <= y.greatest:
        return x.join(-x).with_zero()
    if y.least < 1 or not x.is_bounded:
        return type_interval(element_of(op.result))
    return joined(
        [x.mapped(lambda bounds, n=n: np.sign(bounds) * (np.abs(bounds) // n)) for n in (y.least, y.greatest)]
    )


def power(ranges: Ranges, op: hlo.PowerOp) -> Interval:
    """lhs to the power of rhs: up to the greatest magnitude to the greatest exponent; 1 or less below exponent 1."""
    x, exponents = ranges.of(op.lhs).hull, ranges.of(op.rhs).hull
    # No number but 0, 1 and -1 has a 64th power in 64 bits, so greater exponents need no greater bound.
    most = max(1, max(abs(x.least), x.greatest) ** min(max(exponents.greatest, 0), 64))
    return Interval.of(0 if x.least >= 0 else -most, most)


def convert(ranges: Ranges, op: hlo.ConvertOp) -> Interval:
    """The range of the operand if it fits the new type; otherwise, and for float operands, the range of the type."""
    source, whole = ranges.of(op.operand), type_interval(element_of(op.result))
    exact = element_dtype(element_of(op.operand)).kind in "biu" and source.within(whole.least, whole.greatest)
    return source if exact else whole
