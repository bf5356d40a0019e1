"""Kernels of rows that read their operands again in later sweeps, as integer layer normalization does."""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.codegen.kernels.elements import Number, Reduce
from zeropoint.codegen.kernels.row_kernel import Row, RowKernel
from zeropoint.codegen.kernels.word_scalars import Rebased
from zeropoint.codegen.llvm.types import Value

PARTS = 4
"""The most parts of the elements of a row with numbers of the next row between them; each is a vector or more."""


class PipelinedRows(RowKernel):
    """Each row's last sweep after the other sweeps of the next row, with the numbers of that row inside.

    The numbers of a row, such as the root of its variance, are a chain of a hundred scalar instructions. Here they are
    between elements that do not wait for them: those of the row before, and the first sweep of the row after.
    """

    def all_rows(self, ahead: dict[int, Value]) -> None:
        f, parts = self.f, self._parts()
        numbers = self.sweeps.numbers_in(self.rows.body, self.last)

        def reduced(index: Value) -> Row:
            row = self.row(index, ahead)
            for sweep in range(self.last):
                self.sweep(sweep, [row])
            for n, i in enumerate(self.rows.body):
                if isinstance(i.what, Reduce):
                    row.numbers[n] = f.pinned(row.numbers[n])
            return row

        def row_of(index: Value, values: Sequence[Value]) -> Row:
            row = self.row(index, ahead)
            row.numbers.update(zip(numbers, values, strict=True))
            return row

        def both(index: Value, values: list[Value]) -> list[Value]:
            following, row = reduced(f.add(index, 1)), row_of(index, values)
            for part, (begin, end) in enumerate(parts):
                self._write(begin, end, row)
                self._some_numbers(part, len(parts), following)
            return [following.numbers[n] for n in numbers]

        def rows(begin: Value, _: list[Value]) -> None:
            end, first = f.add(self.end, -1), reduced(begin)
            self._some_numbers(0, 1, first)
            values = f.loop(begin, end, 1, both, [first.numbers[n] for n in numbers])
            self._write(0, self.length, row_of(end, values))

        # Once, unless there are no rows.
        f.loop(self.begin, f.minimum(f.add(self.begin, 1), self.end), 1, rows)

    def _parts(self) -> list[tuple[int, int]]:
        """Where the parts of a row begin and end; the last one ends with the row."""
        count = max(1, min(PARTS, self.vectors))
        ends = [self.vectors * part // count * self.lanes for part in range(count)]
        return list(zip(ends, [*ends[1:], self.length], strict=True))

    def _write(self, begin: int, end: int, row: Row) -> None:
        """Compute the elements of a part of the last sweep."""
        factors = [i.arguments[1] for i in self.rows.body if isinstance(i.what, Rebased)]
        if factors:
            rare = self.f.compare("ne", self.f.lane(row.numbers[factors[0]], 0), 1)
            self.f.branch(rare, lambda: self._elements(begin, end, row), lambda: self._plain(begin, end, row))
        else:
            self._elements(begin, end, row)

    def _plain(self, begin: int, end: int, row: Row) -> None:
        """The same of a row whose `Rebased` values are their operands."""
        row.rebased = False
        self._elements(begin, end, row)
        row.rebased = True

    def _elements(self, begin: int, end: int, row: Row) -> None:
        whole = (end - begin) // self.lanes * self.lanes

        def some(at: Value, _: list[Value]) -> None:
            self.computed(self.last, self.lanes, at, (), [row])

        self.f.loop(begin, begin + whole, self.lanes, some)
        for at, count in self.rest() if end == self.length else ():
            self.computed(self.last, count, at, (), [row])

    def _some_numbers(self, part: int, parts: int, row: Row) -> None:
        """Compute one of some parts of the numbers of the last sweep, here and not where they are used."""
        body, every = self.rows.body, self.numbers_before(self.last)
        steps = [n for n in every if not isinstance(body[n].what, Number)]
        begin, end = (len(steps) * k // parts for k in (part, part + 1))
        needed = {k for n in steps[end:] for k in body[n].arguments}
        for n in every:
            if n in row.numbers or n in steps[end:]:
                continue
            row.numbers[n] = self.number(n, row)
            if n in needed and n in steps[begin:]:
                row.numbers[n] = self.f.pinned(row.numbers[n])
        if part == parts - 1:
            self.store_numbers(row)
