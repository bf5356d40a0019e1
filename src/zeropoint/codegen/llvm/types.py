"""LLVM's types and operands as text: the parts of a function's lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VECTOR = re.compile(r"<(\d+) x (\w+)>")


@dataclass(frozen=True, slots=True)
class Value:
    """An operand: its LLVM type, and a name or a literal."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def vector(count: int, element: str) -> str:
    """The vector type of `count` elements; also a vector if `count` is 1."""
    return f"<{count} x {element}>"


def lanes(type_: str) -> int:
    """The number of elements of a vector type. Raises ValueError for another type."""
    found = _VECTOR.fullmatch(type_)
    if found is None:
        raise ValueError(f"found {type_}, expected a vector type")
    return int(found[1])


def element(type_: str) -> str:
    """The element type of a vector type; a scalar type is returned unchanged."""
    found = _VECTOR.fullmatch(type_)
    return type_ if found is None else found[2]


def bytes_of(type_: str) -> int:
    """The size of a type in memory, in bytes. Its elements must be whole bytes."""
    sizes = {"ptr": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8}
    of = element(type_)
    each = sizes[of] if of in sizes else int(of[1:]) // 8
    return each * (lanes(type_) if type_.startswith("<") else 1)


def constant(type_: str, value: int) -> Value:
    """An integer literal; for a vector type, a splat."""
    if type_.startswith("<"):
        return Value(type_, f"splat ({element(type_)} {value})" if value else "zeroinitializer")
    return Value(type_, str(value))


def i64(value: int) -> Value:
    """A 64-bit literal: sizes, offsets, counters."""
    return Value("i64", str(value))
