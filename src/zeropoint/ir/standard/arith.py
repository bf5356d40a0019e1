"""MLIR's arith dialect: xDSL's, with `remf` and with casts between integers and floats that also take tensors.

Source: MLIR's "'arith' Dialect" page; xDSL's casts take scalars only.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith as xdsl_arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, VarConstraint, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import FORMATS
from zeropoint.ir.quant.containers import element_or_self, shapes_match


class _CastOp(IRDLOperation):
    """An elementwise cast: operand and result have the same shape."""

    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    def _verify_cast(self, float_side: Attribute, integer_side: Attribute) -> None:
        fits = type(element_or_self(float_side)) in FORMATS and isinstance(element_or_self(integer_side), IntegerType)
        if not fits or not shapes_match(float_side, integer_side):
            given, made = self.input.type, self.result.type
            raise VerifyException(
                f"'{self.name}' op operand type '{given}' and result type '{made}' are cast incompatible"
            )


class _FromFloatOp(_CastOp):
    def verify_(self) -> None:
        self._verify_cast(self.input.type, self.result.type)


class _ToFloatOp(_CastOp):
    def verify_(self) -> None:
        self._verify_cast(self.result.type, self.input.type)


@irdl_op_definition
class FPToSIOp(_FromFloatOp):
    """Floats to signed integers, truncated towards 0."""

    name = "arith.fptosi"
    traits = traits_def(Pure())


@irdl_op_definition
class FPToUIOp(_FromFloatOp):
    """Floats to unsigned integers, truncated towards 0."""

    name = "arith.fptoui"
    traits = traits_def(Pure())


@irdl_op_definition
class SIToFPOp(_ToFloatOp):
    """Signed integers to floats, rounded to nearest even."""

    name = "arith.sitofp"
    traits = traits_def(Pure())


@irdl_op_definition
class UIToFPOp(_ToFloatOp):
    """Unsigned integers to floats, rounded to nearest even."""

    name = "arith.uitofp"
    traits = traits_def(Pure())


@irdl_op_definition
class RemFOp(IRDLOperation):
    """The remainder of floats, with the sign of the dividend; xDSL has those of integers only."""

    name = "arith.remf"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])


_CASTS = (FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp)

Arith = Dialect(
    "arith",
    [op for op in xdsl_arith.Arith.operations if op.name not in {cast.name for cast in _CASTS}] + [*_CASTS, RemFOp],
    list(xdsl_arith.Arith.attributes),
)
