"""Tile registers of x86 (AMX): matrices of up to 16 rows of 64 bytes, and the product of two of them.

Intel's manual, volume 1, chapter 18, "Programming with Intel AMX". A configuration gives each of the eight registers
its number of rows and the bytes of a row, and clears all of them. With A (M rows of 4 K unsigned bytes), B (K rows of N
times four signed bytes) and C (M rows of N i32), TDPBUSD computes

    C[m][n] += sum over k < K, t < 4 of A[m][4 k + t] B[k][4 n + t]        modulo 2^32

Linux keeps the registers of a process that has asked for them (`machine.request_tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, i64

ROWS = 16
"""The maximum number of rows of a register."""

_MULTIPLIES = "memory(inaccessiblemem: readwrite)"
_READS = "memory(argmem: read, inaccessiblemem: readwrite)"
_WRITES = "memory(argmem: write, inaccessiblemem: readwrite)"
"""The effects of instructions. To LLVM, the registers are memory that no pointer reaches, so that it may keep what was
loaded before an instruction."""


@dataclass(frozen=True)
class TileShape:
    """The shape of a register: the number of rows, and the bytes of a row."""

    rows: int
    size: int


class TileRegisters:
    """Emits instructions on registers of the given shapes, from register 0 on. `prefix` is that of the intrinsics."""

    def __init__(self, f: Function, prefix: str, shapes: Sequence[TileShape]):
        self._f, self._prefix, self._shapes = f, prefix, shapes

    def configure(self) -> None:
        """Give the registers their shapes, and clear them."""
        layout = bytearray(64)
        layout[0] = 1  # the palette
        for number, shape in enumerate(self._shapes):
            layout[16 + 2 * number : 18 + 2 * number] = shape.size.to_bytes(2, "little")
            layout[48 + number] = shape.rows
        words = [int.from_bytes(layout[n : n + 8], "little") for n in range(0, len(layout), 8)]
        self._perform("ldtilecfg", self._f.module.table(words))

    def release(self) -> None:
        """Clear the registers, so that the system need not save them."""
        self._perform("tilerelease")

    def load(self, number: int, pointer: Value, stride: int) -> None:
        """Load the rows of a register, which are `stride` bytes apart."""
        shape = self._shapes[number]
        self._f.touch_rows(pointer, shape.rows, stride, shape.size)
        self._perform("tileloadd64", _register(number), pointer, i64(stride), effects=_READS)

    def store(self, number: int, pointer: Value, stride: int) -> None:
        """Store the rows of a register `stride` bytes apart."""
        shape = self._shapes[number]
        self._f.touch_rows(pointer, shape.rows, stride, shape.size, write=True)
        self._perform("tilestored64", _register(number), pointer, i64(stride), effects=_WRITES)

    def multiply(self, sums: int, left: int, right: int) -> None:
        """Add the products of u8 in register `left` and i8 in register `right` to the sums."""
        self._perform("tdpbusd", *map(_register, (sums, left, right)), effects=_MULTIPLIES)

    def _perform(self, name: str, *arguments: Value, effects: str = "") -> None:
        self._f.perform(f"{self._prefix}.{name}", *arguments, effects=effects)


def _register(number: int) -> Value:
    return Value("i8", str(number))
