"""Builder for a function of the TOSA dialect: values, constants, ops, and the text of the module.

Source: TOSA 1.0, and the MLIR dialect of that version, in which shapes and zero points are operands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import f32

from zeropoint.export.dense import dense_text
from zeropoint.export.errors import ExportError
from zeropoint.ir.floats import format_float
from zeropoint.ir.tensors import Array

ELEMENTS = {"bool": "i1", "float32": "f32", "int8": "i8", "int16": "i16", "int32": "i32"}
"""Element types by NumPy dtype name."""
MOST_DIMENSIONS = 6
"""The maximum rank of a tensor: MAX_RANK of TOSA's level 8K."""
LISTED = 16
"""The maximum number of integers of a constant that is written as a list. Larger ones are in hexadecimal form."""
HEADER = "// zeropoint: "
"""The beginning of a file's first line. JSON about the exported program follows."""


@dataclass(frozen=True)
class TosaValue:
    """A value of the function. `element` is `shape` for a constant shape, of type `!tosa.shape`."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """The MLIR type as text."""
        if self.element == "shape":
            return f"!tosa.shape<{self.shape[0]}>"
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"


@dataclass
class FunctionBuilder:
    """The function @main under construction. Equal constants are one value. The next ops get the name `location`."""

    lines: list[str] = field(default_factory=list[str])
    location: str | None = None
    arguments: list[tuple[TosaValue, str]] = field(default_factory=list[tuple[TosaValue, str]])
    results: list[tuple[TosaValue, str]] = field(default_factory=list[tuple[TosaValue, str]])
    known: dict[str, TosaValue] = field(default_factory=dict[str, TosaValue])
    count: int = 0

    def argument(self, name: str, shape: Sequence[int], element: str) -> TosaValue:
        """Add an input of the function, with its name in the model."""
        value = TosaValue(f"%arg{len(self.arguments)}", tuple(shape), element)
        self.arguments.append((value, name))
        return value

    def result(self, name: str, value: TosaValue) -> None:
        """Return a value. Arguments and values that are returned already are copied, so that each result has a name."""
        if any(value is other for other, _ in (*self.arguments, *self.results)):
            value = self.op("identity", [value], value.shape, value.element)
        self.results.append((value, name))

    def constant(self, array: Array) -> TosaValue:
        """Add a constant. Raises ExportError for an element type that TOSA does not have."""
        element = ELEMENTS.get(array.dtype.name)
        if element is None:
            raise ExportError(f"found a constant of {array.dtype.name}, expected one of: {', '.join(ELEMENTS)}")
        made = TosaValue("", array.shape, element)
        attribute = f"{_dense(array)} : {made.type}"
        return self._known(f'"tosa.const"() <{{values = {attribute}}}> : () -> {made.type}', array.shape, element)

    def sizes(self, numbers: Sequence[int]) -> TosaValue:
        """Add a constant shape, or another list of sizes: starts, multiples, paddings."""
        rank = len(numbers)
        dense = f"dense<{list(numbers) if rank else ''}> : tensor<{rank}xindex>"
        return self._known(f"tosa.const_shape {{values = {dense}}} : () -> !tosa.shape<{rank}>", (rank,), "shape")

    def op(
        self,
        name: str,
        operands: Sequence[TosaValue],
        shape: Sequence[int],
        element: str,
        attributes: Mapping[str, str] | None = None,
    ) -> TosaValue:
        """Add an op with one result. Raises ExportError for a shape of more dimensions than TOSA's level 8K allows."""
        if len(shape) > MOST_DIMENSIONS:
            found = f"found a tensor of {len(shape)} dimensions, expected at most {MOST_DIMENSIONS}"
            raise ExportError(f"{self.location or name}: {found}: TOSA's level 8K")
        listed = ", ".join(f"{key} = {text}" for key, text in (attributes or {}).items())
        names, types = (", ".join(part) for part in zip(*((v.name, v.type) for v in operands), strict=True))
        made = TosaValue(self._name(), tuple(shape), element)
        body = f" {{{listed}}}" if listed else ""
        self._line(made, f"tosa.{name} {names}{body} : ({types}) -> {made.type}")
        return made

    def _known(self, text: str, shape: tuple[int, ...], element: str) -> TosaValue:
        if text not in self.known:
            self.known[text] = made = TosaValue(self._name(), shape, element)
            self._line(made, text, located=False)
        return self.known[text]

    def _name(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def _line(self, value: TosaValue, text: str, *, located: bool = True) -> None:
        location = f" loc({_quoted(self.location)})" if located and self.location else ""
        self.lines.append(f"{value.name} = {text}{location}")

    def text(self, header: Mapping[str, object]) -> str:
        """The text of the module, after a comment with `header` as JSON."""
        given = ", ".join(f"{value.name}: {value.type} {_named(name)}" for value, name in self.arguments)
        kinds = ", ".join(f"{value.type} {_named(name)}" for value, name in self.results)
        returned = ", ".join(value.name for value, _ in self.results)
        types = ", ".join(value.type for value, _ in self.results)
        body = "\n    ".join([*self.lines, f"return {returned} : {types}"])
        signature = f"func.func @main({given}) -> ({kinds})"
        return f"{HEADER}{json.dumps(header, sort_keys=True)}\nmodule {{\n  {signature} {{\n    {body}\n  }}\n}}\n"


def _named(name: str) -> str:
    return f"{{tosa.tensor_name = {_quoted(name)}}}"


def _quoted(text: str) -> str:
    """A string literal of MLIR. Quotes, backslashes and bytes that are not printable ASCII become two hex digits."""
    return '"' + "".join(c if c.isprintable() and c.isascii() and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())


def _dense(array: Array) -> str:
    """The elements of a constant: numbers if there are few, else hexadecimal form."""
    if array.size and (array == array.reshape(-1)[0]).all():
        number = array.reshape(-1)[0]
        if array.dtype == np.bool_:
            return f"dense<{str(bool(number)).lower()}>"
        return f"dense<{format_float(float(number), f32) if array.dtype.kind == 'f' else int(number)}>"
    if array.dtype.kind == "i" and array.size <= LISTED:
        return f"dense<{array.tolist() if array.size else ''}>"
    return dense_text(array)


def integers(values: Sequence[int], element: str = "i64") -> str:
    """An array attribute: `array<i64: 1, 2>`."""
    return f"array<{element}: {', '.join(map(str, values))}>"
