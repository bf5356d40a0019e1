"""MLIR's tensor dialect: xDSL's, with a `reshape` that also takes and returns unranked and dynamic tensors.

Source: MLIR's "'tensor' Dialect" page, `tensor.reshape`; xDSL's op takes static shapes only.
"""

from __future__ import annotations

from xdsl.dialects import tensor as xdsl_tensor
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant.containers import element_or_self, is_tensor, ranked_shape


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """`tensor.reshape %x(%extents) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>`."""

    name = "tensor.reshape"
    source = operand_def()
    shape = operand_def()
    result = result_def()
    assembly_format = "attr-dict $source `(` $shape `)` `:` `(` type($source) `,` type($shape) `)` `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: SSAValue, result_type: Attribute):
        super().__init__(operands=[source, shape], result_types=[result_type])

    def verify_(self) -> None:
        if not is_tensor(self.source.type) or not is_tensor(self.result.type):
            raise VerifyException("'tensor.reshape' op takes and makes a tensor")
        if element_or_self(self.source.type) != element_or_self(self.result.type):
            raise VerifyException(
                "'tensor.reshape' op element types of source and destination tensor types should be the same"
            )
        extents = ranked_shape(self.shape.type)
        if extents is None or len(extents) != 1:
            raise VerifyException("'tensor.reshape' op shape operand must be a 1-D tensor")


Tensor = Dialect(
    "tensor",
    [op for op in xdsl_tensor.Tensor.operations if op.name != ReshapeOp.name] + [ReshapeOp],
    list(xdsl_tensor.Tensor.attributes),
)
