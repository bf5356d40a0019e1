"""`stablehlo.constant`."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant tensor. Of a quantized result type, `value` holds the storage integers."""

    name = "stablehlo.constant"
    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    output = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: DenseIntOrFPElementsAttr | DenseResourceAttr, result_type: Attribute | None = None):
        super().__init__(
            result_types=[value.get_type() if result_type is None else result_type], properties={"value": value}
        )
