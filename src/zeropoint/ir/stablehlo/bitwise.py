"""Bitwise StableHLO ops on integers and booleans: logic, counts, shifts.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp
from zeropoint.ir.stablehlo.signatures import BITS, INTEGERS, OpSignature, elementwise


@irdl_op_definition
class AndOp(BinaryOp):
    """Bitwise or logical and."""

    name = "stablehlo.and"
    SIGNATURE: ClassVar[OpSignature] = elementwise(BITS)


@irdl_op_definition
class OrOp(BinaryOp):
    """Bitwise or logical or."""

    name = "stablehlo.or"
    SIGNATURE: ClassVar[OpSignature] = elementwise(BITS)


@irdl_op_definition
class XorOp(BinaryOp):
    """Bitwise or logical exclusive or."""

    name = "stablehlo.xor"
    SIGNATURE: ClassVar[OpSignature] = elementwise(BITS)


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """`lhs` shifted left by `rhs` bits, filled with zeros."""

    name = "stablehlo.shift_left"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGERS)


@irdl_op_definition
class ShiftRightArithmeticOp(BinaryOp):
    """`lhs` shifted right by `rhs` bits, filled with the sign bit."""

    name = "stablehlo.shift_right_arithmetic"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGERS)


@irdl_op_definition
class ShiftRightLogicalOp(BinaryOp):
    """`lhs` shifted right by `rhs` bits, filled with zeros."""

    name = "stablehlo.shift_right_logical"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGERS)


@irdl_op_definition
class NotOp(UnaryOp):
    """Bitwise or logical negation."""

    name = "stablehlo.not"
    SIGNATURE: ClassVar[OpSignature] = elementwise(BITS)


@irdl_op_definition
class PopcntOp(UnaryOp):
    """The number of set bits."""

    name = "stablehlo.popcnt"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGERS)


@irdl_op_definition
class CountLeadingZerosOp(UnaryOp):
    """The number of zero bits above the highest set bit."""

    name = "stablehlo.count_leading_zeros"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGERS)


OPS = (
    AndOp,
    OrOp,
    XorOp,
    ShiftLeftOp,
    ShiftRightArithmeticOp,
    ShiftRightLogicalOp,
    NotOp,
    PopcntOp,
    CountLeadingZerosOp,
)
