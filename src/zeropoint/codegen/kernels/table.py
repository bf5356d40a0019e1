"""A function of activation bytes by look-up: `fxpmath.table`.

A table of 256 entries is two halves of eight parts of 16. Where the machine looks bytes up in a register by four bits,
and gives 0 where bit 7 is set, a vector x is looked up in each part n: x - 16 n, with signed saturation, is negative
for bytes before the part and for those of the other half, and has the right four bits for all from the part on. The
parts hold what an entry differs by (exclusive or) from that of the part before, and what is found is combined by
exclusive or. Elsewhere bytes are looked up one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64
from zeropoint.numerics.arrays import IntArray


@dataclass(frozen=True)
class Table:
    """Rows of `length` bytes (a multiple of 16) at the given strides."""

    rows: int
    length: int
    in_row: int
    out_row: int

    @property
    def pieces(self) -> int:
        """Pieces of a long row, so that threads can share one."""
        return -(-self.length // 4096) if self.rows < 8 else 1

    def tasks(self, isa: InstructionSet) -> int:
        """Rows times pieces of a row."""
        return self.rows * self.pieces

    @staticmethod
    def pack(isa: InstructionSet, entries: IntArray) -> bytes:
        """Entries of stored integers -128 to 127 as activation bytes, by activation byte."""
        stored = (np.arange(256) - isa.offset).astype(np.uint8).view(np.int8).astype(np.int64)
        packed = ((entries[stored + 128] + isa.offset) & 255).astype(np.uint8)
        if isa.look_up is not None:
            parts = packed.reshape(2, 8, 16)
            parts[:, 1:] ^= parts[:, :-1].copy()
        return packed.tobytes()

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, table, output, begin, end)`."""
        f = module.kernel(name, "in", "noalias w", "out")
        source, table, out, begin, end = f.arguments
        piece = -(-self.length // (self.pieces * 16)) * 16
        wide = _registers(f, isa, table)
        narrow = wide if isa.narrowest is isa else _registers(f, isa.narrowest, table)

        def task(index: Value, _: list[Value]) -> None:
            row = f.binary("udiv", index, i64(self.pieces))
            start = f.mul(f.binary("sub", index, f.mul(row, self.pieces)), piece)
            stop = f.minimum(f.add(start, piece), i64(self.length))
            here, there = f.at(source, f.mul(row, self.in_row)), f.at(out, f.mul(row, self.out_row))
            if isa.look_up is None:
                f.loop(start, stop, 1, lambda place, _: _one(f, table, here, there, place))
                return
            middle = f.add(start, f.binary("and", f.binary("sub", stop, start), i64(-isa.bytes)))
            f.loop(start, middle, isa.bytes, lambda place, _: _vector(f, isa, wide, here, there, place))
            if isa.narrowest is not isa:
                f.loop(middle, stop, 16, lambda place, _: _vector(f, isa.narrowest, narrow, here, there, place))

        f.loop(begin, end, 1, task)
        f.ret()


def _registers(f: Function, isa: InstructionSet, table: Value) -> list[Value]:
    """The sixteen parts of the table, each repeated over the lanes of a vector."""
    if isa.look_up is None:
        return []
    parts = [f.load("<16 x i8>", table, 16 * n, align=16) for n in range(16)]
    return [f.shuffle(part, None, [*range(16)] * isa.lanes) for part in parts]


def _vector(f: Function, isa: InstructionSet, parts: list[Value], source: Value, out: Value, place: Value) -> None:
    assert isa.look_up is not None
    x = f.load(isa.i8, source, place)
    halves = x, f.binary("xor", x, constant(isa.i8, -128))
    found: list[Value] = []
    for n, entries in enumerate(parts):
        half, index = halves[n // 8], 16 * (n % 8)
        if index:
            half = f.call(isa.i8, f"llvm.ssub.sat.v{isa.bytes}i8", half, constant(isa.i8, index))
        found.append(f.call(isa.i8, isa.look_up, entries, half))
    while len(found) > 1:
        found = [f.binary("xor", left, right) for left, right in zip(found[::2], found[1::2], strict=True)]
    f.store(found[0], out, place)


def _one(f: Function, table: Value, source: Value, out: Value, place: Value) -> None:
    index = f.cast("zext", f.load("i8", source, place), "i64")
    f.store(f.load("i8", table, index), out, place)
