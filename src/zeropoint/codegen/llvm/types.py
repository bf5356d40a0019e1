"""LLVM's types and operands as text: the parts of a function's lines."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass

FLOATS = frozenset(("float", "double"))
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "float": 32, "double": 64, "ptr": 64}
"""The widths of element types in bits."""

_VECTOR = re.compile(r"<(\d+) x (\w+)>")


@dataclass(frozen=True, slots=True)
class Value:
    """An operand: its LLVM type, and a name or a literal."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def vector(count: int, element: str) -> str:
    """The vector type of `count` elements. It is a vector even if `count` is 1."""
    return f"<{count} x {element}>"


def lanes(type_: str) -> int:
    """The number of elements of a vector type. Raises ValueError for another type."""
    found = _VECTOR.fullmatch(type_)
    if found is None:
        raise ValueError(f"found {type_}, expected a vector type")
    return int(found[1])


def element(type_: str) -> str:
    """The element type of a vector type. A scalar type is returned unchanged."""
    found = _VECTOR.fullmatch(type_)
    return type_ if found is None else found[2]


def like(value: Value, type_: str) -> str:
    """A vector type with the same number of elements and another element type."""
    return vector(lanes(value.type), type_)


def suffix(type_: str) -> str:
    """The suffix of a type in names of intrinsics: v16i32, v8f64."""
    names = {"float": "f32", "double": "f64"}
    name = names.get(element(type_), element(type_))
    return f"v{lanes(type_)}{name}" if type_.startswith("<") else name


def bytes_of(type_: str) -> int:
    """The size of a type in memory in bytes. Elements must be whole bytes."""
    return WIDTHS[element(type_)] // 8 * (lanes(type_) if type_.startswith("<") else 1)


def literal(type_: str, number: float) -> str:
    """A number of an element type as LLVM text. A float is written as the bits of the f64 of the same value."""
    if type_ == "float":
        number = ctypes.c_float(number).value
    if type_ in FLOATS:
        return f"0x{struct.pack('>d', number).hex().upper()}"
    return str(int(number))


def splat(type_: str, number: float) -> Value:
    """A number in every element of a vector."""
    return Value(type_, f"splat ({element(type_)} {literal(element(type_), number)})")


def constant(type_: str, number: float) -> Value:
    """A literal. For a vector type, it is a splat, or `zeroinitializer` for the integer 0."""
    if not type_.startswith("<"):
        return Value(type_, literal(type_, number))
    return Value(type_, "zeroinitializer") if number == 0 and element(type_) not in FLOATS else splat(type_, number)


def i64(value: int) -> Value:
    """A 64-bit literal: sizes, offsets, counters."""
    return Value("i64", str(value))
