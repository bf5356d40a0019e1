"""Rows of a table by their numbers: an embedding."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module, Value, i64


@dataclass(frozen=True)
class GatherRows:
    """`count` rows of `length` bytes, from a table of `rows` rows `row` bytes apart, written `out_row` bytes apart.

    Row numbers are integers of LLVM type `index`, side by side; one outside of the table is the nearest inside
    (StableHLO, "gather": start indices are clamped).
    """

    count: int
    length: int
    rows: int
    row: int
    out_row: int
    index: str

    def tasks(self, isa: InstructionSet) -> int:
        """One a row."""
        return self.count

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(table, numbers, output, begin, end)`."""
        f = module.kernel(name, "noalias table", "noalias numbers", "noalias out")
        table, numbers, out, begin, end = f.arguments
        size = int(self.index[1:]) // 8

        def one(place: Value, _: list[Value]) -> None:
            number = f.cast("sext", f.load(self.index, numbers, f.mul(place, size), align=size), "i64")
            inside = f.minimum(f.maximum(number, i64(0)), i64(self.rows - 1))
            source, target = f.at(table, f.mul(inside, self.row)), f.at(out, f.mul(place, self.out_row))
            f.copy(target, source, self.length)

        f.loop(begin, end, 1, one)
        f.ret()
