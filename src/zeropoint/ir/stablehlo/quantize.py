"""`uniform_quantize` and `uniform_dequantize`.

Source: the StableHLO specification. `uniform_quantize` of a quantized operand is a requantization.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType
from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint, check_inferred, quantized
from zeropoint.ir.stablehlo.signatures import FLOAT, OpSignature, SignatureOp, same_shape_and_base
from zeropoint.ir.tensors import element_of, shape_of, with_element

_QUANTIZED = TensorConstraint((ElementKind.PER_TENSOR, ElementKind.PER_AXIS))
_FLOAT_OR_QUANTIZED = TensorConstraint((ElementKind.FLOAT, ElementKind.PER_TENSOR, ElementKind.PER_AXIS))


@irdl_op_definition
class UniformQuantizeOp(SignatureOp):
    """Quantizes a float tensor, or requantizes a quantized one."""

    name = "stablehlo.uniform_quantize"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_FLOAT_OR_QUANTIZED,), _QUANTIZED, (same_shape_and_base,))
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = "$operand attr-dict `:` custom<SameOperandsAndResultType>(type(operands), type($result))"

    def __init__(self, operand: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])

    def verify_(self) -> None:
        """Check the constraints of `uniform_quantize`: operand and result have the same expressed type."""
        super().verify_()
        operand, result = element_of(self.operand), quantized(element_of(self.result))
        source = quantized(operand)
        expected = operand if source is None else source.expressed_type
        if result is not None and result.expressed_type != expected:
            raise VerifyException(
                f"Expressed type of result expected to be '{expected}', but got '{result.expressed_type}'"
            )


@irdl_op_definition
class UniformDequantizeOp(SignatureOp):
    """Dequantizes a quantized tensor."""

    name = "stablehlo.uniform_dequantize"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_QUANTIZED,), FLOAT, (same_shape_and_base,))
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

    def verify_(self) -> None:
        """Check that the result has the operand's expressed type."""
        super().verify_()
        source = element_of(self.operand)
        assert isinstance(source, UniformQuantizedType)
        check_inferred([(shape_of(self.operand), source.expressed_type)], self.result_types)


OPS = (UniformQuantizeOp, UniformDequantizeOp)
