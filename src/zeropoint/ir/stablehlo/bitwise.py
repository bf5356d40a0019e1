"""StableHLO ops on the bits of integers and booleans: logic, counts, shifts.

Source: the StableHLO specification; op and operand names are upstream's. `and` and `or` are in `elementwise`.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp
from zeropoint.ir.stablehlo.signatures import BITS, INTEGERS, Signature, elementwise


@irdl_op_definition
class XorOp(BinaryOp):
    """Bitwise or logical exclusive disjunction."""

    name = "stablehlo.xor"
    SIGNATURE: ClassVar[Signature] = elementwise(BITS)


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """The bits of `lhs` moved up by `rhs`; zeros come in."""

    name = "stablehlo.shift_left"
    SIGNATURE: ClassVar[Signature] = elementwise(INTEGERS)


@irdl_op_definition
class ShiftRightArithmeticOp(BinaryOp):
    """The bits of `lhs` moved down by `rhs`; copies of the sign bit come in."""

    name = "stablehlo.shift_right_arithmetic"
    SIGNATURE: ClassVar[Signature] = elementwise(INTEGERS)


@irdl_op_definition
class ShiftRightLogicalOp(BinaryOp):
    """The bits of `lhs` moved down by `rhs`; zeros come in."""

    name = "stablehlo.shift_right_logical"
    SIGNATURE: ClassVar[Signature] = elementwise(INTEGERS)


@irdl_op_definition
class NotOp(UnaryOp):
    """Bitwise or logical negation."""

    name = "stablehlo.not"
    SIGNATURE: ClassVar[Signature] = elementwise(BITS)


@irdl_op_definition
class PopcntOp(UnaryOp):
    """How many bits are set."""

    name = "stablehlo.popcnt"
    SIGNATURE: ClassVar[Signature] = elementwise(INTEGERS)


@irdl_op_definition
class CountLeadingZerosOp(UnaryOp):
    """How many bits above the highest set one are clear."""

    name = "stablehlo.count_leading_zeros"
    SIGNATURE: ClassVar[Signature] = elementwise(INTEGERS)


OPS = (XorOp, ShiftLeftOp, ShiftRightArithmeticOp, ShiftRightLogicalOp, NotOp, PopcntOp, CountLeadingZerosOp)
