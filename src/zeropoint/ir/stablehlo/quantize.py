"""`uniform_quantize` and `uniform_dequantize`.

Source: the StableHLO specification. `uniform_quantize` of a quantized operand is a requantization.
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType
from zeropoint.ir.tensors import element_of, with_element


@irdl_op_definition
class UniformQuantizeOp(IRDLOperation):
    """A float or quantized tensor to a quantized one."""

    name = "stablehlo.uniform_quantize"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, operand: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])


@irdl_op_definition
class UniformDequantizeOp(IRDLOperation):
    """A quantized tensor to the float tensor that it expresses."""

    name = "stablehlo.uniform_dequantize"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, operand: SSAValue):
        element = element_of(operand)
        assert isinstance(element, UniformQuantizedType)
        result = with_element(operand, element.expressed_type)
        super().__init__(operands=[operand], result_types=[result])
