"""The ranges of elementwise ops on integers.

Source: the StableHLO specification, applied to bounds. Results are exact integers. `obligations.py` checks whether they
fit the result type.
"""

from __future__ import annotations

from math import ceil, floor, isfinite

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.contraction import combined
from zeropoint.ranges.interval import Interval, joined
from zeropoint.ranges.row_scales import row_product

_ROUNDING = (hlo.RoundNearestEvenOp, hlo.RoundNearestAfzOp, hlo.FloorOp, hlo.CeilOp)


def add(ranges: Ranges, op: hlo.AddOp) -> Interval:
    """lhs + rhs."""
    return ranges.of(op.lhs) + ranges.of(op.rhs)


def subtract(ranges: Ranges, op: hlo.SubtractOp) -> Interval:
    """lhs - rhs, which is not negative if lhs is the maximum of rhs along some dimensions."""
    # Interval arithmetic alone would allow negative results of `max(x) - x`, the exponents of a softmax.
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
    """lhs * rhs. A square is not negative, and `row_product` knows more of rows and their greatest element."""
    known = row_product(ranges, op)
    if known is not None:
        return known
    lhs, rhs = ranges.of(op.lhs), ranges.of(op.rhs)
    result = lhs * rhs
    return Interval(np.maximum(result.low, 0), result.high) if op.lhs is op.rhs else result


def negate(ranges: Ranges, op: hlo.NegateOp) -> Interval:
    """-operand."""
    return -ranges.of(op.operand)


def absolute(ranges: Ranges, op: hlo.AbsOp) -> Interval:
    """|operand|."""
    x = ranges.of(op.operand)
    # If the range contains 0, the least magnitude is 0, not that of an end.
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


def divide(ranges: Ranges, op: hlo.DivideOp) -> Interval:
    """lhs / rhs, truncated towards 0.

    By 0, it is 0, as in the interpreter. The range of the type for an unbounded lhs.
    """
    x, y = ranges.of(op.lhs), ranges.of(op.rhs).hull
    if not x.is_bounded and not y.least <= -1 <= y.greatest:
        return type_interval(element_of(op.result))
    # The truncated quotient is monotone in the divisor on either side of 0.
    sides = [(y.least, min(y.greatest, -1)), (max(y.least, 1), y.greatest)]
    divisors = {n for low, high in sides if low <= high for n in (low, high)}
    found = [x.mapped(lambda bounds, n=n: np.sign(bounds) * (np.abs(bounds) // abs(n))) for n in divisors]
    signed = [-each if n < 0 else each for n, each in zip(divisors, found, strict=True)]
    return joined([*signed, *([Interval.of(0, 0)] if y.least <= 0 <= y.greatest else [])])


def remainder(ranges: Ranges, op: hlo.RemainderOp) -> Interval:
    """The remainder. It has the sign of lhs and a smaller magnitude than rhs. By 0, it is 0."""
    x, y = ranges.of(op.lhs), ranges.of(op.rhs).hull
    most = max(abs(y.least), abs(y.greatest)) - 1
    if y.least > 0 or y.greatest < 0:
        least = min(abs(y.least), abs(y.greatest))
        if x.within(1 - least, least - 1):
            return x
    return x.clamped(-max(most, 0), max(most, 0)).with_zero()


def power(ranges: Ranges, op: hlo.PowerOp) -> Interval:
    """lhs to the power of rhs. The bound is the greatest magnitude to the power of the greatest exponent, or 1."""
    x, exponents = ranges.of(op.lhs).hull, ranges.of(op.rhs).hull
    # Only 0, 1 and -1 have a 64th power in 64 bits, so greater exponents need no greater bound.
    most = max(1, max(abs(x.least), x.greatest) ** min(max(exponents.greatest, 0), 64))
    return Interval.of(0 if x.least >= 0 else -most, most)


def convert(ranges: Ranges, op: hlo.ConvertOp) -> Interval:
    """The range of the operand if that is an integer and fits the new type, or a float that is clamped to such a range.

    Otherwise it is the range of the type.
    """
    whole, is_integer = type_interval(element_of(op.result)), element_dtype(element_of(op.operand)).kind in "biu"
    source = ranges.of(op.operand) if is_integer else _clamped_floats(ranges, op.operand)
    return whole if source is None or not source.within(whole.least, whole.greatest) else source


def _clamped_floats(ranges: Ranges, value: SSAValue) -> Interval | None:
    """The integers to which clamped floats convert, rounded in any direction; None without constant bounds."""
    while isinstance(value.owner, _ROUNDING):
        value = value.owner.operands[0]
    if not isinstance(clamp := value.owner, hlo.ClampOp):
        return None
    low, high = ranges.splat(clamp.min), ranges.splat(clamp.max)
    if low is None or high is None or not (isfinite(low) and isfinite(high)):
        return None
    return Interval.of(floor(low), ceil(high)).with_zero()  # NaN, which a clamp passes on, converts to 0
