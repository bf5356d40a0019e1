"""Names of the original model: each op carries its node's name as a location."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, LocationAttr, NameLoc, NoneAttr, StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue


def name_location(name: str) -> LocationAttr:
    """`loc("name")`."""
    return NameLoc(StringAttr(name), NoneAttr())


def location_text(location: LocationAttr) -> str | None:
    """A location as a person would say it, None where it is unknown."""
    if isinstance(location, NameLoc):
        return location.desc.data
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}:{location.column.data}"
    if isinstance(location, FusedLoc):
        parts = [location_text(part) for part in location.locations]  # pyright: ignore
        return next((part for part in parts if part), None)
    return None


def describe(op: Operation) -> str:
    """The op with its place: `stablehlo.add 'conv1/bias'`."""
    text = location_text(op.location)
    return f"{op.name} '{text}'" if text else op.name


def value_name(value: SSAValue) -> str:
    """The name of the op that makes the value, or of the argument it is."""
    if isinstance(value, OpResult):
        text = location_text(value.op.location) or value.op.name
        return text if len(value.op.results) == 1 else f"{text}#{value.index}"
    assert isinstance(value, BlockArgument)
    return location_text(value.location) or f"argument {value.index}"
