"""Text of the StableHLO attributes with their own grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.ir.stablehlo.dimensions import ConvolutionLayout, DotDimensions, GatherDimensions, ScatterDimensions


def _parse_dimension(parser: AttrParser) -> str | int:
    name = parser.parse_optional_identifier()
    return parser.parse_integer(allow_boolean=False) if name is None else name


def _layout_side(parser: AttrParser, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
    """Parse `[b, f, 0, 1]`. Returns the position of `first`, that of `second`, and those of 0, 1, ...."""
    position = parser.pos
    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_dimension(parser))
    spatial = range(len(names) - 2)
    if sorted(map(str, names)) != sorted([first, second, *map(str, spatial)]):
        parser.raise_error(f"expected each of {first}, {second} and 0 to {len(names) - 3} once", position)
    return names.index(first), names.index(second), tuple(names.index(i) for i in spatial)


def parse_convolution_layout(parser: AttrParser) -> ConvolutionLayout:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`, or `raw` and each field by its name."""
    if parser.parse_optional_keyword("raw"):
        return _parse_raw_layout(parser)
    input_batch, input_feature, input_spatial = _layout_side(parser, "b", "f")
    parser.parse_characters("x")
    kernel_input, kernel_output, kernel_spatial = _layout_side(parser, "i", "o")
    parser.parse_punctuation("->")
    output_batch, output_feature, output_spatial = _layout_side(parser, "b", "f")
    return ConvolutionLayout(
        input_batch,
        input_feature,
        input_spatial,
        kernel_input,
        kernel_output,
        kernel_spatial,
        output_batch,
        output_feature,
        output_spatial,
    )


def _parse_raw_layout(parser: AttrParser) -> ConvolutionLayout:
    def integer() -> int:
        return parser.parse_integer(allow_boolean=False)

    def entry() -> tuple[str, int | tuple[int, ...]]:
        name = parser.parse_identifier()
        if name not in missing:
            parser.raise_error(f"expected one of: {', '.join(f'`{field}`' for field in missing)}")
        missing.remove(name)
        parser.parse_punctuation("=")
        if name.endswith("dimension"):
            return name, integer()
        return name, tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, integer))

    missing = [field.name for field in fields(ConvolutionLayout)]
    found = parser.parse_comma_separated_list(parser.Delimiter.NONE, entry)
    if missing:
        parser.raise_error(f"expected {', '.join(f'`{field}`' for field in missing)}")
    return ConvolutionLayout(**cast("dict[str, Any]", dict(found)))


def _side_text(first: int, first_name: str, second: int, second_name: str, spatial: tuple[int, ...]) -> str:
    names = {first: first_name, second: second_name} | {dim: str(i) for i, dim in enumerate(spatial)}
    # A layout that does not verify may lack dimensions. It must still be printable, for the error message.
    return f"[{', '.join(names.get(i, '?') for i in range(max(names) + 1))}]"


def print_convolution_layout(printer: Printer, layout: ConvolutionLayout) -> None:
    """The inverse of `parse_convolution_layout`."""
    lhs = _side_text(
        layout.input_batch_dimension, "b", layout.input_feature_dimension, "f", layout.input_spatial_dimensions
    )
    rhs = _side_text(
        layout.kernel_input_feature_dimension,
        "i",
        layout.kernel_output_feature_dimension,
        "o",
        layout.kernel_spatial_dimensions,
    )
    out = _side_text(
        layout.output_batch_dimension, "b", layout.output_feature_dimension, "f", layout.output_spatial_dimensions
    )
    printer.print_string(f"{lhs}x{rhs}->{out}")


def _named_entries(parser: AttrParser, names: Sequence[str]) -> dict[str, Any]:
    """Parse `offset_dims = [0], index_vector_dim = 1`: each at most once, in any order. Lists become tuples."""

    def integer() -> int:
        return parser.parse_integer(allow_boolean=False)

    found: dict[str, Any] = {}
    while (name := parser.parse_optional_identifier()) is not None:
        if name in found:
            parser.raise_error(f"duplicated `{name}` entry")
        if name not in names:
            parser.raise_error(f"expected one of: {', '.join(f'`{known}`' for known in names)}")
        parser.parse_punctuation("=")
        if name.endswith("_dim"):
            found[name] = integer()
        else:
            found[name] = tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, integer))
        if parser.parse_optional_punctuation(",") is None:
            break
    return found


Dimensions = TypeVar("Dimensions", bound=DotDimensions | GatherDimensions | ScatterDimensions)


def parse_dimensions(parser: AttrParser, kind: type[Dimensions]) -> Dimensions:
    """`lhs_batching_dimensions = [0], ...`: omitted entries are empty, or 0."""
    return kind(**_named_entries(parser, [field.name for field in fields(kind)]))


def print_dimensions(printer: Printer, dimensions: DotDimensions | GatherDimensions | ScatterDimensions) -> None:
    """The inverse of `parse_dimensions`: the lists that are not empty, and `index_vector_dim` if it is not 0."""
    entries = {field.name: getattr(dimensions, field.name) for field in fields(dimensions)}
    texts = {name: value if isinstance(value, int) else list(value) for name, value in entries.items() if value}
    printer.print_string(", ".join(f"{name} = {value}" for name, value in texts.items()))
