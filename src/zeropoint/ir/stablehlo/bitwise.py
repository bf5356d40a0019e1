"""StableHLO ops on the bits of integers and booleans: logic, counts, shifts.

Source: the StableHLO specification; op and operand names are upstream's. `and` and `or` are in `elementwise`.
"""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp


@irdl_op_definition
class XorOp(BinaryOp):
    """Bitwise or logical exclusive disjunction."""

    name = "stablehlo.xor"


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """The bits of `lhs` moved up by `rhs`; zeros come in."""

    name = "stablehlo.shift_left"


@irdl_op_definition
class ShiftRightArithmeticOp(BinaryOp):
    """The bits of `lhs` moved down by `rhs`; copies of the sign bit come in."""

    name = "stablehlo.shift_right_arithmetic"


@irdl_op_definition
class ShiftRightLogicalOp(BinaryOp):
    """The bits of `lhs` moved down by `rhs`; zeros come in."""

    name = "stablehlo.shift_right_logical"


@irdl_op_definition
class NotOp(UnaryOp):
    """Bitwise or logical negation."""

    name = "stablehlo.not"


@irdl_op_definition
class PopcntOp(UnaryOp):
    """How many bits are set."""

    name = "stablehlo.popcnt"


@irdl_op_definition
class CountLeadingZerosOp(UnaryOp):
    """How many bits above the highest set one are clear."""

    name = "stablehlo.count_leading_zeros"
