"""Kernels of rows with values that later sweeps need: several rows at once, sweep by sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zeropoint.codegen.kernels.row_kernel import Row, RowKernel
from zeropoint.codegen.llvm.types import Value, i64

RowGroup = Callable[[Value], list[Row]]
"""The rows of a group, from the number of the first one."""


class GroupedRows(RowKernel):
    """A sweep of all rows of a group, then the next one: a row's elements do not wait for its numbers.

    Rows that are held in registers follow each other, in one block of code. Others are side by side in one loop: their
    sums are chains of additions that do not wait for each other.
    """

    def all_rows(self, ahead: dict[int, Value]) -> None:
        f, together = self.f, self.rows.together
        held = () if self.held else self.sweeps.kept
        buffers = [{**ahead, **self.buffers(held)} for _ in range(together)]

        def group(first: Value, count: int) -> list[Row]:
            return [self.row(f.add(first, n), buffers[n]) for n in range(count)]

        def alone(first: Value, _: list[Value]) -> None:
            self._every_sweep(group(first, 1))

        # The last rows of an incomplete group are computed alone.
        rest = f.binary("urem", f.binary("sub", self.end, self.begin), i64(together))
        whole = f.binary("sub", self.end, rest)
        self.groups(self.begin, whole, lambda first: group(first, together))
        f.loop(whole, self.end, 1, alone)

    def groups(self, begin: Value, end: Value, group: RowGroup) -> None:
        """Compute the groups of rows from `begin` to `end`."""
        self.f.loop(begin, end, self.rows.together, lambda first, _: self._every_sweep(group(first)))

    def _every_sweep(self, rows: Sequence[Row]) -> None:
        for sweep in range(self.last + 1):
            for some in [[row] for row in rows] if self.held else [rows]:
                self.sweep(sweep, some)


class OverlappedRows(GroupedRows):
    """The last sweep of a group and the first one of the next group in one loop.

    The first sweep waits for memory, the last one for arithmetic and stores.
    """

    def groups(self, begin: Value, end: Value, group: RowGroup) -> None:
        f, together = self.f, self.rows.together
        numbers = self.sweeps.reductions(self.rows.body, 0)

        def values(rows: Sequence[Row]) -> list[Value]:
            return [row.numbers[n] for row in rows for n in numbers]

        def continued(first: Value, values: Sequence[Value]) -> list[Row]:
            """A group after its first sweep, before its last one."""
            rows, given = group(first), iter(values)
            self.prepare(0, rows)
            for row in rows:
                row.numbers.update((n, next(given)) for n in numbers)
            for sweep in range(1, self.last):
                self.sweep(sweep, rows)
            return rows

        def both(first: Value, carried: list[Value]) -> list[Value]:
            rows, following = continued(first, carried), group(f.add(first, together))
            self.prepare(self.last, rows)
            self.prepare(0, following)

            def step(at: Value | int, count: int, totals: Sequence[Value]) -> list[Value]:
                # First, because the elements that the first sweep keeps are written over those of `rows`.
                self.computed(self.last, count, at, (), rows)
                return self.added(0, at, count, following, totals)

            self.finish(0, following, self.over_elements(step, self.neutral(0, following)))
            return values(following)

        def all_groups(begin: Value, _: list[Value]) -> None:
            last, first = f.add(end, -together), group(begin)
            self.sweep(0, first)
            self.sweep(self.last, continued(last, f.loop(begin, last, together, both, values(first))))

        # Once, unless there are no groups.
        f.loop(begin, f.minimum(f.add(begin, 1), end), 1, all_groups)
