"""`quant.qcast`, `quant.dcast`, `quant.scast`: between expressed, quantized and storage values.

Source: the "'quant' Dialect" document, section "Operations".
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


class _CastOp(IRDLOperation):
    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])


@irdl_op_definition
class QuantizeCastOp(_CastOp):
    """A floating-point value to a quantized one."""

    name = "quant.qcast"
    traits = traits_def(Pure())


@irdl_op_definition
class DequantizeCastOp(_CastOp):
    """A quantized value to the floating-point value that it expresses."""

    name = "quant.dcast"
    traits = traits_def(Pure())


@irdl_op_definition
class StorageCastOp(_CastOp):
    """A quantized value to its signless storage integer, or back; no data changes."""

    name = "quant.scast"
    traits = traits_def(Pure())
