"""`stablehlo.constant`."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, DictionaryAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import (
    ElementKind,
    TensorConstraint,
    check_inferred,
    compatible_shapes,
    quantized,
    types_text,
)
from zeropoint.ir.stablehlo.signatures import EVERY_KIND, OpSignature, SignatureOp
from zeropoint.ir.tensors import element_of, shape_of

_STATIC = TensorConstraint(
    (*EVERY_KIND, ElementKind.PER_TENSOR, ElementKind.PER_AXIS), "statically shaped tensor", is_static=True
)


@irdl_op_definition
class ConstantOp(SignatureOp):
    """A constant tensor. If the result type is quantized, `value` holds the storage integers.

    ```mlir
    %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>
    ```
    """

    name = "stablehlo.constant"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((), _STATIC)
    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    output = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: DenseIntOrFPElementsAttr | DenseResourceAttr, result_type: Attribute | None = None):
        super().__init__(
            result_types=[value.get_type() if result_type is None else result_type], properties={"value": value}
        )

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        """Parse `attr-dict? elements`, or the generic form if result and elements have different types."""
        if parser.parse_optional_punctuation("("):
            parser.parse_punctuation(")")
            properties = parser.parse_optional_properties_dict()
            attributes = parser.parse_optional_attr_dict()
            properties |= {name: attributes.pop(name) for name in ("value",) if name in attributes}
            parser.parse_punctuation(":")
            results = parser.parse_function_type().outputs.data
        else:
            attributes = parser.parse_optional_attr_dict()
            value = parser.parse_attribute()
            properties = {"value": value}
            if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
                parser.raise_error("expected dense elements")
            results = (value.get_type(),)
        return cls.create(properties=properties, attributes=attributes, result_types=results)

    def print(self, printer: Printer) -> None:
        """Print the short form if the elements have the result's type."""
        if self.value.get_type() != self.output.type:
            printer.print_op_with_default_format(self)
            return
        if self.attributes:
            printer.print_string(" ")
            printer.print_attribute(DictionaryAttr(self.attributes))
        printer.print_string(" ")
        printer.print_attribute(self.value)

    def verify_(self) -> None:
        """Check that the elements have the result's type or, if that is quantized, its signless storage type."""
        super().verify_()
        value = self.value.get_type()
        result = quantized(element_of(self.output))
        if result is None:
            check_inferred([(shape_of(value), element_of(value))], self.result_types)
            return
        stored = element_of(value) == IntegerType(result.storage.type.width)
        if not stored or not compatible_shapes(shape_of(value), shape_of(self.output)):
            raise VerifyException(
                f"inferred type(s) {types_text([value])} are incompatible with return type(s) of operation "
                f"{types_text(self.result_types)}"
            )


OPS = (ConstantOp,)
