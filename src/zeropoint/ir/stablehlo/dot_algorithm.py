"""`#stablehlo.dot_algorithm<...>`: the precision of multiplication and accumulation in `dot_general`.

Source: the StableHLO specification, "dot_general" (C21 to C24, and the list of known algorithms); the syntax and the
error messages are upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    FloatTF32Type,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.attributes import Precision, PrecisionAttr

tf32 = FloatTF32Type()


@dataclass(frozen=True)
class DotAlgorithm:
    """The element types that operands are rounded to, the accumulation type, and the number of primitive products that
    emulate one product; names as in the StableHLO specification.
    """

    lhs_precision_type: Attribute
    rhs_precision_type: Attribute
    accumulation_type: Attribute
    lhs_component_count: int
    rhs_component_count: int
    num_primitive_operations: int
    allow_imprecise_accumulation: bool


_KNOWN: dict[tuple[Attribute, Attribute], tuple[int, ...]] = {
    (bf16, bf16): (1,),
    (bf16, f32): (1, 3, 6, 9),
    (f16, f16): (1,),
    (f16, f32): (1,),
    (f32, f32): (1,),
    (f64, f64): (1,),
    (tf32, f32): (1, 3),
}
"""(Operand type, accumulation type) to the numbers of primitive operations that known hardware supports."""
_NARROW = (
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
)


def check_known(algorithm: DotAlgorithm) -> None:
    """Check that the algorithm is a known one (C22 to C24).

    Raises VerifyException.
    """
    for words, count in (
        ("lhs component count", algorithm.lhs_component_count),
        ("rhs component count", algorithm.rhs_component_count),
        ("num primitive operations", algorithm.num_primitive_operations),
    ):
        if count < 1:
            raise VerifyException(f"{words} must be positive")
    if not _is_known(algorithm):
        raise VerifyException(
            f"dot algorithm not known to be supported on any hardware: {{lhs:'{algorithm.lhs_precision_type}', "
            f"rhs:'{algorithm.rhs_precision_type}', accum:'{algorithm.accumulation_type}', "
            f"lhs_components:{algorithm.lhs_component_count}, rhs_components:{algorithm.rhs_component_count}, "
            f"primitive_ops:{algorithm.num_primitive_operations}, "
            f"imprecise:{int(algorithm.allow_imprecise_accumulation)}}}"
        )


def _is_known(algorithm: DotAlgorithm) -> bool:
    lhs, rhs, operations = (
        algorithm.lhs_precision_type,
        algorithm.rhs_precision_type,
        algorithm.num_primitive_operations,
    )
    if (algorithm.lhs_component_count, algorithm.rhs_component_count) != (1, 1):
        return False
    if isinstance(lhs, _NARROW) and isinstance(rhs, _NARROW):
        return algorithm.accumulation_type == f32 and operations == 1
    exact = lhs == rhs and not algorithm.allow_imprecise_accumulation
    return exact and operations in _KNOWN.get((lhs, algorithm.accumulation_type), ())


def parse_algorithm(parser: AttrParser) -> DotAlgorithm:
    """`<lhs_precision_type = tf32, ...>`: all entries, in upstream's order."""
    values: dict[str, Any] = {}
    position = parser.pos
    with parser.in_angle_brackets():
        for index, entry in enumerate(fields(DotAlgorithm)):
            if index:
                parser.parse_punctuation(",")
            parser.parse_keyword(entry.name)
            parser.parse_punctuation("=")
            if entry.name.endswith("_type"):
                values[entry.name] = parser.parse_type()
            elif entry.name.startswith("allow"):
                values[entry.name] = parser.parse_boolean()
            else:
                values[entry.name] = parser.parse_integer(allow_boolean=False)
    algorithm = DotAlgorithm(**values)
    try:
        check_known(algorithm)
    except VerifyException as error:
        parser.raise_error(str(error), position)
    return algorithm


def print_algorithm(printer: Printer, algorithm: DotAlgorithm) -> None:
    """The inverse of `parse_algorithm`."""
    entries: list[str] = []
    for entry in fields(algorithm):
        value = getattr(algorithm, entry.name)
        entries.append(f"{entry.name} = {str(value).lower() if isinstance(value, bool) else value}")
    printer.print_string(f"<{', '.join(entries)}>")


@irdl_attr_definition
class DotAlgorithmAttr(Data[DotAlgorithm]):
    """`#stablehlo.dot_algorithm<lhs_precision_type = tf32, ..., allow_imprecise_accumulation = false>`."""

    name = "stablehlo.dot_algorithm"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> DotAlgorithm:
        """Parse the entries."""
        return parse_algorithm(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print the entries."""
        print_algorithm(printer, self.data)


@irdl_custom_directive
class PrecisionConfigAndAlgorithm(CustomDirective):
    """`, precision = [DEFAULT, DEFAULT], algorithm = <...>`; both are optional."""

    precision: AttributeVariable
    algorithm: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the entries that are present."""
        if parser.parse_optional_punctuation(",") is None:
            return
        if parser.parse_optional_keyword("precision") is not None:
            parser.parse_punctuation("=")
            names = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: PrecisionAttr(parser.parse_str_enum(Precision))
            )
            self.precision.set(state, ArrayAttr(names))
            if parser.parse_optional_punctuation(",") is None:
                return
        parser.parse_keyword("algorithm")
        parser.parse_punctuation("=")
        self.algorithm.set(state, DotAlgorithmAttr(parse_algorithm(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the entries that are present."""
        precision, algorithm = self.precision.get(op), self.algorithm.get(op)
        if precision is not None:
            names = [entry.data.value for entry in cast("ArrayAttr[PrecisionAttr]", precision)]
            printer.print_string(f", precision = [{', '.join(names)}]")
        if isinstance(algorithm, DotAlgorithmAttr):
            printer.print_string(", algorithm = ")
            print_algorithm(printer, algorithm.data)
