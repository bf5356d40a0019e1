"""The ops of the check dialect, in the text of upstream StableHLO's test programs.

```mlir
check.expect_eq %x, %y : tensor<3xi64>
check.expect_eq_const %x, dense<[-2, 0, 2]> : tensor<3xi64>
check.expect_almost_eq %x, %y, tolerance = 1.000000e-01 : tensor<f64>
check.expect_almost_eq_const %x, dense<5.0> : tensor<f64> {tolerance = 0.1 : f64}
check.expect_close %x, %y, max_ulp_difference = 3, min_ulp_difference = 0 : tensor<f16>, tensor<f16>
check.expect_serialized_eq %x, probe_id = "probe" : tensor<2xi64>
```
The ops have no results. The run fails if a check does not hold. Source: upstream StableHLO's CheckOps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, StringAttr, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import format_float

DEFAULT_TOLERANCE = 0.001
"""The default tolerance of `expect_almost_eq`: the greatest accepted |x - y|."""
DEFAULT_ULPS = 3
"""The default of `expect_close`: the greatest accepted number of floats between x and y."""


class CheckOp(IRDLOperation):
    """An assertion. It has no results but a side effect, so it is never removed as dead code."""

    def verify_(self) -> None:
        """Check that both sides have the same type."""
        types = [value.type for value in self.operands]
        constant = self.properties.get("value")
        if isinstance(constant, DenseIntOrFPElementsAttr):
            types.append(constant.get_type())
        if any(found != types[0] for found in types[1:]):
            names = "{lhs, value}" if constant is not None else "{lhs, rhs}"
            raise VerifyException(f"failed to verify that all of {names} have same type")


def _parse_operand_pair(parser: Parser) -> list[Any]:
    first = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    return [first, parser.parse_unresolved_operand()]


def _print_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    printer.print_string(" ")
    printer.print_list(operands, printer.print_operand)


def _print_attributes(printer: Printer, attributes: dict[str, Attribute]) -> None:
    if attributes:
        printer.print_string(" ")
        printer.print_attr_dict(attributes)


def _resolve(parser: Parser, operands: Sequence[Any]) -> Sequence[SSAValue]:
    """The operands with the type that follows the colon."""
    parser.parse_punctuation(":")
    position = parser.pos
    found = parser.parse_type()
    return parser.resolve_operands(operands, [found] * len(operands), position)


def _parse_constant(parser: Parser) -> tuple[SSAValue, DenseIntOrFPElementsAttr[Any], dict[str, Attribute]]:
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    position = parser.pos
    value = parser.parse_attribute()
    if not isinstance(value, DenseIntOrFPElementsAttr):
        parser.raise_error("expected dense elements", position)
    dense = cast("DenseIntOrFPElementsAttr[Any]", value)
    (resolved,) = parser.resolve_operands([operand], [dense.get_type()], position)
    return resolved, dense, parser.parse_optional_attr_dict()


@irdl_op_definition
class ExpectEqOp(CheckOp):
    """Both tensors are equal, element by element."""

    name = "check.expect_eq"
    lhs = operand_def()
    rhs = operand_def()

    @classmethod
    def parse(cls, parser: Parser) -> ExpectEqOp:
        """Parse `%x, %y : type`."""
        pair = _parse_operand_pair(parser)
        attributes = parser.parse_optional_attr_dict()
        return cls.create(operands=_resolve(parser, pair), attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, %y : type`."""
        _print_operands(printer, self.operands)
        _print_attributes(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class ExpectEqConstOp(CheckOp):
    """The tensor is equal to a constant, element by element."""

    name = "check.expect_eq_const"
    lhs = operand_def()
    value = prop_def(DenseIntOrFPElementsAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectEqConstOp:
        """Parse `%x, dense<...> : type`."""
        operand, value, attributes = _parse_constant(parser)
        return cls.create(operands=[operand], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, dense<...> : type`."""
        _print_operands(printer, self.operands)
        printer.print_string(", ")
        printer.print_attribute(self.value)
        _print_attributes(printer, self.attributes)


@irdl_op_definition
class ExpectAlmostEqOp(CheckOp):
    """Floats (or the parts of complex numbers) have the same sign and differ by at most `tolerance`."""

    name = "check.expect_almost_eq"
    lhs = operand_def()
    rhs = operand_def()
    tolerance = opt_prop_def(FloatAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectAlmostEqOp:
        """Parse `%x, %y, tolerance = 0.1 : type`."""
        pair = _parse_operand_pair(parser)
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("tolerance")
            parser.parse_punctuation("=")
            properties["tolerance"] = FloatAttr(float(parser.parse_number()), f64)
        attributes = parser.parse_optional_attr_dict()
        return cls.create(operands=_resolve(parser, pair), properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, %y, tolerance = 0.1 : type`."""
        _print_operands(printer, self.operands)
        if self.tolerance is not None:
            printer.print_string(f", tolerance = {format_float(self.tolerance.value.data, f64)}")
        _print_attributes(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class ExpectAlmostEqConstOp(CheckOp):
    """Floats (or the parts of complex numbers) have a constant's sign and differ from it by at most `tolerance`."""

    name = "check.expect_almost_eq_const"
    lhs = operand_def()
    value = prop_def(DenseIntOrFPElementsAttr)
    tolerance = opt_prop_def(FloatAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectAlmostEqConstOp:
        """Parse `%x, dense<...> : type {tolerance = 0.1 : f64}`."""
        operand, value, attributes = _parse_constant(parser)
        properties: dict[str, Attribute] = {"value": value}
        if "tolerance" in attributes:
            properties["tolerance"] = attributes.pop("tolerance")
        return cls.create(operands=[operand], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, dense<...> : type {tolerance = 0.1 : f64}`."""
        _print_operands(printer, self.operands)
        printer.print_string(", ")
        printer.print_attribute(self.value)
        tolerance: dict[str, Attribute] = {} if self.tolerance is None else {"tolerance": self.tolerance}
        _print_attributes(printer, {**self.attributes, **tolerance})


@irdl_op_definition
class ExpectCloseOp(CheckOp):
    """Floats (or the parts of complex numbers) are `min_ulp_difference` to `max_ulp_difference` floats apart."""

    name = "check.expect_close"
    lhs = operand_def()
    rhs = operand_def()
    max_ulp_difference = opt_prop_def(IntegerAttr)
    min_ulp_difference = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectCloseOp:
        """Parse `%x, %y, max_ulp_difference = 3, min_ulp_difference = 0 : type, type`."""
        pair = _parse_operand_pair(parser)
        properties: dict[str, Attribute] = {}
        while parser.parse_optional_punctuation(","):
            position = parser.pos
            name = parser.parse_identifier()
            if name not in ("max_ulp_difference", "min_ulp_difference") or name in properties:
                parser.raise_error("expected max_ulp_difference or min_ulp_difference, each at most once", position)
            parser.parse_punctuation("=")
            properties[name] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        first = parser.parse_type()
        parser.parse_punctuation(",")
        operands = parser.resolve_operands(pair, [first, parser.parse_type()], position)
        return cls.create(operands=operands, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, %y, max_ulp_difference = 3, min_ulp_difference = 0 : type, type`."""
        _print_operands(printer, self.operands)
        for name in ("max_ulp_difference", "min_ulp_difference"):
            found = self.properties.get(name)
            if isinstance(found, IntegerAttr):
                printer.print_string(f", {name} = {cast('IntegerAttr[Any]', found).value.data}")
        _print_attributes(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)


@irdl_op_definition
class ExpectSerializedEqOp(CheckOp):
    """The tensor is equal to a value of the `interpreter.probe` of that name: the latest one, or number `iter`."""

    name = "check.expect_serialized_eq"
    expected = operand_def()
    probe_id = prop_def(StringAttr)
    iter = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ExpectSerializedEqOp:
        """Parse `%x, probe_id = "probe", iter = 0 : type`."""
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        parser.parse_keyword("probe_id")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {"probe_id": StringAttr(parser.parse_str_literal())}
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("iter")
            parser.parse_punctuation("=")
            properties["iter"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        attributes = parser.parse_optional_attr_dict()
        return cls.create(operands=_resolve(parser, [operand]), properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, probe_id = "probe", iter = 0 : type`."""
        _print_operands(printer, self.operands)
        printer.print_string(", probe_id = ")
        printer.print_attribute(self.probe_id)
        if self.iter is not None:
            printer.print_string(f", iter = {self.iter.value.data}")
        _print_attributes(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.expected.type)


OPS = (
    ExpectEqOp,
    ExpectEqConstOp,
    ExpectAlmostEqOp,
    ExpectAlmostEqConstOp,
    ExpectCloseOp,
    ExpectSerializedEqOp,
)
