"""Real functions of StableHLO that are rare in exported models: roots, angles, rounding, remainder.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp
from zeropoint.ir.stablehlo.signatures import (
    FUNCTION,
    NUMBER,
    PREDICATE,
    REAL,
    OpSignature,
    SignatureOp,
    elementwise,
    same_shape,
)
from zeropoint.ir.tensors import with_element


@irdl_op_definition
class Atan2Op(BinaryOp):
    """The angle of the point (`rhs`, `lhs`)."""

    name = "stablehlo.atan2"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class RemainderOp(BinaryOp):
    """The remainder of division, with the sign of the dividend."""

    name = "stablehlo.remainder"
    SIGNATURE: ClassVar[OpSignature] = elementwise(NUMBER)


@irdl_op_definition
class CbrtOp(UnaryOp):
    """The cube root."""

    name = "stablehlo.cbrt"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class RoundNearestAfzOp(UnaryOp):
    """The nearest integer, ties away from zero."""

    name = "stablehlo.round_nearest_afz"
    SIGNATURE: ClassVar[OpSignature] = elementwise(REAL)


@irdl_op_definition
class RoundNearestEvenOp(UnaryOp):
    """The nearest integer, ties to even."""

    name = "stablehlo.round_nearest_even"
    SIGNATURE: ClassVar[OpSignature] = elementwise(REAL)


@irdl_op_definition
class TanOp(UnaryOp):
    """The tangent."""

    name = "stablehlo.tan"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FUNCTION)


@irdl_op_definition
class IsFiniteOp(SignatureOp):
    """An i1 tensor: whether the value is neither infinite nor NaN."""

    name = "stablehlo.is_finite"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((REAL,), PREDICATE, (same_shape,))
    x = operand_def()
    y = result_def()
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue):
        super().__init__(operands=[x], result_types=[with_element(x, i1)])


OPS = (Atan2Op, RemainderOp, CbrtOp, RoundNearestAfzOp, RoundNearestEvenOp, TanOp, IsFiniteOp)
