"""Text of the quantized types, as upstream MLIR prints and parses it.

Source: the "'quant' Dialect" document, the grammars of `!quant.uniform`; upstream prints the per-channel separator as
`,` with no space, leaves out a zero point of 0 and storage bounds that span the storage type.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.ir.quant.parameters import AnyParameters, CalibratedParameters, Storage, UniformParameters
from zeropoint.numerics.storage import StorageType


def format_double(value: float) -> str:
    """An f64 as MLIR prints it: seven significant digits where they suffice, seventeen otherwise; never lossy."""
    short = f"{value:.6e}"
    return short if float(short) == value else f"{value:.17g}".replace("e", "E")


def _parse_storage_type(parser: AttrParser) -> StorageType:
    # `u8` lexes as a bare identifier and `i8` too, so neither goes through parse_type.
    position = parser.pos
    name = parser.parse_identifier(" for the storage type")
    try:
        return StorageType.parse(name)
    except ValueError:
        parser.raise_error(f"illegal storage type prefix: '{name}'", position)


def _parse_storage(parser: AttrParser) -> Storage:
    storage_type = _parse_storage_type(parser)
    if parser.parse_optional_punctuation("<") is None:
        return Storage(storage_type, storage_type.min, storage_type.max)
    position = parser.pos
    minimum = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    maximum = parser.parse_integer(allow_boolean=False)
    if minimum < storage_type.min:
        parser.raise_error(f"illegal storage type minimum: {minimum}", position)
    if maximum > storage_type.max:
        parser.raise_error(f"illegal storage type maximum: {maximum}", position)
    parser.parse_punctuation(">")
    return Storage(storage_type, minimum, maximum)


def _parse_expressed(parser: AttrParser) -> AnyFloat:
    position = parser.pos
    expressed = parser.parse_type()
    if not isinstance(expressed, AnyFloat):
        parser.raise_error("expressed type must be floating point", position)
    return expressed


def _parse_scale_zero_point(parser: AttrParser) -> tuple[float, int]:
    scale = float(parser.parse_number(allow_boolean=False))
    zero_point = parser.parse_integer(allow_boolean=False) if parser.parse_optional_punctuation(":") else 0
    return scale, zero_point


def parse_uniform(parser: AttrParser) -> UniformParameters:
    """`<` storage `:` expressed (`,` scale-zp | `:` axis `,` `{` scale-zp (`,` scale-zp)* `}`) `>`."""
    with parser.in_angle_brackets():
        storage = _parse_storage(parser)
        parser.parse_punctuation(":")
        expressed = _parse_expressed(parser)
        axis = parser.parse_integer(allow_boolean=False) if parser.parse_optional_punctuation(":") else None
        parser.parse_punctuation(",")
        if axis is None:
            pairs = [_parse_scale_zero_point(parser)]
        else:
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.BRACES, lambda: _parse_scale_zero_point(parser)
            )
    scales, zero_points = zip(*pairs, strict=True)
    return UniformParameters(storage, expressed, scales, zero_points, axis)


def print_uniform(printer: Printer, parameters: UniformParameters) -> None:
    """The inverse of `parse_uniform`."""
    texts = [
        format_double(scale) + (f":{point}" if point else "")
        for scale, point in zip(parameters.scales, parameters.zero_points, strict=True)
    ]
    with printer.in_angle_brackets():
        printer.print_string(f"{parameters.storage}:")
        printer.print_attribute(parameters.expressed_type)
        if parameters.axis is None:
            printer.print_string(f", {texts[0]}")
        else:
            printer.print_string(f":{parameters.axis}, {{{','.join(texts)}}}")


def parse_any(parser: AttrParser) -> AnyParameters:
    """`<` storage (`:` expressed)? `>`."""
    with parser.in_angle_brackets():
        storage = _parse_storage(parser)
        expressed = _parse_expressed(parser) if parser.parse_optional_punctuation(":") else None
    return AnyParameters(storage, expressed)


def print_any(printer: Printer, parameters: AnyParameters) -> None:
    """The inverse of `parse_any`."""
    with printer.in_angle_brackets():
        printer.print_string(str(parameters.storage))
        if parameters.expressed_type is not None:
            printer.print_string(":")
            printer.print_attribute(parameters.expressed_type)


def parse_calibrated(parser: AttrParser) -> CalibratedParameters:
    """`<` expressed `<` minimum `:` maximum `>` `>`."""
    with parser.in_angle_brackets():
        expressed = _parse_expressed(parser)
        with parser.in_angle_brackets():
            position = parser.pos
            minimum = float(parser.parse_number(allow_boolean=False))
            parser.parse_punctuation(":")
            maximum = float(parser.parse_number(allow_boolean=False))
            if minimum >= maximum:
                parser.raise_error(f"illegal min: {minimum}, max: {maximum}", position)
    return CalibratedParameters(expressed, minimum, maximum)


def print_calibrated(printer: Printer, parameters: CalibratedParameters) -> None:
    """The inverse of `parse_calibrated`."""
    with printer.in_angle_brackets():
        printer.print_attribute(parameters.expressed_type)
        printer.print_string(f"<{format_double(parameters.minimum)}:{format_double(parameters.maximum)}>")
