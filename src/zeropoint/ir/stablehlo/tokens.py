"""Values that are not tensors: tokens, and tuples of values.

Source: the StableHLO specification, "Types", "after_all", "tuple", "get_tuple_element", "optimization_barrier".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import FunctionType, IntegerAttr, TupleType, i32
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.assembly import parse_operands, print_operands
from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint, compatible_types, types_text
from zeropoint.ir.stablehlo.signatures import EVERY_KIND, OpSignature, SignatureOp

_KEPT = TensorConstraint((*EVERY_KIND, ElementKind.PER_TENSOR), "variadic of ranked tensor", or_token=True)


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`!stablehlo.token`: orders ops with side effects; it carries no data."""

    name = "stablehlo.token"


@irdl_op_definition
class AfterAllOp(IRDLOperation):
    """A token that depends on all given tokens."""

    name = "stablehlo.after_all"
    inputs = var_operand_def(TokenType)
    result = result_def(TokenType)
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue]):
        super().__init__(operands=[inputs], result_types=[TokenType()])

    @classmethod
    def parse(cls, parser: Parser) -> AfterAllOp:
        """Parse `%a, %b : !stablehlo.token`; the type holds for all operands and the result."""
        operands = parse_operands(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        found = parser.parse_type()
        values = parser.resolve_operands(operands, [found] * len(operands), position)
        return cls.create(operands=values, result_types=[found], attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%a, %b : !stablehlo.token`."""
        print_operands(printer, self.inputs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class OptimizationBarrierOp(SignatureOp):
    """Returns the operands. Ops that produce them are not moved across the barrier."""

    name = "stablehlo.optimization_barrier"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((_KEPT,), _KEPT)
    inputs = var_operand_def()
    results_ = var_result_def()
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue]):
        super().__init__(operands=[inputs], result_types=[[value.type for value in inputs]])

    @classmethod
    def parse(cls, parser: Parser) -> OptimizationBarrierOp:
        """Parse `%a, %b : type, type`, or `()` if there is nothing."""
        attributes = parser.parse_optional_attr_dict()
        if parser.parse_optional_punctuation("("):
            parser.parse_punctuation(")")
            return cls.create(operands=[], result_types=[], attributes=attributes)
        operands = parse_operands(parser)
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        results = types
        if len(types) == 1 and isinstance(types[0], FunctionType):
            types, results = list(types[0].inputs), list(types[0].outputs)
        values = parser.resolve_operands(operands, types, position)
        return cls.create(operands=values, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%a, %b : type, type`, or `()` if there is nothing."""
        printer.print_op_attributes(self.attributes)
        if not self.inputs:
            printer.print_string("()")
            return
        print_operands(printer, self.inputs)
        printer.print_string(" : ")
        if self.operand_types == self.result_types:
            printer.print_list(self.operand_types, printer.print_attribute)
        else:
            printer.print_operation_type(self)

    def verify_(self) -> None:
        """C1: every result has the type of its operand."""
        super().verify_()
        if len(self.inputs) != len(self.results_):
            raise VerifyException("requires the same number of operands and results")
        for index, (operand, result) in enumerate(zip(self.operand_types, self.result_types, strict=True)):
            if operand != result:
                raise VerifyException(f"requires the same type for operand and result at index {index}")


@irdl_op_definition
class TupleOp(IRDLOperation):
    """A tuple of values."""

    name = "stablehlo.tuple"
    inputs = var_operand_def()
    result = result_def(TupleType)
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue]):
        super().__init__(operands=[inputs], result_types=[tuple_type([value.type for value in inputs])])

    @classmethod
    def parse(cls, parser: Parser) -> TupleOp:
        """Parse `%a, %b : tuple<type, type>`."""
        operands = parse_operands(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        found = parser.parse_type()
        types, results = (), [found]
        if isinstance(found, TupleType):
            types = element_types(found)
        elif isinstance(found, FunctionType):
            types, results = tuple(found.inputs), list(found.outputs)
        else:
            parser.raise_error("expected tuple type", position)
        values = parser.resolve_operands(operands, types, position)
        return cls.create(operands=values, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%a, %b : tuple<type, type>`."""
        print_operands(printer, self.inputs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.result.type == tuple_type(self.operand_types):
            printer.print_attribute(self.result.type)
        else:
            printer.print_operation_type(self)

    def verify_(self) -> None:
        """C1: the result's type is the tuple of the operands' types."""
        expected = tuple_type(self.operand_types)
        if not compatible_types([expected], [self.result.type]):
            raise VerifyException(
                f"inferred type(s) {types_text([expected])} are incompatible with return type(s) of operation "
                f"{types_text(self.result_types)}"
            )


@irdl_op_definition
class GetTupleElementOp(IRDLOperation):
    """One element of a tuple."""

    name = "stablehlo.get_tuple_element"
    operand = operand_def(TupleType)
    result = result_def()
    index = prop_def(IntegerAttr.constr(i32))
    traits = traits_def(Pure())
    assembly_format = "$operand `[` $index `]` attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, index: int):
        found = element_types(cast("TupleType", operand.type))[index]
        super().__init__(operands=[operand], result_types=[found], properties={"index": IntegerAttr(index, i32)})

    def verify_(self) -> None:
        """C1 and C2: the index is in range, and the result has that element's type."""
        types, index = element_types(cast("TupleType", self.operand.type)), position_of(self)
        if not 0 <= index < len(types):
            raise VerifyException(f"index {index} is out of bounds of operand with size {len(types)}")
        if not compatible_types([types[index]], list(self.result_types)):
            raise VerifyException(
                f"inferred type(s) {types_text([types[index]])} are incompatible with return type(s) of operation "
                f"{types_text(self.result_types)}"
            )


def tuple_type(types: Sequence[Attribute]) -> TupleType:
    """`tuple<...>` of the given types."""
    return TupleType(cast("Any", tuple(types)))


def element_types(found: TupleType) -> tuple[Attribute, ...]:
    """The types in a tuple type."""
    return tuple(found.types)


def position_of(op: GetTupleElementOp) -> int:
    """The index of the element that the op extracts."""
    return int(op.index.value.data)


OPS = (AfterAllOp, OptimizationBarrierOp, TupleOp, GetTupleElementOp)
