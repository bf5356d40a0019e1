"""Attributes of StableHLO ops: convolution and dot dimension numbers, comparison, precision.

Source: the StableHLO specification; the text is upstream's (`#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`,
`#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`, `#stablehlo<comparison_direction LT>`).
"""

from __future__ import annotations

from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from zeropoint.ir.stablehlo import syntax
from zeropoint.ir.stablehlo.dimensions import ConvolutionLayout, DotDimensions, GatherDimensions, ScatterDimensions


@irdl_attr_definition
class ConvDimensionNumbersAttr(Data[ConvolutionLayout]):
    """`#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`."""

    name = "stablehlo.conv"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ConvolutionLayout:
        """Parse `<[...]x[...]->[...]>`."""
        with parser.in_angle_brackets():
            return syntax.parse_convolution_layout(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<[...]x[...]->[...]>`."""
        with printer.in_angle_brackets():
            syntax.print_convolution_layout(printer, self.data)


@irdl_attr_definition
class DotDimensionNumbersAttr(Data[DotDimensions]):
    """`#stablehlo.dot<lhs_batching_dimensions = [0], ..., rhs_contracting_dimensions = [1]>`."""

    name = "stablehlo.dot"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> DotDimensions:
        """Parse `<lhs_contracting_dimensions = [1], ...>`; an omitted list is empty."""
        with parser.in_angle_brackets():
            return syntax.parse_dimensions(parser, DotDimensions)

    def print_parameter(self, printer: Printer) -> None:
        """Print the lists that are not empty."""
        with printer.in_angle_brackets():
            syntax.print_dimensions(printer, self.data)


@irdl_attr_definition
class GatherDimensionNumbersAttr(Data[GatherDimensions]):
    """`#stablehlo.gather<offset_dims = [1], ..., index_vector_dim = 1>`."""

    name = "stablehlo.gather"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> GatherDimensions:
        """Parse `<offset_dims = [1], ...>`; an omitted list is empty."""
        with parser.in_angle_brackets():
            return syntax.parse_dimensions(parser, GatherDimensions)

    def print_parameter(self, printer: Printer) -> None:
        """Print the entries that are not empty or 0."""
        with printer.in_angle_brackets():
            syntax.print_dimensions(printer, self.data)


@irdl_attr_definition
class ScatterDimensionNumbersAttr(Data[ScatterDimensions]):
    """`#stablehlo.scatter<update_window_dims = [1], ..., index_vector_dim = 1>`."""

    name = "stablehlo.scatter"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ScatterDimensions:
        """Parse `<update_window_dims = [1], ...>`; an omitted list is empty."""
        with parser.in_angle_brackets():
            return syntax.parse_dimensions(parser, ScatterDimensions)

    def print_parameter(self, printer: Printer) -> None:
        """Print the entries that are not empty or 0."""
        with printer.in_angle_brackets():
            syntax.print_dimensions(printer, self.data)


class ComparisonDirection(StrEnum):
    """The relation that `compare` tests."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


@irdl_attr_definition
class ComparisonDirectionAttr(EnumAttribute[ComparisonDirection], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<comparison_direction LT>`."""

    name = "stablehlo.comparison_direction"


class ComparisonType(StrEnum):
    """How `compare` orders its operands."""

    NOTYPE = "NOTYPE"
    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<comparison_type FLOAT>`."""

    name = "stablehlo.comparison_type"


class Precision(StrEnum):
    """The requested precision of a contraction; for integers, zeropoint computes exactly with each of them."""

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<precision DEFAULT>`."""

    name = "stablehlo.precision"


class FftType(StrEnum):
    """The kind of discrete Fourier transform."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


@irdl_attr_definition
class FftTypeAttr(EnumAttribute[FftType], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<fft_type RFFT>`."""

    name = "stablehlo.fft_type"


class Transpose(StrEnum):
    """How `triangular_solve` transposes its matrix."""

    INVALID = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


@irdl_attr_definition
class TransposeAttr(EnumAttribute[Transpose], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<transpose NO_TRANSPOSE>`."""

    name = "stablehlo.transpose"
