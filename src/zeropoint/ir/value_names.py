"""Names of the original model in a program's text: `%stem_conv`, `dense_resource<stem_conv_weight>`.

A value is named after the location of its op or argument. In a body without locations, it is named after the op that
has the body. A handle is named after the constant that uses it. Characters that MLIR does not allow in a name become
`_`. A name of such characters only, like `日`, becomes the hexadecimal digits of its UTF-8, as in MLIR.

If several values have the same name, the value that the original model has keeps it: the result of the kernel, or the
last one. The others get `_1`, `_2`, in program order. So the same program always has the same text, and parsing and
printing a text does not change it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import DenseResourceAttr, FusedLoc, LocationAttr, NameLoc, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from zeropoint.ir.annotations import FACTS
from zeropoint.ir.locations import location_text
from zeropoint.ir.stablehlo import ConstantOp

_FOREIGN = re.compile(r"[^A-Za-z0-9_]+")


class Names:
    """Hands out unique names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def free(self, wanted: str) -> str:
        """The wanted name, with the first numeric suffix that makes it unique if it is taken."""
        name, number = wanted, self._numbers.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._numbers[wanted] = number
        self._taken.add(name)
        return name

    def keep(self, name: str) -> str:
        """Hand out exactly this name, and not again."""
        self._taken.add(name)
        return name

    def give_back(self, name: str) -> None:
        """Let others have a name again."""
        self._taken.discard(name)

    def __contains__(self, name: str) -> bool:
        return name in self._taken


def identifier(name: str) -> str | None:
    """A name of the model as an MLIR identifier; None if it consists of punctuation only."""
    found = _FOREIGN.sub("_", name).strip("_")
    if not found and not name.isascii():
        found = name.encode().hex().upper()
    if not found:
        return None
    return found if not found[0].isdigit() else f"_{found}"


def value_identifier(value: SSAValue) -> str | None:
    """The identifier for a value, or None if the model has no name for it."""
    location = value.owner.location if isinstance(value.owner, Operation) else getattr(value, "location", None)
    if isinstance(location, UnknownLoc):  # in a body that a frontend or a pass created
        location = _enclosing(value)
    text = location_text(location) if isinstance(location, NameLoc | FusedLoc) else None
    return None if text is None else identifier(text)


def named_values(arguments: Iterable[BlockArgument], ops: Iterable[Operation]) -> dict[str, SSAValue]:
    """Maps identifiers to the values that keep them: an argument, else the last value with facts, else the last one."""
    given = {identifier_of(argument): argument for argument in reversed(list(arguments))}
    found: dict[str | None, SSAValue] = {}
    explained: dict[str | None, SSAValue] = {}
    for op in ops:
        for result in op.results[:1]:
            (explained if FACTS in op.attributes else found)[identifier_of(result)] = result
    return {name: value for name, value in {**found, **explained, **given}.items() if name is not None}


def identifier_of(value: SSAValue) -> str | None:
    """The identifier that the model, or else the parsed text, gives to a value; None without one."""
    return value_identifier(value) or value.name_hint


def _enclosing(value: SSAValue) -> LocationAttr | None:
    """The location of the op whose region has the value."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    op = None if block is None else block.parent_op()
    return None if op is None else op.location


def handle_names(ops: Iterable[Operation]) -> Mapping[str, str]:
    """Maps the handles of the constants among `ops` to readable names. Handles without a name are not in the result."""
    names, found = Names(), dict[str, str]()
    for op in ops:
        if isinstance(op, ConstantOp) and isinstance(op.value, DenseResourceAttr):
            handle = op.value.resource_handle.data
            wanted = value_identifier(op.output)
            if handle not in found and wanted is not None:
                found[handle] = names.free(wanted)
    return found
