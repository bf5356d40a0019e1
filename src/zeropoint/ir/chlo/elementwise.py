"""Elementwise functions that StableHLO has no op for.

Source: upstream's op definitions of the chlo dialect; op names, operand names and error messages are upstream's.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint
from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp
from zeropoint.ir.stablehlo.signatures import OpSignature, elementwise
from zeropoint.ir.tensors import shape_of, with_element

FLOAT = TensorConstraint((ElementKind.FLOAT,), "tensor")
INTEGER = TensorConstraint((ElementKind.INTEGER,), "tensor")
FLOAT_OR_COMPLEX = TensorConstraint((ElementKind.FLOAT, ElementKind.COMPLEX), "tensor")


class FunctionOp(UnaryOp):
    """A unary function: `chlo.erf %x : tensor<4xf32> -> tensor<4xf32>`."""

    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT)
    custom_directives = ()
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"


@irdl_op_definition
class AcosOp(FunctionOp):
    """The angle whose cosine is the operand."""

    name = "chlo.acos"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class AcoshOp(FunctionOp):
    """The number whose hyperbolic cosine is the operand."""

    name = "chlo.acosh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class AsinOp(FunctionOp):
    """The angle whose sine is the operand."""

    name = "chlo.asin"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class AsinhOp(FunctionOp):
    """The number whose hyperbolic sine is the operand."""

    name = "chlo.asinh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class AtanOp(FunctionOp):
    """The angle whose tangent is the operand."""

    name = "chlo.atan"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class AtanhOp(FunctionOp):
    """The number whose hyperbolic tangent is the operand."""

    name = "chlo.atanh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class ConjOp(FunctionOp):
    """The complex conjugate; real numbers are unchanged."""

    name = "chlo.conj"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class CoshOp(FunctionOp):
    """The hyperbolic cosine."""

    name = "chlo.cosh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class DigammaOp(FunctionOp):
    """The derivative of `lgamma`."""

    name = "chlo.digamma"


@irdl_op_definition
class ErfInvOp(FunctionOp):
    """The number whose error function is the operand."""

    name = "chlo.erf_inv"


@irdl_op_definition
class ErfOp(FunctionOp):
    """The error function."""

    name = "chlo.erf"


@irdl_op_definition
class ErfcOp(FunctionOp):
    """One minus the error function."""

    name = "chlo.erfc"


@irdl_op_definition
class LgammaOp(FunctionOp):
    """The logarithm of the magnitude of the gamma function."""

    name = "chlo.lgamma"


@irdl_op_definition
class SinhOp(FunctionOp):
    """The hyperbolic sine."""

    name = "chlo.sinh"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class SquareOp(FunctionOp):
    """The square."""

    name = "chlo.square"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


@irdl_op_definition
class TanOp(FunctionOp):
    """The tangent."""

    name = "chlo.tan"
    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT_OR_COMPLEX)


class PredicateOp(IRDLOperation):
    """An elementwise predicate: `chlo.is_inf %x : tensor<4xf32> -> tensor<4xi1>`."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[with_element(operand, i1)])

    def verify_(self) -> None:
        """Check the element types, and that the shapes agree."""
        FLOAT.check(self.operand.type, "operand #0")
        TensorConstraint((ElementKind.BOOL,), "tensor").check(self.result.type, "result #0")
        if shape_of(self.operand) != shape_of(self.result):
            raise VerifyException("all non-scalar operands/results must have the same shape and base type")


@irdl_op_definition
class IsInfOp(PredicateOp):
    """Whether the number is infinite."""

    name = "chlo.is_inf"


@irdl_op_definition
class IsNegInfOp(PredicateOp):
    """Whether the number is minus infinity."""

    name = "chlo.is_neg_inf"


@irdl_op_definition
class IsPosInfOp(PredicateOp):
    """Whether the number is plus infinity."""

    name = "chlo.is_pos_inf"


class _SameTypeOp(BinaryOp):
    """A binary function on one type: `chlo.mulhi %x, %y : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>`."""

    SIGNATURE: ClassVar[OpSignature] = elementwise(FLOAT)
    custom_directives = ()
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"


@irdl_op_definition
class MulhiOp(_SameTypeOp):
    """The upper half of the double-width product of two integers."""

    name = "chlo.mulhi"
    SIGNATURE: ClassVar[OpSignature] = elementwise(INTEGER)


@irdl_op_definition
class NextAfterOp(_SameTypeOp):
    """The float next to `lhs` in the direction of `rhs`."""

    name = "chlo.next_after"


OPS = (
    AcosOp,
    AcoshOp,
    AsinOp,
    AsinhOp,
    AtanOp,
    AtanhOp,
    ConjOp,
    CoshOp,
    DigammaOp,
    ErfInvOp,
    ErfOp,
    ErfcOp,
    LgammaOp,
    SinhOp,
    SquareOp,
    TanOp,
    IsInfOp,
    IsNegInfOp,
    IsPosInfOp,
    MulhiOp,
    NextAfterOp,
)
