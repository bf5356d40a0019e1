"""Custom directives for op syntax that a declarative assembly format cannot express. The ops define their formats.

Source: the text that upstream StableHLO prints. The directives have the names that upstream's formats use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, FunctionType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from zeropoint.ir.stablehlo import syntax
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.attributes import (
    ConvDimensionNumbersAttr,
    DotDimensionNumbersAttr,
    DotDimensions,
)


def parse_integers(parser: Parser) -> list[int]:
    """`[1, -2]`."""
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))


def integers_text(values: Sequence[int]) -> str:
    """The inverse of `parse_integers`."""
    return f"[{', '.join(map(str, values))}]"


def parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    """`%a, %b`, or nothing."""
    first = parser.parse_optional_unresolved_operand()
    if first is None:
        return []
    operands = [first]
    while parser.parse_optional_punctuation(","):
        operands.append(parser.parse_unresolved_operand())
    return operands


def print_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    """The inverse of `parse_operands`, with a leading space."""
    printer.print_string(" ")
    printer.print_list(operands, printer.print_operand)


def _print(printer: Printer, state: PrintingState, text: str) -> None:
    state.print_whitespace(printer)
    printer.print_string(text)


def assign_signature(
    parser: Parser, state: ParsingState, operands: Sequence[TypeDirective], result: TypeDirective, found: FunctionType
) -> None:
    """Assign the types of a signature to the operands and the result."""
    if len(found.inputs) != len(operands):
        parser.raise_error(f"{len(operands)} operands present, but expected {len(found.inputs)}")
    if len(found.outputs) != 1:
        parser.raise_error("expected single output")
    for operand, operand_type in zip(operands, found.inputs, strict=True):
        operand.set(state, (operand_type,))
    result.set(state, found.outputs.data)


@irdl_custom_directive
class SameOperandsAndResultType(CustomDirective):
    """`type` if all operands and the result have that type, otherwise `(types) -> type`."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse either form."""
        found = parser.parse_type()
        count = sum(len(operand or ()) for operand in state.operands)
        if not isinstance(found, FunctionType):
            self.operands.set(state, (found,) * count)
            self.result.set(state, (found,))
            return
        if len(found.inputs) != count:
            parser.raise_error(f"{count} operands present, but expected {len(found.inputs)}")
        if len(found.outputs) != 1:
            parser.raise_error("expected single output")
        self.operands.set(state, found.inputs.data)
        self.result.set(state, found.outputs.data)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the short form if it is equivalent."""
        state.print_whitespace(printer)
        (result,) = op.result_types
        if all(operand == result for operand in op.operand_types):
            printer.print_attribute(result)
        else:
            printer.print_operation_type(op)


@irdl_custom_directive
class SelectOpType(CustomDirective):
    """`pred-type, type` if both branches and the result have type `type`, otherwise `(types) -> type`."""

    pred: TypeDirective
    on_true: TypeDirective
    on_false: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse either form."""
        first = parser.parse_type()
        if isinstance(first, FunctionType):
            assign_signature(parser, state, (self.pred, self.on_true, self.on_false), self.result, first)
            return
        parser.parse_punctuation(",", ": expected functional type or list of two types")
        second = parser.parse_type()
        self.pred.set(state, (first,))
        for directive in (self.on_true, self.on_false, self.result):
            directive.set(state, (second,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the short form if it is equivalent."""
        state.print_whitespace(printer)
        pred, on_true, on_false = op.operand_types
        (result,) = op.result_types
        if on_true == result and on_false == result:
            printer.print_list((pred, result), printer.print_attribute)
        else:
            printer.print_operation_type(op)


@irdl_custom_directive
class VariadicOperandWithAttribute(CustomDirective):
    """`%a, %b,`: every operand is followed by a comma."""

    operands: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse operands, each with its comma, until the next token is not an operand."""
        found: list[UnresolvedOperand] = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            found.append(operand)
            parser.parse_punctuation(",")
        self.operands.set(state, found)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the operands, each with its comma. (Without operands, upstream prints a comma that it cannot parse.)"""
        self.operands.print(printer, state, op)
        if self.operands.get(op):
            printer.print_string(",")


@irdl_custom_directive
class ConvolutionDimensions(CustomDirective):
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`."""

    dimension_numbers: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the three lists."""
        self.dimension_numbers.set(state, ConvDimensionNumbersAttr(syntax.parse_convolution_layout(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the three lists."""
        attribute = self.dimension_numbers.get(op)
        assert isinstance(attribute, ConvDimensionNumbersAttr)
        state.print_whitespace(printer)
        syntax.print_convolution_layout(printer, attribute.data)


def _parse_padding(parser: Parser) -> DenseIntOrFPElementsAttr:
    position = parser.pos
    pairs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_integers(parser))
    for pair in pairs:
        if len(pair) != 2:
            parser.raise_error(f"Expected array with 2 elements, got {len(pair)} elements instead", position)
    return padding_attribute([(low, high) for low, high in pairs])


def _parse_reversal(parser: Parser) -> DenseArrayBase:
    values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return DenseArrayBase.from_list(i1, [bool(value) for value in values])


def _window_text(attribute: Attribute) -> str:
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        pairs = padding_values(cast("DenseIntOrFPElementsAttr[Any]", attribute), 0)
        return f"[{', '.join(map(integers_text, pairs))}]"
    array = cast("DenseArrayBase[Any]", attribute)
    values = array_values(array)
    if array.elt_type == i1:
        return f"[{', '.join('true' if value else 'false' for value in values)}]"
    return integers_text(values)


@irdl_custom_directive
class WindowAttributes(CustomDirective):
    """`stride = [1, 1], pad = [[1, 1], [1, 1]], ...`: the attributes that are present."""

    window_strides: AttributeVariable
    padding: AttributeVariable
    lhs_dilation: AttributeVariable
    rhs_dilation: AttributeVariable
    window_reversal: AttributeVariable

    def _named(self) -> dict[str, AttributeVariable]:
        return {
            "stride": self.window_strides,
            "pad": self.padding,
            "lhs_dilate": self.lhs_dilation,
            "rhs_dilate": self.rhs_dilation,
            "reverse": self.window_reversal,
        }

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the entries, in any order, each at most once."""
        open_entries = self._named()
        while (name := parser.parse_optional_identifier()) is not None:
            variable = open_entries.pop(name, None)
            if variable is None:
                parser.raise_error(f"expected one of {', '.join(open_entries)}, each at most once")
            parser.parse_punctuation("=")
            if name == "pad":
                variable.set(state, _parse_padding(parser))
            elif name == "reverse":
                variable.set(state, _parse_reversal(parser))
            else:
                variable.set(state, i64_array(parse_integers(parser)))
            if parser.parse_optional_punctuation(",") is None:
                break

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the entries in upstream's order."""
        entries = [(name, variable.get(op)) for name, variable in self._named().items()]
        _print(
            printer, state, ", ".join(f"{name} = {_window_text(value)}" for name, value in entries if value is not None)
        )


def _parse_pair(parser: Parser) -> tuple[tuple[int, ...], tuple[int, ...]]:
    parser.parse_punctuation("=")
    lhs = parse_integers(parser)
    parser.parse_characters("x")
    return tuple(lhs), tuple(parse_integers(parser))


@irdl_custom_directive
class DotDimensionNumbers(CustomDirective):
    """`batching_dims = [0] x [0], contracting_dims = [2] x [1]`; empty batching_dims are omitted."""

    dimensions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the pairs."""
        batching: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        if parser.parse_optional_keyword("batching_dims"):
            batching = _parse_pair(parser)
            parser.parse_punctuation(",")
        parser.parse_keyword("contracting_dims")
        contracting = _parse_pair(parser)
        self.dimensions.set(state, DotDimensionNumbersAttr(DotDimensions(*batching, *contracting)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the pairs."""
        attribute = self.dimensions.get(op)
        assert isinstance(attribute, DotDimensionNumbersAttr)
        dims = attribute.data
        text = ""
        if dims.lhs_batching_dimensions or dims.rhs_batching_dimensions:
            lhs, rhs = dims.lhs_batching_dimensions, dims.rhs_batching_dimensions
            text = f"batching_dims = {integers_text(lhs)} x {integers_text(rhs)}, "
        lhs, rhs = dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions
        _print(printer, state, f"{text}contracting_dims = {integers_text(lhs)} x {integers_text(rhs)}")


@irdl_custom_directive
class SliceRanges(CustomDirective):
    """`[0:4:2, 1:8]`: start, limit and stride of each dimension; a stride of 1 is omitted."""

    start_indices: AttributeVariable
    limit_indices: AttributeVariable
    strides: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the ranges."""

        def integer() -> int:
            return parser.parse_integer(allow_boolean=False)

        def bounds() -> tuple[int, int, int]:
            start = integer()
            parser.parse_punctuation(":")
            limit = integer()
            return start, limit, integer() if parser.parse_optional_punctuation(":") else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bounds)
        for index, variable in enumerate((self.start_indices, self.limit_indices, self.strides)):
            variable.set(state, i64_array([entry[index] for entry in ranges]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the ranges."""
        lists: list[Sequence[int]] = []
        for variable in (self.start_indices, self.limit_indices, self.strides):
            attribute = variable.get(op)
            assert isinstance(attribute, DenseArrayBase)
            lists.append(array_values(cast("DenseArrayBase[Any]", attribute)))
        ranges = [f"{lo}:{hi}" + (f":{step}" if step != 1 else "") for lo, hi, step in zip(*lists, strict=True)]
        _print(printer, state, f"[{', '.join(ranges)}]")
