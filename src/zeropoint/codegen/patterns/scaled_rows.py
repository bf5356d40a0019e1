"""Accumulators that are multiplied by a number of their row, from the ops of `lower/row_scales.py`.

%s = shift_right_arithmetic (add %acc, starts), N          the shifts are optional; starts include 2^(N-1)
%t = multiply %s, minimum(broadcast of %greatest, G)       one i32 a row
%r = shift_right_arithmetic (add %t, 2^(m-1)), m
%m = clamp (broadcast of %middle) to LOW..HIGH             one i32 a row
%y = add %r, (multiply %m, totals)                         totals: one a channel; the match starts here, backwards
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.values import Values
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    MinimumOp,
    MultiplyOp,
    ShiftRightArithmeticOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range


@dataclass(frozen=True, eq=False)
class RowFactor:
    """The factor of each row, at most `greatest`, and the number of each row, in `bounds`, that is multiplied by
    `totals`; the two shifts, and the biases that are added at the end."""

    numbers: SSAValue
    greatest: int
    middles: SSAValue
    bounds: tuple[int, int]
    totals: IntArray
    shifts: tuple[int, int]
    bias: IntArray

    @property
    def short(self) -> bool:
        """Whether the numbers in `bounds` and `totals` have 16 bits."""
        low, high = signed_range(16)
        ends = (*self.bounds, int(self.totals.min()), int(self.totals.max()))
        return low <= min(ends) and max(ends) <= high

    def reach(self, sums: IntArray) -> IntArray:
        """An upper bound on |result| of each channel, given one on its |sum|. The program's products fit i32."""
        product = np.minimum(((sums >> self.shifts[0]) + 1) * self.greatest, INT32_MAX)
        middle = max(map(abs, self.bounds))
        return (product >> self.shifts[1]) + 1 + np.abs(self.totals) * middle + np.abs(self.bias)


def row_factor(values: Values, value: SSAValue) -> tuple[SSAValue, RowFactor] | None:
    """What is multiplied, before its first shift, and the factor; None for other values. `value` has no bias."""
    total = defining_op(value)
    added = defining_op(total.rhs) if isinstance(total, AddOp) else None
    if not isinstance(total, AddOp) or not isinstance(added, MultiplyOp):
        return None
    value, last = _rounded(values, total.lhs)
    product = defining_op(value)
    if last is None or not isinstance(product, MultiplyOp) or element_dtype(element_of(value)) != np.int32:
        return None
    totals, middles, numbers = _of_channels(values, added.rhs), defining_op(added.lhs), defining_op(product.rhs)
    if totals is None or not isinstance(middles, ClampOp) or not isinstance(numbers, MinimumOp):
        return None
    limits = [values.splat(bound) for bound in (middles.min, middles.max, numbers.rhs)]
    rows = [_of_rows(each) for each in (middles.operand, numbers.lhs)]
    first = defining_op(product.lhs)
    bits = values.splat(first.rhs) if isinstance(first, ShiftRightArithmeticOp) else 0
    if bits is None or not 0 <= bits < 32 or rows[0] is None or rows[1] is None:
        return None
    low, high, greatest = (0 if limit is None else int(limit) for limit in limits)
    if None in limits or greatest < 0:
        return None
    given = first.lhs if isinstance(first, ShiftRightArithmeticOp) else product.lhs
    none = np.zeros(1, np.int64)
    return given, RowFactor(rows[1], greatest, rows[0], (low, high), totals, (int(bits), last), none)


def _of_rows(value: SSAValue) -> SSAValue | None:
    """The numbers of rows that a value repeats along its last dimension; None for other values."""
    every, shape = defining_op(value), shape_of(value)
    if not isinstance(every, BroadcastInDimOp) or len(shape) < 2 or shape_of(every.operand) != shape[:-1]:
        return None
    return every.operand if array_values(every.broadcast_dimensions) == tuple(range(len(shape) - 1)) else None


def _of_channels(values: Values, value: SSAValue) -> IntArray | None:
    """The constants along its last dimension that a value repeats; None for other values."""
    every = defining_op(value)
    along = (len(shape_of(value)) - 1,)
    if not isinstance(every, BroadcastInDimOp) or array_values(every.broadcast_dimensions) != along:
        return None
    found = values.constant(every.operand)
    return None if found is None else found.astype(np.int64)


def _rounded(values: Values, value: SSAValue) -> tuple[SSAValue, int | None]:
    """The x of (x + 2^(m-1)) >> m, and m; 0 for x itself, and None for another term that is added."""
    shifted = defining_op(value)
    if not isinstance(shifted, ShiftRightArithmeticOp):
        return value, 0
    bits, added = values.splat(shifted.rhs), defining_op(shifted.lhs)
    if bits is None or not 0 < bits < 32 or not isinstance(added, AddOp):
        return value, None
    return added.lhs, int(bits) if values.splat(added.rhs) == 1 << (int(bits) - 1) else None
