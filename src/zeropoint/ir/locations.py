"""Locations: an op carries its node's name in the original model or, if it has none, its position in the text."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Data, Operation, OpResult, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.errors import Error
from zeropoint.ir.annotations import NAME


@dataclass(frozen=True)
class TextPosition:
    """The position of an op's first character in a text; lines and columns count from 1.

    `results` are the names that the text gives to the op's results: `m` for `%m`.
    """

    file: str
    line: int
    column: int
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@irdl_attr_definition
class TextLoc(Data[TextPosition]):
    """The position of an op that was parsed from text without a location.

    It is used in errors only and never printed, so that parsing and printing a program does not change it.
    """

    name = "zeropoint.text_loc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TextPosition:
        """Fail: this attribute has no text."""
        parser.raise_error("a position in a text has no text of its own")

    def print_parameter(self, printer: Printer) -> None:
        """Print the position, for debugging."""
        printer.print_string(f"<{self.data}>")


def text_location(position: TextPosition) -> LocationAttr:
    """The location of an op that starts at a position."""
    return cast("LocationAttr", TextLoc(position))  # xDSL's union of location types has no place for ours


def text_position(op: Operation) -> TextPosition | None:
    """The position where an op was parsed; None if it has a location of its own or was created by a pass."""
    found = cast("object", op.location)
    return found.data if isinstance(found, TextLoc) else None


def model_names(op: Operation) -> tuple[str, ...]:
    """The names of an op in the model: the name in its location or, without one, those of its results in the text."""
    text, position = location_text(op.location), text_position(op)
    if text is not None:
        return (text,)
    return () if position is None else position.results


def is_given(location: LocationAttr) -> bool:
    """Whether a text or a frontend gave the location."""
    return not isinstance(cast("object", location), UnknownLoc | TextLoc)


def name_location(name: str) -> LocationAttr:
    """`loc("name")`."""
    return NameLoc(StringAttr(name), NoneAttr())


def fused_location(*locations: LocationAttr) -> LocationAttr:
    """The location of an op that replaces several ops: `loc(fused["conv", "norm"])`, each part once.

    Only locations that a text or a frontend gave are kept. If there are none, the first location is returned.
    """
    parts: list[LocationAttr] = []
    for location in locations:
        inner = cast("ArrayAttr[LocationAttr]", location.locations) if isinstance(location, FusedLoc) else [location]
        parts += [part for part in inner if is_given(part) and part not in parts]
    if len(parts) > 1:
        return FusedLoc(tuple(parts), NoneAttr())
    return parts[0] if parts else locations[0]


def location_of(value: SSAValue) -> LocationAttr:
    """The location of the op that defines a value. For an argument, its own or its input's name."""
    if isinstance(value.owner, Operation):
        return value.owner.location
    assert isinstance(value, BlockArgument)
    name = None if is_given(value.location) else _input_name(value)
    return value.location if name is None else name_location(name)


def location_text(location: LocationAttr) -> str | None:
    """A location in readable form, or None if it is unknown."""
    if isinstance(location, NameLoc):
        return location.desc.data
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}:{location.column.data}"
    if isinstance(location, FusedLoc):
        parts = map(location_text, cast("ArrayAttr[LocationAttr]", location.locations))
        return next((part for part in parts if part), None)
    return None


def op_name(op: Operation) -> str:
    """The name of an op, including an unregistered one."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def describe(op: Operation) -> str:
    """The op with its position: `stablehlo.add 'conv1/bias'`."""
    text = location_text(op.location)
    return f"{op_name(op)} '{text}'" if text else op_name(op)


@contextmanager
def noting(op: Operation) -> Generator[None]:
    """A context that adds the op and its position in the text to an unexpected exception, as a note."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        position = text_position(op)
        error.add_note(f"at {describe(op)}" + ("" if position is None else f" in {position}"))
        raise


def value_name(value: SSAValue) -> str:
    """The name of the op that defines the value, or of the block argument; without one, the op's kernel or kind."""
    if isinstance(value, OpResult):
        kernel = value.op.attributes.get("logical_kernel")
        kind = kernel.data if isinstance(kernel, StringAttr) else value.op.name
        text = location_text(value.op.location) or kind
        return text if len(value.op.results) == 1 else f"{text}#{value.index}"
    assert isinstance(value, BlockArgument)
    return location_text(value.location) or _input_name(value) or f"argument {value.index}"


def written_name(value: SSAValue) -> str:
    """`value_name`, but a value without a location or an input name is named as in the text, `%x`, if that is known."""
    if isinstance(value, BlockArgument):
        named = bool(location_text(value.location) or _input_name(value))
    else:
        named = isinstance(value, OpResult) and bool(location_text(value.op.location))
    return value_name(value) if named or value.name_hint is None else f"%{value.name_hint}"


def named_kernel(kernel: str, output: SSAValue) -> str:
    """A kernel and the name of its (first) output, if the output has a name: `convolution 'conv1'`, `tanh '%y'`."""
    name = written_name(output)
    unnamed = isinstance(output, OpResult) and name == value_name(output) and not location_text(output.op.location)
    return kernel if unnamed else f"{kernel} '{name.partition('#')[0]}'"


def _input_name(argument: BlockArgument) -> str | None:
    """The name of a model input, from the attributes of the function's argument."""
    function = argument.owner.parent_op()
    attributes = function.arg_attrs if isinstance(function, FuncOp) else None
    name = None if attributes is None else attributes.data[argument.index].data.get(NAME)
    return name.data if isinstance(name, StringAttr) else None
