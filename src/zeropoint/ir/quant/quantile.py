"""`!quant.quantile`: stored numbers that index a table of values, such as the 16 values of NF4.

Source: upstream MLIR's `QuantileType`; it may be the storage type of `!quant.uniform` and `!quant.any`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import FORMATS, format_double
from zeropoint.ir.quant.reader import TypeReader


@dataclass(frozen=True)
class QuantileParameters:
    """The parameters of `!quant.quantile`: the value of each stored number.

    `values[i]` is the value of the i-th stored number, counted from the least one in `bounds`, or in the storage type
    if `bounds` is None.
    """

    storage_type: Attribute
    quantile_type: Attribute
    values: tuple[float, ...]
    bounds: tuple[int, int] | None = None

    @property
    def value_count(self) -> int:
        """The number of stored numbers, each of which needs a value."""
        if self.bounds is not None:
            return self.bounds[1] - self.bounds[0] + 1
        return 1 << bit_width(self.storage_type)


def bit_width(found: Attribute) -> int:
    """The width of an integer or float type.

    Raises TypeError for another type.
    """
    width = getattr(found, "bitwidth", None)
    if not isinstance(width, int):
        raise TypeError(f"found {found}, expected an integer or a float type")
    return width


def _power_text(value: int) -> str:
    """The text of a number. Beyond 64 bits, a power of two, because it could have thousands of digits."""
    return str(value) if value.bit_length() <= 64 else f"2^{value.bit_length() - 1}"


def _is_number_type(found: Attribute) -> bool:
    return isinstance(found, IntegerType) or type(found) in FORMATS


@irdl_attr_definition
class QuantileType(Data[QuantileParameters], TypeAttribute):
    """`!quant.quantile<ui4:f16, {-1.0,...,1.0}>`, `!quant.quantile<i8:f32, {-1.0,0.0,1.0}, <-1:1>>`."""

    name = "quant.quantile"

    def verify(self) -> None:
        parameters = self.data
        if not _is_number_type(parameters.storage_type):
            raise VerifyException("storage type must be an integer or float type")
        if not _is_number_type(parameters.quantile_type):
            raise VerifyException("quantile type must be a float or integer type")
        if not parameters.values:
            raise VerifyException("quantile values must not be empty")
        if parameters.bounds is not None and parameters.bounds[0] >= parameters.bounds[1]:
            raise VerifyException("storage min must be less than storage max")
        if len(parameters.values) != parameters.value_count:
            raise VerifyException(
                f"quantile LUT size ({len(parameters.values)}) must equal the number of representable storage values "
                f"({_power_text(parameters.value_count)})"
            )
        if not all(math.isfinite(value) for value in parameters.values):
            raise VerifyException("quantile values must be finite (no NaN or infinity)")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> QuantileParameters:
        """`<` storage `:` quantile-type `,` `{` values `}` (`,` `<` minimum `:` maximum `>`)? `>`."""
        reader = TypeReader(parser)
        reader.expect("<")
        storage_type = reader.type()
        reader.expect(":")
        quantile_type = reader.type()
        reader.expect(",")
        reader.expect("{")
        values: list[float] = []
        if not reader.accept("}"):
            values.append(reader.floating())
            while reader.accept(","):
                values.append(reader.floating())
            reader.expect("}")
        bounds = None
        if reader.accept(","):
            reader.expect("<")
            minimum = reader.integer(64)
            reader.expect(":")
            bounds = (minimum, reader.integer(64))
            reader.expect(">")
        reader.expect(">")
        parameters = QuantileParameters(storage_type, quantile_type, tuple(values), bounds)
        try:
            cls(parameters)
        except VerifyException as error:
            reader.type_error(error)
        return parameters

    def print_parameter(self, printer: Printer) -> None:
        """Print what follows `!quant.quantile`."""
        parameters = self.data
        values = ",".join(format_double(value) for value in parameters.values)
        bounds = "" if parameters.bounds is None else f", <{parameters.bounds[0]}:{parameters.bounds[1]}>"
        with printer.in_angle_brackets():
            printer.print_attribute(parameters.storage_type)
            printer.print_string(":")
            printer.print_attribute(parameters.quantile_type)
            printer.print_string(f", {{{values}}}{bounds}")
