"""Elementwise functions that StableHLO has no op for.

Source: upstream's op definitions of the chlo dialect; op and operand names are upstream's.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType
from zeropoint.ir.stablehlo.elementwise import UnaryOp
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function: `chlo.erf %x : tensor<4xf32> -> tensor<4xf32>`."""

    name = "chlo.erf"
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def verify_(self) -> None:
        """Check that the operand holds floats, and that the result is of its type."""
        if not isinstance(element_of(self.operand), AnyFloat):
            raise VerifyException(f"operand #0 must be a tensor of floats, but got '{self.operand.type}'")
        same = shape_of(self.operand) == shape_of(self.result) and element_of(self.operand) == element_of(self.result)
        if not same:
            raise VerifyException("requires the same type for all operands and results")
