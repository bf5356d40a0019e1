"""Kernels of rows: reductions along a row, and elements computed from them, as in softmax and layer normalization.

A kernel computes a row in sweeps. A sweep ends at a reduction to one number per row, which later sweeps use. Values
that later sweeps need stay in registers if the row is short, otherwise in a buffer on the stack. The last sweep writes
the output. Numbers of rows that other kernels need, too, are further outputs, with one element a row.

Float sums are computed in parts, in the order of `zeropoint.numerics.sums`: element n of a row is added to total n mod
16, then the totals are added by halves. Reductions whose result does not depend on the order have one total per vector
element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zeropoint.codegen.kernels.access import arranged, merged
from zeropoint.codegen.kernels.fewer_steps import in_fewer_steps
from zeropoint.codegen.kernels.finite_extremes import with_finite_extremes
from zeropoint.codegen.kernels.grouped_rows import GroupedRows, OverlappedRows
from zeropoint.codegen.kernels.pipelined_rows import PipelinedRows
from zeropoint.codegen.kernels.row_shape import STACK, RowShape
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module

ENOUGH = 4
"""The least rows for which numbers are brought into another order ahead of them."""


@dataclass(frozen=True)
class Rows(RowShape):
    """A kernel of rows."""

    def tasks(self, isa: InstructionSet) -> int:
        """One per row."""
        return self.count

    def arranged(self) -> Rows:
        """The same kernel with its loops over rows in the best order and adjacent loops merged."""
        accesses = (self.write, *self.numbers, *self.reads)
        loops = [d for d, size in enumerate(self.sizes[:-1]) if size != 1]
        loops.sort(key=lambda d: -abs(self.write.strides[d]))
        last = self.sizes[-1], tuple(access.strides[-1] for access in accesses)
        sizes, (write, *rest) = arranged(accesses, [*merged(self.sizes, accesses, loops), last])
        count = len(self.numbers)
        return Rows(sizes, tuple(rest[count:]), write, self.body, tuple(rest[:count]))

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, numbers..., begin, end)`."""
        numbers = (f"number{n}" for n in range(len(self.numbers)))
        f = module.kernel(name, *(f"in{n}" for n in range(len(self.reads))), "out", *numbers)
        rows = self._in_fewer_steps(isa)
        order = OverlappedRows if rows.overlaps(isa) else GroupedRows
        (order if rows.is_short or rows.sweeps.kept else PipelinedRows)(rows, isa, f).kernel()

    def _in_fewer_steps(self, isa: InstructionSet) -> Rows:
        """The same rows in fewer steps; those with numbers ahead of enough rows, if there is room on the stack."""

        body = with_finite_extremes(self.body, isa)

        def made(*, words: bool) -> Rows:
            return replace(self, body=in_fewer_steps(body, self.sweeps.wide, self.length, isa, words=words))

        found = made(words=self.count >= ENOUGH)
        return found if found.stack() <= STACK else made(words=False)
