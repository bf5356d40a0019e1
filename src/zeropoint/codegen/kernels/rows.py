"""Kernels of rows: reductions along a row, and elements computed from them, as in softmax and layer norm.

A row is read from memory once and computed in sweeps. A sweep ends at a reduction to one number per row, which later
sweeps use. Values that later sweeps need stay in registers if a row is a few vectors, otherwise in a buffer on the
stack. The last sweep writes the output.

Float sums are computed in parts, in the order of `zeropoint.numerics.sums`: element n of a row is added to total n mod
16, then the halves of the totals are added. Reductions that do not depend on order have as many totals as elements are
computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from zeropoint.codegen.kernels.access import Access, Elements, arranged, merged, row_addresses
from zeropoint.codegen.kernels.combining import combined, filled_up, folded, identity, is_ordered, started
from zeropoint.codegen.kernels.elements import (
    Gather,
    Number,
    PairSum,
    Read,
    Reduce,
    Requantize,
    Scalar,
    Scalars,
    width_inside,
)
from zeropoint.codegen.kernels.fewer_steps import in_fewer_steps
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import WIDTHS, Value, constant, i64, lanes, splat, vector
from zeropoint.numerics.sums import PARTIALS

HELD = 8
"""The maximum number of vectors (of `lanes` elements) of a fully unrolled row; LLVM keeps in registers what fits."""
TOGETHER = 2
"""Rows computed at once, to hide the latency of reductions."""
STACK = 32 << 10
"""The maximum number of stack bytes of a kernel; threads of a host program may have small stacks."""


@dataclass(frozen=True)
class Rows:
    """`sizes` are the loops over rows, then the elements of a row; strides have an entry for each.

    Scalars are as in a nest; in addition, `Reduce` of all elements of the row.
    """

    sizes: tuple[int, ...]
    reads: tuple[Access, ...]
    write: Access
    body: Scalars

    def tasks(self, isa: InstructionSet) -> int:
        """One per row."""
        return math.prod(self.sizes[:-1])

    def arranged(self) -> Rows:
        """The same kernel with its loops over rows in the best order, adjacent ones merged."""
        accesses = (self.write, *self.reads)
        loops = [d for d, size in enumerate(self.sizes[:-1]) if size != 1]
        loops.sort(key=lambda d: -abs(self.write.strides[d]))
        last = self.sizes[-1], tuple(access.strides[-1] for access in accesses)
        sizes, (write, *reads) = arranged(accesses, [*merged(self.sizes, accesses, loops), last])
        return Rows(sizes, tuple(reads), write, self.body)

    @cached_property
    def sweeps(self) -> Sweeps:
        """The assignment of scalars to sweeps."""
        return Sweeps(self)

    def lanes(self, isa: InstructionSet) -> int:
        """Number of elements computed at once: several registers of the widest type, side by side.

        A single register would be bound by latency, except for requantization, which has many instructions.
        """
        wide = [i for n, i in enumerate(self.body) if self.sweeps.wide[n]]
        widest = max(8, *map(width_inside, wide)) if wide else 8
        together = 1 if any(isinstance(i.what, Requantize) for i in wide) else isa.registers // 8
        most = max(1, together * 8 * isa.bytes // widest)
        if any(_is_ordered(i) for i in self.body):
            # A vector then has an element of each of the 16 parts of the specified schedule.
            most = max(most, PARTIALS)
        # A vector longer than the row would have nothing to compute.
        return min(most, 1 << (self.sizes[-1].bit_length() - 1))

    def stack(self) -> int:
        """Upper bound on the stack bytes of a row kernel."""
        numbers = [*self.sweeps.ahead, *TOGETHER * list(self.sweeps.kept)]
        return sum(-(-self.sizes[-1] * WIDTHS[self.body[n].type] // 512) * 64 for n in numbers)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, begin, end)`."""
        f = module.kernel(name, *(f"in{n}" for n in range(len(self.reads))), "out")
        body = in_fewer_steps(self.body, self.sweeps.wide, self.sizes[-1], isa)
        _Emitter(replace(self, body=body), isa, f).kernel()


def _is_ordered(i: Scalar) -> bool:
    return isinstance(i.what, Reduce) and is_ordered(i.what.op, i.type)


def _is_read(body: Scalars, n: int) -> bool:
    """Whether a scalar is read, or an integer that is widened as it is read, which is one instruction too."""
    i = body[n]
    if i.name == "convert" and i.type in ("i16", "i32"):
        n = i.arguments[0]
        return isinstance(body[n].what, Read) and body[n].type in ("i8", "i16")
    return isinstance(i.what, Read)


def _of(i: Scalar) -> Reduce:
    assert isinstance(i.what, Reduce)
    return i.what


class Sweeps:
    """The scalars of a body by the sweep that computes them.

    `wide` says for each scalar whether it differs between elements; `known` is the number of successive reductions
    after which it can be computed. `needed` lists the scalars that each sweep computes, `kept` those that a later sweep
    also needs. Scalars that are the same in all rows are computed ahead: `before` lists them, `ahead` those that rows
    need, `numbers_before` the ones that they read and that do not differ between elements either.
    """

    def __init__(self, rows: Rows):
        body, last = rows.body, len(rows.sizes) - 1
        self.wide: list[bool] = []
        self.known: list[int] = []
        for i in body:
            reduces = isinstance(i.what, Reduce)
            if isinstance(i.what, Read | Gather):
                operands = (i.what.operand,) if isinstance(i.what, Read) else i.what.operands
                self.wide.append(any(rows.reads[n].strides[last] for n in operands))
            else:
                self.wide.append(not reduces and any(self.wide[n] for n in i.arguments))
            self.known.append(max((self.known[n] for n in i.arguments), default=0) + reduces)
        self.ahead = self._ahead(rows)
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

    def _ahead(self, rows: Rows) -> set[int]:
        """The scalars that rows need and that are the same in all rows, except those that are only read."""
        body, still = rows.body, list[bool]()
        for i in body:
            moves = isinstance(i.what, Read) and any(rows.reads[i.what.operand].strides[:-1])
            still.append(not isinstance(i.what, Reduce | Gather) and not moves and all(still[n] for n in i.arguments))
        # With one row there is nothing to share.
        if math.prod(rows.sizes[:-1]) == 1:
            return set()
        used = {n for k, i in enumerate(body) for n in i.arguments if not still[k]}
        return {n for n in used if still[n] and self.wide[n] and not isinstance(body[n].what, Read)}

    def _numbers(self, body: Scalars, wide: Sequence[int]) -> list[int]:
        """The row-constant scalars that the `wide` ones are computed from; in order."""
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
        """The scalars needed to compute the wanted ones, in order, and the earlier ones that must be kept for them.

        Scalars that are only read are read again instead of kept.
        """
        found, kept, waiting = set[int](), set[int](), sorted(wanted)
        while waiting:
            n = waiting.pop()
            if not self.wide[n] or n in found or n in there:
                continue
            # To read again costs no more than to read what was kept.
            if n in computed and not _is_read(body, n):
                kept.add(n)
                continue
            found.add(n)
            waiting += body[n].arguments
        return sorted(found), kept


class _Row:
    """The state of a row while it is computed."""

    def __init__(self, sources: list[Value], out: Value, buffers: dict[int, Value]):
        self.sources, self.out = sources, out
        self.buffers = buffers
        """Buffers for what is computed ahead of all rows and, for a long row, for what later sweeps need."""
        self.values: dict[tuple[int, int], Value] = {}
        """The computed values of a short row, by scalar and index."""
        self.numbers: dict[int, Value] = {}
        """Values that are the same for all elements, as vectors of one."""


class _Emitter:
    """Writes the kernel of rows."""

    def __init__(self, rows: Rows, isa: InstructionSet, f: Function):
        self.rows, self.f, self.sweeps = rows, f, rows.sweeps
        *self.sources, self.out, self.begin, self.end = f.arguments
        self.elements = Elements(f, isa, rows.reads)
        self.along, self.length, self.lanes = len(rows.sizes) - 1, rows.sizes[-1], rows.lanes(isa)
        self.vectors = self.length // self.lanes
        self.held = self.vectors <= HELD

    def kernel(self) -> None:
        f = self.f
        ahead = self._buffers(self.sweeps.ahead)
        buffers = [{**ahead, **self._buffers(() if self.held else self.sweeps.kept)} for _ in range(TOGETHER)]
        if ahead:
            self._ahead(_Row(self.sources, self.out, ahead))

        def task(index: Value, together: int) -> None:
            rows, strides = list[_Row](), [access.strides for access in (*self.rows.reads, self.rows.write)]
            for n in range(together):
                pointers = [*self.sources, self.out]
                *sources, out = row_addresses(f, f.add(index, n), self.rows.sizes[:-1], strides, pointers)
                rows.append(_Row(sources, out, buffers[n]))
            for sweep in range(len(self.sweeps.needed)):
                for row in rows:
                    self._sweep(sweep, row)

        # An odd last row is computed alone.
        whole = f.binary("sub", self.end, f.binary("urem", f.binary("sub", self.end, self.begin), i64(TOGETHER)))
        f.loop(self.begin, whole, TOGETHER, lambda index, _: task(index, TOGETHER))
        f.loop(whole, self.end, 1, lambda index, _: task(index, 1))
        f.ret()

    def _buffers(self, scalars: Collection[int]) -> dict[int, Value]:
        return {n: self.f.scratch(self._size(n) * self.length) for n in sorted(scalars)}

    def _ahead(self, row: _Row) -> None:
        """Compute the scalars that are the same in all rows."""
        for n in self.sweeps.numbers_before:
            row.numbers[n] = self._number(n, row)

        def some(at: Value | int, count: int) -> None:
            self._compute(self.sweeps.before, count, at, row)

        self.f.loop(0, self.vectors * self.lanes, self.lanes, lambda x, _: some(x, self.lanes))
        for at, count in self._rest():
            some(at, count)

    def _rest(self) -> Iterator[tuple[int, int]]:
        """The rest after whole vectors, in powers of two: (index, elements)."""
        at = self.vectors * self.lanes
        while rest := self.length - at:
            count = 1 << (rest.bit_length() - 1)
            yield at, count
            at += count

    def _sweep(self, sweep: int, row: _Row) -> None:
        """Compute the row numbers that are known now, then all elements, then the reductions."""
        body = self.rows.body
        for n, i in enumerate(body):
            if not self.sweeps.wide[n] and self.sweeps.known[n] == sweep and not isinstance(i.what, Reduce):
                row.numbers[n] = self._number(n, row)
        reductions = self.sweeps.reductions(body, sweep)
        totals = self._over_row(sweep, [body[n] for n in reductions], row)
        for n, total in zip(reductions, totals, strict=True):
            row.numbers[n] = self._total(body[n], total)

    def _number(self, n: int, row: _Row) -> Value:
        """A scalar that is the same for all elements of a row, as a vector of one."""
        body = self.rows.body
        return self.elements.value(body[n], body, row.numbers, 1, self.along, row.sources)

    def _over_row(self, sweep: int, reductions: Sequence[Scalar], row: _Row) -> list[Value]:
        """Compute all elements of a sweep. Returns a vector of partial totals per reduction."""
        f, end = self.f, self.vectors * self.lanes
        operands = [i.arguments[0] for i in reductions]
        neutral = [constant(vector(self._totals(i), i.type), identity(_of(i).op, i.type, i.signed)) for i in reductions]

        def added(totals: Sequence[Value], values: Sequence[Value], at: int) -> list[Value]:
            together = zip(reductions, totals, values, strict=True)
            return [self._added(i, total, more, at) for i, total, more in together]

        def some(at: Value | int, count: int) -> list[Value]:
            return self._elements(sweep, count, at, operands, row)

        totals = neutral
        if self.held:
            for at in range(0, end, self.lanes):
                totals = added(totals, some(at, self.lanes), 0)
        else:
            totals = f.loop(0, end, self.lanes, lambda x, c: added(c, some(x, self.lanes), 0), neutral, entered=True)
        for at, count in self._rest():
            totals = added(totals, some(at, count), at - end)
        return totals

    def _totals(self, reduction: Scalar) -> int:
        """The number of partial totals of a reduction before these are combined."""
        pairs = isinstance(self.rows.body[reduction.arguments[0]].what, PairSum)
        return min(self.lanes, PARTIALS) if _is_ordered(reduction) else max(1, self.lanes >> pairs)

    def _added(self, reduction: Scalar, total: Value, values: Value, at: int) -> Value:
        """Add elements to the partial totals. Element `at` goes to total `at` modulo their number."""
        f, count = self.f, lanes(total.type)
        for start in range(0, lanes(values.type), count):
            some = min(count, lanes(values.type) - start)
            part = values if some == lanes(values.type) else f.shuffle(values, None, range(start, start + some))
            if some < count:
                # Missing elements are the identity.
                same = identity(_of(reduction).op, reduction.type, reduction.signed)
                part = filled_up(f, part, (at + start) % count, count, same)
            total = self._both(reduction, total, part)
        return total

    def _both(self, reduction: Scalar, left: Value, right: Value) -> Value:
        return combined(self.f, _of(reduction).op, reduction, left, right)

    def _total(self, i: Scalar, total: Value) -> Value:
        """Combine a vector of partial totals and the initial value into one number."""
        return started(self.f, _of(i).op, i, _of(i).start, folded(self.f, _of(i).op, i, total))

    # `count` elements of a sweep, from index `at` of the row on.

    def _elements(self, sweep: int, count: int, at: Value | int, wanted: Sequence[int], row: _Row) -> list[Value]:
        """Compute elements, and store them in the last sweep. Returns the values of the `wanted` scalars."""
        found = self._compute(self.sweeps.needed[sweep], count, at, row)

        def value(n: int) -> Value:
            return found[n] if n in found else self._given(n, count, at, row)

        if sweep == len(self.sweeps.needed) - 1:
            write = self.rows.write
            result = value(len(self.rows.body) - 1)
            self.elements.store(result, write, self.along, write.moved(self.f, row.out, self.along, at))
        return [value(n) for n in wanted]

    def _compute(self, needed: Sequence[int], count: int, at: Value | int, row: _Row) -> dict[int, Value]:
        """Compute the `needed` scalars; return their values and the values of their arguments."""
        body = self.rows.body
        reads = zip(self.rows.reads, row.sources, strict=True)
        here = [read.moved(self.f, source, self.along, at) for read, source in reads]
        found: dict[int, Value] = {}
        for n in needed:
            if isinstance(at, int) and (n, at) in row.values:
                continue
            for k in body[n].arguments:
                if k not in found:
                    found[k] = self._given(k, count, at, row)
            found[n] = self.elements.value(body[n], body, found, count, self.along, here)
            self._keep(n, found[n], at, row)
        return found

    def _given(self, n: int, count: int, at: Value | int, row: _Row) -> Value:
        """A scalar from earlier: a constant, a number of the row for every element, or a kept value."""
        f, i = self.f, self.rows.body[n]
        if isinstance(i.what, Number):
            return splat(vector(count, i.type), i.what.number)
        if not self.sweeps.wide[n]:
            return f.shuffle(row.numbers[n], None, [0] * count)
        if isinstance(at, int) and (n, at) in row.values:
            return row.values[n, at]
        stored = "i8" if i.type == "i1" else i.type
        value = f.load(vector(count, stored), row.buffers[n], self._offset(n, at))
        return f.compare("ne", value, 0) if i.type == "i1" else value

    def _keep(self, n: int, value: Value, at: Value | int, row: _Row) -> None:
        f = self.f
        if n in row.buffers:
            if self.rows.body[n].type == "i1":
                value = f.cast("zext", value, vector(lanes(value.type), "i8"))
            f.store(value, row.buffers[n], self._offset(n, at))
        elif self.held and isinstance(at, int):
            row.values[n, at] = value

    def _offset(self, n: int, at: Value | int) -> Value | int:
        size = self._size(n)
        return at * size if isinstance(at, int) else self.f.mul(at, size)

    def _size(self, n: int) -> int:
        """Bytes of a kept element."""
        return max(8, WIDTHS[self.rows.body[n].type]) // 8
