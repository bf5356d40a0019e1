"""A bound on rows of integers that are multiplied by a constant over half of their range.

The rule for a product does not know that the factors depend on each other. With low <= v <= high for the elements v of
a row, m = (low + high) >> 1, A = max(high - m, 1) and a constant C >= 0, |v - m| is at most high - m, because m - low
is. So |(v - m) (C / A)| <= C. The ops are those that `lower/row_scales.py` emits.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of
from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.interval import Interval

OpT = TypeVar("OpT", bound=Operation)


class _OtherError(Exception):
    """A value is computed in another way."""


def row_product(ranges: Ranges, op: hlo.MultiplyOp) -> Interval | None:
    """The range of (v - m) (C / A) for a product of this form; None for other products."""
    try:
        constant = _constant(ranges, op)
    except _OtherError:
        return None
    return Interval.of(-constant, constant)


def _constant(ranges: Ranges, op: hlo.MultiplyOp) -> int:
    """C. Raises _OtherError for products of another form."""
    factor, distance = _made_by(op.rhs, hlo.BroadcastInDimOp), _made_by(op.lhs, hlo.SubtractOp)
    quotient, v = _made_by(factor.operand, hlo.DivideOp), distance.lhs
    constant, least = ranges.of(quotient.lhs), _made_by(quotient.rhs, hlo.MaximumOp)
    reach, middle = _made_by(least.lhs, hlo.SubtractOp), _made_by(distance.rhs, hlo.BroadcastInDimOp)
    half = _made_by(middle.operand, hlo.ShiftRightArithmeticOp)
    total = _made_by(half.lhs, hlo.AddOp)
    low, high = (_made_by(end, hlo.ReduceOp) for end in (total.lhs, total.rhs))
    kept = _kept(high, hlo.MaximumOp, v)
    known = (
        _kept(low, hlo.MinimumOp, v) == kept
        and all(array_values(each.broadcast_dimensions) == kept for each in (factor, middle))
        and reach.lhs is total.rhs
        and reach.rhs is middle.operand
        and ranges.splat(half.rhs) == 1
        # The sum of both ends must not wrap around.
        and all(ranges.of(end).fits(31) for end in (total.lhs, total.rhs))
        and ranges.of(least.rhs).least >= 1
        and constant.least >= 0
    )
    if not known:
        raise _OtherError
    return constant.greatest


def _made_by(value: SSAValue, kind: type[OpT]) -> OpT:
    op = defining_op(value)
    if not isinstance(op, kind):
        raise _OtherError
    return op


def _kept(op: hlo.ReduceOp, combine: type[Operation], v: SSAValue) -> tuple[int, ...]:
    """The dimensions of v that its reduction by `combine` keeps."""
    if len(op.results) != 1 or op.inputs[0] is not v or body_op(op.body) is not combine:
        raise _OtherError
    axes = array_values(op.dimensions)
    return tuple(dimension for dimension in range(len(shape_of(v))) if dimension not in axes)
