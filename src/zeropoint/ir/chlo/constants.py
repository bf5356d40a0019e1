"""Constants in the chlo dialect.

Source: upstream's op definitions; names are upstream's.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.constant import ConstantOp as StableHloConstantOp
from zeropoint.ir.stablehlo.elements import check_inferred
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class ConstantOp(StableHloConstantOp):
    """A constant tensor: `chlo.constant dense<0.000000e+00> : tensor<f32>`."""

    name = "chlo.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    output = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def verify_(self) -> None:
        """Check that the elements have the result's type."""
        value = self.value.get_type()
        check_inferred([(shape_of(value), element_of(value))], self.result_types)


@irdl_op_definition
class ConstantLikeOp(IRDLOperation):
    """A tensor of the operand's shape, filled with `value`."""

    name = "chlo.constant_like"
    operand = operand_def()
    result = result_def()
    value = prop_def(FloatAttr | IntegerAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Check that the result has the operand's shape and the value's type."""
        if element_of(self.result) != self.value.type:
            raise VerifyException("value's type doesn't match element return type")
        check_inferred([(shape_of(self.operand), self.value.type)], self.result_types)


OPS = (ConstantOp, ConstantLikeOp)
