"""Shifts and bit counts, at the width of the element type and not of the dtype that holds it.

Source: the StableHLO specification. An i4 is held in an int8. So operands are masked to four bits first, and
`elementwise.wrapped` sign-extends the results again.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from zeropoint.interp.binding import Binary, Scope, Unary
from zeropoint.interp.elementwise import wrapped
from zeropoint.ir.stablehlo import (
    CountLeadingZerosOp,
    PopcntOp,
    ShiftLeftOp,
    ShiftRightArithmeticOp,
    ShiftRightLogicalOp,
)
from zeropoint.ir.tensors import Array, element_of


def _width(element_type: Attribute) -> int:
    return cast("IntegerType", element_type).width.data


def _bits(values: Array, width: int) -> Array:
    """The low `width` bits as uint64."""
    # Values of fewer bits are stored sign-extended. The mask keeps the bits of their own width.
    return values.astype(np.uint64) & np.uint64((1 << width) - 1)


def popcnt(op: PopcntOp, scope: Scope) -> Unary:
    """result = the number of set bits of operand (C1)."""
    element = element_of(op.operand)
    width = _width(element)

    def run(operand: Array) -> Array:
        return np.bitwise_count(_bits(operand, width)).astype(operand.dtype)

    return wrapped(run, element)


def count_leading_zeros(op: CountLeadingZerosOp, scope: Scope) -> Unary:
    """result = the number of zero bits above the highest set bit; the width for 0 (C1)."""
    element = element_of(op.operand)
    width = _width(element)

    def run(operand: Array) -> Array:
        filled = _bits(operand, width)
        # All bits below the highest set bit are set, so that the number of set bits is the position of the highest.
        for distance in (1, 2, 4, 8, 16, 32):
            filled = filled | (filled >> np.uint64(distance))
        return (width - np.bitwise_count(filled)).astype(operand.dtype)

    return wrapped(run, element)


def shift_left(op: ShiftLeftOp, scope: Scope) -> Binary:
    """result = lhs << rhs; 0 where rhs, as an unsigned integer, is at least the width (C1)."""
    return _shift(op, np.left_shift)


def shift_right_logical(op: ShiftRightLogicalOp, scope: Scope) -> Binary:
    """result = lhs >> rhs, both as unsigned integers; 0 where rhs is at least the width (C1)."""
    return _shift(op, np.right_shift)


def _shift(op: ShiftLeftOp | ShiftRightLogicalOp, shift: np.ufunc) -> Binary:
    element = element_of(op.result)
    width = _width(element)

    def run(lhs: Array, rhs: Array) -> Array:
        amount = _bits(rhs, width)
        # In StableHLO, a shift by the width or more shifts out all bits. In NumPy and C, it is undefined.
        inside = amount < np.uint64(width)
        moved = shift(_bits(lhs, width), np.where(inside, amount, np.uint64(0)))
        return np.where(inside, moved, np.uint64(0)).astype(lhs.dtype)

    return wrapped(run, element)


def shift_right_arithmetic(op: ShiftRightArithmeticOp, scope: Scope) -> Binary:
    """result = lhs >> rhs, filled with the sign bit; all sign bits where rhs is at least the width (C1)."""
    element = element_of(op.result)
    width = _width(element)

    def run(lhs: Array, rhs: Array) -> Array:
        spare = np.uint64(64 - width)
        # With the sign bit in bit 63, the shift right extends it.
        signed = (_bits(lhs, width) << spare).view(np.int64)
        # A shift by the width or more leaves the sign in every bit, like a shift by width - 1.
        amount = np.minimum(_bits(rhs, width), np.uint64(width - 1)).astype(np.int64)
        return (signed >> spare.astype(np.int64) >> amount).astype(lhs.dtype)

    return wrapped(run, element)
