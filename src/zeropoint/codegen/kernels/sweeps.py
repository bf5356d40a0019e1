"""The sweeps of a kernel of rows: the scalars that each sweep computes, and those that it keeps for later sweeps."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.elements import Gather, Number, Read, Reduce, Scalars
from zeropoint.codegen.llvm.types import WIDTHS


class Sweeps:
    """The scalars of a body by the sweep that computes them.

    `wide` says for each scalar whether it differs between the elements of a row. `known` is the number of successive
    reductions after which it can be computed. `needed` lists the scalars that each sweep computes, and `kept` has those
    that a later sweep also needs.

    Scalars that are the same in all rows are computed ahead. `before` lists those that differ between elements, and
    `ahead` has the ones among them that rows need. `numbers_before` lists the numbers that they are computed from.
    """

    def __init__(self, sizes: Sequence[int], reads: Sequence[Access], body: Scalars):
        last = len(sizes) - 1
        self.wide: list[bool] = []
        self.known: list[int] = []
        for i in body:
            reduces = isinstance(i.what, Reduce)
            if isinstance(i.what, Read | Gather):
                operands = (i.what.operand,) if isinstance(i.what, Read) else i.what.operands
                self.wide.append(any(reads[n].strides[last] for n in operands))
            else:
                self.wide.append(not reduces and any(self.wide[n] for n in i.arguments))
            self.known.append(max((self.known[n] for n in i.arguments), default=0) + reduces)
        self.ahead = self._ahead(sizes, reads, body)
        self.before = self._closure(body, self.ahead)[0] if self.ahead else []
        self.numbers_before = self._numbers(body, self.before)
        self.needed: list[list[int]] = []
        self.kept: set[int] = set()
        computed: set[int] = set()
        for sweep in range(self.known[-1] + 1):
            wanted = {body[n].arguments[0] for n in self.reductions(body, sweep)}
            wanted |= {len(body) - 1} if sweep == self.known[-1] else set()
            found, kept = self._closure(body, wanted - self.ahead, self.ahead, computed)
            self.needed.append(found)
            self.kept |= kept
            computed |= set(found)

    def reductions(self, body: Scalars, sweep: int) -> list[int]:
        """The reductions at the end of a sweep."""
        return [n for n, i in enumerate(body) if isinstance(i.what, Reduce) and self.known[n] == sweep + 1]

    def numbers_in(self, body: Scalars, sweep: int) -> list[int]:
        """The numbers of a row from which a sweep computes elements."""
        used = {k for n in self.needed[sweep] for k in body[n].arguments} | {len(body) - 1}
        return [n for n in sorted(used) if not self.wide[n] and not isinstance(body[n].what, Number)]

    def _ahead(self, sizes: Sequence[int], reads: Sequence[Access], body: Scalars) -> set[int]:
        """The scalars that rows need and that are the same in all rows, except those that are only read."""
        still: list[bool] = []
        for i in body:
            moves = isinstance(i.what, Read) and any(reads[i.what.operand].strides[:-1])
            still.append(not isinstance(i.what, Reduce | Gather) and not moves and all(still[n] for n in i.arguments))
        # A single row shares nothing.
        if math.prod(sizes[:-1]) == 1:
            return set()
        used = {n for k, i in enumerate(body) for n in i.arguments if not still[k]}
        return {n for n in used if still[n] and self.wide[n] and not isinstance(body[n].what, Read)}

    def _numbers(self, body: Scalars, wide: Sequence[int]) -> list[int]:
        """The scalars from which the `wide` ones are computed and that do not differ between elements, in order."""
        found, waiting = set[int](), [k for n in wide for k in body[n].arguments if not self.wide[k]]
        while waiting:
            n = waiting.pop()
            if n not in found:
                found.add(n)
                waiting += body[n].arguments
        return sorted(found)

    def _closure(
        self, body: Scalars, wanted: set[int], there: Collection[int] = (), computed: Collection[int] = ()
    ) -> tuple[list[int], set[int]]:
        """The scalars to compute for the wanted ones, in order, and the scalars of earlier sweeps to keep for them.

        Scalars that are only read are read again instead of kept, and what is one step from them is computed again.
        """
        found, kept, waiting = set[int](), set[int](), sorted(wanted)
        while waiting:
            n = waiting.pop()
            if not self.wide[n] or n in found or n in there:
                continue
            # To read again costs no more than to read what was kept.
            if n in computed and not _is_read(body, n) and not self._is_step(body, n):
                kept.add(n)
                continue
            found.add(n)
            waiting += body[n].arguments
        return sorted(found), kept

    def _is_step(self, body: Scalars, n: int) -> bool:
        """Whether a scalar is one instruction from what is read, with a number of the row: less than to keep it."""
        i = body[n]
        one = i.name in ("add", "subtract", "multiply") and WIDTHS[i.type] <= 32
        return one and [_is_read(body, k) for k in i.arguments if self.wide[k]] == [True]


def _is_read(body: Scalars, n: int) -> bool:
    """Whether a scalar is read, or an integer that is widened as it is read. Both take one instruction."""
    i = body[n]
    if i.name == "convert" and i.type in ("i16", "i32"):
        n = i.arguments[0]
        return isinstance(body[n].what, Read) and body[n].type in ("i8", "i16")
    return isinstance(i.what, Read)
