"""Kernels of rows with values that later sweeps need: several rows at once, sweep by sweep."""

from __future__ import annotations

from zeropoint.codegen.kernels.row_kernel import RowKernel
from zeropoint.codegen.llvm.types import Value, i64


class GroupedRows(RowKernel):
    """A sweep of all rows of a group, then the next one: a row's elements do not wait for its numbers.

    Rows that are held in registers follow each other, in one block of code. Others are side by side in one loop: their
    sums are chains of additions that do not wait for each other.
    """

    def all_rows(self, ahead: dict[int, Value]) -> None:
        f, together = self.f, self.rows.together
        buffers = [{**ahead, **self.buffers(() if self.held else self.sweeps.kept)} for _ in range(together)]

        def group(first: Value, count: int) -> None:
            rows = [self.row(f.add(first, n), buffers[n]) for n in range(count)]
            for sweep in range(self.last + 1):
                for some in [[row] for row in rows] if self.held else [rows]:
                    self.sweep(sweep, some)

        # The last rows of an incomplete group are computed alone.
        rest = f.binary("urem", f.binary("sub", self.end, self.begin), i64(together))
        whole = f.binary("sub", self.end, rest)
        f.loop(self.begin, whole, together, lambda first, _: group(first, together))
        f.loop(whole, self.end, 1, lambda row, _: group(row, 1))
