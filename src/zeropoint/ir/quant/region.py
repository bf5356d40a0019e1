"""`quant.region` wraps the float ops that one target kernel covers; `quant.return` ends it.

```mlir
%0 = quant.region "add"(%1: tensor<4xf32> = %x as !quant.uniform<i8:f32, 0.5>, %2: tensor<4xf32> = %y)
    -> tensor<4xf32> {
  %3 = stablehlo.add %1, %2 : tensor<4xf32>
  quant.return %3 : tensor<4xf32>
}
```
The specification of a port without `as` is its element type. The generic form, with `input_specs`, `output_specs` and
`logical_kernel` as attributes, is accepted as well.

Source: the RFC on quantization transformations, section "Quantization region: the 'logical' kernel", which leaves the
syntax open.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from operator import attrgetter

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure

from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.quant.types import QuantizedType, UniformQuantizedType


def is_valid_spec(spec: Attribute, port_type: Attribute) -> bool:
    """Whether a port of `port_type` may have this specification.

    It is either the element type of the port, or a quantized type with that expressed type or with none.
    """
    element = element_or_self(port_type)
    if isinstance(spec, QuantizedType):
        return spec.expressed_type in (None, element)
    return spec == element


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Terminates a region and returns its results."""

    name = "quant.return"
    results_ = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(QuantizeRegionOp)))
    assembly_format = "attr-dict ($results_^ `:` type($results_))?"

    def __init__(self, results: Sequence[SSAValue]):
        super().__init__(operands=[results])


def _body_of(op: Operation) -> Region:
    return op.regions[0]


@irdl_op_definition
class QuantizeRegionOp(IRDLOperation):
    """The logical kernel. It is isolated from above; its ports are its operands and results.

    `input_specs` and `output_specs` hold one type per port: the expressed type (not quantized, or not decided yet), or
    a quantized type.
    """

    name = "quant.region"
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    input_specs = attr_def(ArrayAttr)
    output_specs = attr_def(ArrayAttr)
    logical_kernel = attr_def(StringAttr)
    traits = traits_def(IsolatedFromAbove(), Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        logical_kernel: str,
        input_specs: Sequence[Attribute],
        output_specs: Sequence[Attribute],
        body: Region | None = None,
    ):
        if body is None:
            body = Region(Block(arg_types=[value.type for value in inputs]))
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            attributes={
                "input_specs": ArrayAttr(input_specs),
                "output_specs": ArrayAttr(output_specs),
                "logical_kernel": StringAttr(logical_kernel),
            },
            regions=[body],
        )

    @property
    def is_quantized(self) -> bool:
        """Whether propagation gave a quantized type to a result or, if no result is a float, to an operand."""
        no_floats = not any(isinstance(element_or_self(value.type), AnyFloat) for value in self.outputs)
        specs = self.input_specs if no_floats else self.output_specs
        return any(isinstance(spec, UniformQuantizedType) for spec in specs)

    def print(self, printer: Printer) -> None:
        """Print the custom form."""
        printer.print_string(" ")
        printer.print_string_literal(self.logical_kernel.data)
        with printer.in_parens():
            ports = zip(self.body.block.args, self.inputs, self.input_specs, strict=True)
            printer.print_list(ports, lambda port: _print_input(printer, *port))
        printer.print_string(" -> ")
        results = list(zip(self.outputs, self.output_specs, strict=True))
        with nullcontext() if len(results) == 1 else printer.in_parens():
            printer.print_list(results, lambda port: _print_port(printer, *port))
        printer.print_op_attributes(self.attributes, reserved_attr_names=_SHOWN, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> QuantizeRegionOp:
        """Parse the custom form."""
        kernel = parser.parse_str_literal(" for the name of a kernel")
        inputs = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, lambda: _parse_input(parser))
        parser.parse_punctuation("->")
        outputs = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, lambda: _parse_port(parser))
        outputs = [_parse_port(parser)] if outputs is None else outputs
        attributes = parser.parse_optional_attr_dict_with_keyword(_SHOWN)
        body = parser.parse_region([argument for argument, _, _ in inputs])
        made = cls(
            [value for _, value, _ in inputs],
            [port for port, _ in outputs],
            kernel,
            [spec for _, _, spec in inputs],
            [spec for _, spec in outputs],
            body,
        )
        made.attributes.update({} if attributes is None else attributes.data)
        return made

    def verify_(self) -> None:
        if len(self.inputs) != len(self.input_specs) or len(self.outputs) != len(self.output_specs):
            raise refusal(self, "has unmatched operands/results number and spec attributes number")
        ports = (("input", self.inputs, self.input_specs), ("output", self.outputs, self.output_specs))
        for kind, values, specs in ports:
            for value, spec in zip(values, specs, strict=True):
                if not is_valid_spec(spec, value.type):
                    raise refusal(self, f"has incompatible specification {spec} and {kind} type '{value.type}'")
        self._verify_body()

    def _verify_body(self) -> None:
        block = self.body.block
        arguments, operands = [value.type for value in block.args], [value.type for value in self.inputs]
        if arguments != operands:
            raise refusal(
                self, f"has body arguments {_types(arguments)}, expected the operand types {_types(operands)}"
            )
        if not isinstance(block.last_op, ReturnOp):
            raise refusal(self, "has a body without 'quant.return' at its end")
        returned, results = [value.type for value in block.last_op.operands], [value.type for value in self.outputs]
        if returned != results:
            raise refusal(self, f"returns {_types(returned)}, expected the result types {_types(results)}")


_PORTS = {"inputs": attrgetter("_operands"), "outputs": attrgetter("results"), "body": _body_of}
"""Passes read ports more often than anything else. xDSL's descriptors look up which list they are in at each access,
which takes thirty times as long as reading the list. All operands are inputs, and all results are outputs."""
for _name, _port in _PORTS.items():
    setattr(QuantizeRegionOp, _name, property(_port))


_SHOWN = ("input_specs", "logical_kernel", "output_specs")
"""The attributes that the custom form prints outside of the attribute dictionary."""


def _print_input(printer: Printer, argument: BlockArgument, value: SSAValue, spec: Attribute) -> None:
    printer.print_block_argument(argument)
    printer.print_string(" = ")
    printer.print_operand(value)
    _print_spec(printer, value, spec)


def _print_port(printer: Printer, value: SSAValue, spec: Attribute) -> None:
    printer.print_attribute(value.type)
    _print_spec(printer, value, spec)


def _print_spec(printer: Printer, value: SSAValue, spec: Attribute) -> None:
    if spec != element_or_self(value.type):
        printer.print_string(" as ")
        printer.print_attribute(spec)


def _parse_input(parser: Parser) -> tuple[Parser.Argument, SSAValue, Attribute]:
    argument = parser.parse_argument()
    location = parser.parse_optional_location()
    argument = argument if location is None else replace(argument, location=location)
    parser.parse_punctuation("=")
    value = parser.resolve_operand(parser.parse_unresolved_operand(), argument.type)
    return argument, value, _parse_spec(parser, argument.type)


def _parse_port(parser: Parser) -> tuple[Attribute, Attribute]:
    port = parser.parse_type()
    return port, _parse_spec(parser, port)


def _parse_spec(parser: Parser, port: Attribute) -> Attribute:
    return parser.parse_type() if parser.parse_optional_keyword("as") else element_or_self(port)


def _types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"
