"""Ops on the representation of numbers: parts of complex numbers, bitcasts, reduced precision.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, FunctionType, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType, assign_signature
from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    check_inferred,
    compatible_sizes,
)
from zeropoint.ir.stablehlo.elementwise import BinaryOp, UnaryOp
from zeropoint.ir.stablehlo.signatures import (
    ANY_OR_AXIS,
    FLOAT,
    FLOAT_OR_COMPLEX,
    REAL,
    OpSignature,
    SignatureOp,
    compatible_types,
    same_operand_elements,
    same_shape,
    same_shape_and_base,
)
from zeropoint.ir.tensors import element_of, real_element, shape_of, tensor_of, with_element
from zeropoint.numerics.rounding import INT32_MAX

_PART = TensorConstraint((ElementKind.PART,))
_COMPLEX = TensorConstraint((ElementKind.COMPLEX,))

_FORMAT = re.compile(r"e(\d+)m(\d+)")


def bit_width(element_type: Attribute) -> int:
    """The width of an element in bits: of both parts of a complex type, of the storage of a quantized type."""
    if isinstance(element_type, ComplexType):
        return 2 * bit_width(cast("ComplexType[Any]", element_type).element_type)
    if isinstance(element_type, UniformQuantizedType):
        return element_type.storage.type.width
    return int(cast("Any", element_type).bitwidth)


def check_bitcast_convert(operand: Attribute, result: Attribute) -> None:
    """Check the types of a bitcast_convert.

    If both element types have the same width but the shapes differ in rank, upstream ignores the last dimensions of the
    longer shape; this check does not.

    Raises VerifyException.
    """
    types = (operand, result)
    if isinstance(element_of(operand), ComplexType) != isinstance(element_of(result), ComplexType):  # (C2)
        raise VerifyException(f"cannot convert between real and complex types, but got: '{operand}' and '{result}'")
    smaller, larger = sorted(types, key=lambda found: bit_width(element_of(found)))
    widths = bit_width(element_of(smaller)), bit_width(element_of(larger))
    prefix, shape = shape_of(smaller), shape_of(larger)
    if widths[0] != widths[1]:  # (C1)
        if len(prefix) != len(shape) + 1:
            raise VerifyException(
                f"rank of smaller element type ({len(prefix)}) should be 1 more than rank of larger element type "
                f"({len(shape)}), but {len(prefix)} != {len(shape)} + 1."
            )
        *kept, count = prefix
        prefix = tuple(kept)
        if count != DYNAMIC_INDEX and count * widths[0] != widths[1]:
            raise VerifyException(
                f"requires compatible bit widths. Got: '{operand}' and '{result}', but {widths[0]} * {count} != "
                f"{widths[1]}."
            )
    alike = len(prefix) == len(shape) and all(map(compatible_sizes, prefix, shape))
    if not alike:
        raise VerifyException(
            "operand and result shapes must match except for the innermost dimension of the shape with the smaller "
            f"element type. Got: '{operand}' and '{result}'."
        )


class _PartOp(UnaryOp):
    def __init__(self, operand: SSAValue):
        super().__init__(operand, with_element(operand, real_element(element_of(operand))))

    def verify_(self) -> None:
        """Check the constraints: (C1) equal shapes, (C2) the element type of the parts."""
        super().verify_()
        check_inferred([(shape_of(self.operand), real_element(element_of(self.operand)))], self.result_types)


@irdl_op_definition
class RealOp(_PartOp):
    """The real part; for a real operand, the operand."""

    name = "stablehlo.real"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FLOAT_OR_COMPLEX,), FLOAT, (same_shape_and_base,))


@irdl_op_definition
class ImagOp(_PartOp):
    """The imaginary part; for a real operand, 0."""

    name = "stablehlo.imag"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FLOAT_OR_COMPLEX,), FLOAT, (same_shape_and_base,))


@irdl_custom_directive
class ComplexOpType(CustomDirective):
    """`tensor<2xcomplex<f32>>` if the operands have its shape and part type, otherwise `(types) -> type`."""

    lhs: TypeDirective
    rhs: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse either form."""
        position = parser.pos
        result: Attribute = parser.parse_type()
        if isinstance(result, FunctionType):
            assign_signature(parser, state, (self.lhs, self.rhs), self.result, result)
            return
        tensor = cast("TensorType[Attribute]", result) if isinstance(result, TensorType) else None
        if tensor is None or not isinstance(tensor.element_type, ComplexType):
            parser.raise_error("expected tensor with complex element type", position)
        part = with_element(tensor, real_element(element_of(tensor)))
        self.lhs.set(state, (part,))
        self.rhs.set(state, (part,))
        self.result.set(state, (tensor,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the short form if it is equivalent."""
        state.print_whitespace(printer)
        result = tensor_of(op.results[0])
        part = with_element(result, real_element(result.element_type))
        if all(found == part for found in op.operand_types):
            printer.print_attribute(result)
        else:
            printer.print_operation_type(op)


@irdl_op_definition
class ComplexOp(BinaryOp):
    """Complex numbers from real and imaginary parts."""

    name = "stablehlo.complex"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_PART,), _COMPLEX, (same_operand_elements, same_shape))
    custom_directives = (ComplexOpType,)
    assembly_format = "$lhs `,` $rhs attr-dict `:` custom<ComplexOpType>(type($lhs), type($rhs), type($result))"

    def __init__(self, lhs: SSAValue, rhs: SSAValue):
        super().__init__(lhs, rhs, with_element(lhs, ComplexType(cast("Any", element_of(lhs)))))

    def verify_(self) -> None:
        """Check the constraints of `complex`: (C1), (C2) by the signature, (C3) the element type."""
        super().verify_()
        element = ComplexType(cast("Any", element_of(self.lhs)))
        check_inferred([(shape_of(self.lhs), element)], self.result_types)


@irdl_op_definition
class BitcastConvertOp(SignatureOp):
    """The operand's bits as elements of another type; a narrower type adds a last dimension.

    ```mlir
    %0 = stablehlo.bitcast_convert %a : (tensor<f32>) -> tensor<4xui8>
    ```
    """

    name = "stablehlo.bitcast_convert"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), ANY_OR_AXIS)
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])

    def verify_(self) -> None:
        """Check the constraints of `bitcast_convert`."""
        super().verify_()
        check_bitcast_convert(self.operand.type, self.result.type)


@irdl_custom_directive
class ExponentMantissa(CustomDirective):
    """`e5m10`: the widths of the exponent and of the mantissa."""

    exponent_bits: AttributeVariable
    mantissa_bits: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the two widths."""
        position = parser.pos
        text = parser.parse_identifier()
        match = _FORMAT.fullmatch(text)
        if match is None:
            parser.raise_error(f"expected exponent mantissa in format e#m#, saw {text}", position)
        for name, digits, variable in (
            ("exponent", match[1], self.exponent_bits),
            ("mantissa", match[2], self.mantissa_bits),
        ):
            if int(digits) > INT32_MAX:
                parser.raise_error(f"unable to parse {name} '{digits}'", position)
            variable.set(state, IntegerAttr(int(digits), i32))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the two widths."""
        widths = [
            cast("IntegerAttr[Any]", found.get(op)).value.data for found in (self.exponent_bits, self.mantissa_bits)
        ]
        state.print_whitespace(printer)
        printer.print_string(f"e{widths[0]}m{widths[1]}")


@irdl_op_definition
class ReducePrecisionOp(SignatureOp):
    """The value rounded to a float format with `exponent_bits` and `mantissa_bits`, in the operand's type."""

    name = "stablehlo.reduce_precision"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((REAL,), REAL, (same_shape_and_base, compatible_types))
    operand = operand_def()
    output = result_def()
    exponent_bits = prop_def(IntegerAttr.constr(i32))
    mantissa_bits = prop_def(IntegerAttr.constr(i32))
    traits = traits_def(Pure())
    custom_directives = (ExponentMantissa, SameOperandsAndResultType)
    assembly_format = (
        "$operand `,` `format` `=` custom<ExponentMantissa>($exponent_bits, $mantissa_bits) attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type($output))"
    )

    def __init__(self, operand: SSAValue, exponent_bits: int, mantissa_bits: int):
        super().__init__(
            operands=[operand],
            result_types=[operand.type],
            properties={
                "exponent_bits": IntegerAttr(exponent_bits, i32),
                "mantissa_bits": IntegerAttr(mantissa_bits, i32),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `reduce_precision`: (C1) by the signature, (C2), (C3)."""
        for name, found, least, words in (
            ("exponent_bits", self.exponent_bits, 1, "positive"),
            ("mantissa_bits", self.mantissa_bits, 0, "non-negative"),
        ):
            if found.value.data < least:
                raise VerifyException(
                    f"attribute '{name}' failed to satisfy constraint: 32-bit signless integer attribute "
                    f"whose value is {words}"
                )
        super().verify_()


OPS = (RealOp, ImagOp, ComplexOp, BitcastConvertOp, ReducePrecisionOp)
