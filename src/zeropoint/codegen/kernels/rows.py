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
    Number,
    Rebased,
    Reduce,
    Requantize,
    Scalar,
    Scalars,
    width_inside,
)
from zeropoint.codegen.kernels.fewer_steps import in_fewer_steps
from zeropoint.codegen.kernels.interleaved import halved
from zeropoint.codegen.kernels.sweeps import Sweeps
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import WIDTHS, Value, constant, i64, lanes, splat, vector
from zeropoint.numerics.sums import PARTIALS

HELD = 8
"""The maximum number of vectors (of `lanes` elements) of a fully unrolled row; LLVM keeps in registers what fits."""
TOGETHER = 2
"""Rows computed at once, to hide the latency of reductions."""
INTERLEAVED = 4
"""Registers of i32 side by side in rows whose even and odd elements are computed apart."""
PARTS = 4
"""Parts of the elements of a row with numbers of the next row between them."""
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
        return Sweeps(self.sizes, self.reads, self.body)

    def lanes(self, isa: InstructionSet) -> int:
        """Number of elements computed at once: several registers of the widest type, side by side.

        A single register would be bound by latency, except for requantization, which has many instructions. Integers
        that are read again, as in layer normalization, have long chains of instructions, and few registers to hold.
        """
        wide = [i for n, i in enumerate(self.body) if self.sweeps.wide[n]]
        widest = max(8, *map(width_inside, wide)) if wide else 8
        together = isa.registers // (8 if self.sweeps.kept else 4)
        together = 1 if any(isinstance(i.what, Requantize) for i in wide) else together
        together = INTERLEAVED if any(self.halved[n] for n in self.sweeps.needed[-1]) else together
        most = max(1, together * 8 * isa.bytes // widest)
        if any(_is_ordered(i) for i in self.body):
            # A vector then has an element of each of the 16 parts of the specified schedule.
            most = max(most, PARTIALS)
        # A vector longer than the row would have nothing to compute.
        return min(most, 1 << (self.sizes[-1].bit_length() - 1))

    @cached_property
    def halved(self) -> list[bool]:
        """Whether each scalar has half as many numbers as a row has elements."""
        return halved(self.body)

    def size(self, n: int) -> int:
        """Bytes that a scalar takes for an element of a row."""
        return max(8, WIDTHS[self.body[n].type]) // 8 >> self.halved[n]

    def stack(self) -> int:
        """Upper bound on the stack bytes of a row kernel."""
        numbers = [*self.sweeps.ahead, *TOGETHER * list(self.sweeps.kept)]
        return sum(_lines(self.sizes[-1] * self.size(n)) for n in numbers)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, begin, end)`."""
        f = module.kernel(name, *(f"in{n}" for n in range(len(self.reads))), "out")
        _Emitter(self._in_fewer_steps(isa), isa, f).kernel()

    def _in_fewer_steps(self, isa: InstructionSet) -> Rows:
        """The same rows in fewer steps, but for those that would take too much of the stack."""

        def made(words: bool) -> Rows:
            return replace(self, body=in_fewer_steps(self.body, self.sweeps.wide, self.sizes[-1], isa, words=words))

        return found if (found := made(True)).stack() <= STACK else made(False)


def _lines(size: int) -> int:
    """A number of bytes as whole cache lines."""
    return -(-size // 64) * 64


def _is_ordered(i: Scalar) -> bool:
    return isinstance(i.what, Reduce) and is_ordered(i.what.op, i.type)


def _of(i: Scalar) -> Reduce:
    assert isinstance(i.what, Reduce)
    return i.what


class _Row:
    """The state of a row while it is computed."""

    def __init__(self, sources: list[Value], out: Value, buffers: dict[int, Value]):
        self.sources, self.out = sources, out
        self.buffers = buffers
        """Buffers for what is computed ahead of all rows and, for a long row, for what later sweeps need."""
        self.values: dict[tuple[int, int], Value] = {}
        """The computed values of a short row, by scalar and index."""
        self.rebased = True
        """Whether `Rebased` values may differ from their operands."""
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
        self.pipelined = not self.sweeps.kept
        self.held = self.vectors <= HELD and not self.pipelined

    def kernel(self) -> None:
        f = self.f
        ahead = self._buffers(self.sweeps.ahead)
        if ahead:
            self._ahead(_Row(self.sources, self.out, ahead))

        if self.pipelined:
            self._pipelined(ahead)
        else:
            self._together(ahead)
        f.ret()

    def _row(self, index: Value, buffers: dict[int, Value]) -> _Row:
        strides = [access.strides for access in (*self.rows.reads, self.rows.write)]
        *sources, out = row_addresses(self.f, index, self.rows.sizes[:-1], strides, [*self.sources, self.out])
        return _Row(sources, out, buffers)

    def _together(self, ahead: dict[int, Value]) -> None:
        """Sweep by sweep, of `TOGETHER` rows each."""
        f = self.f
        buffers = [{**ahead, **self._buffers(() if self.held else self.sweeps.kept)} for _ in range(TOGETHER)]

        def task(index: Value, together: int) -> None:
            rows = [self._row(f.add(index, n), buffers[n]) for n in range(together)]
            for sweep in range(len(self.sweeps.needed)):
                for row in rows:
                    self._sweep(sweep, row)

        # An odd last row is computed alone.
        whole = f.binary("sub", self.end, f.binary("urem", f.binary("sub", self.end, self.begin), i64(TOGETHER)))
        f.loop(self.begin, whole, TOGETHER, lambda index, _: task(index, TOGETHER))
        f.loop(whole, self.end, 1, lambda index, _: task(index, 1))

    def _pipelined(self, ahead: dict[int, Value]) -> None:
        """Each row's last sweep after the other sweeps of the next row, with the numbers of that row inside.

        The numbers of a row, such as the root of its variance, are a chain of a hundred scalar instructions. Here they
        are between elements that do not wait for them: those of the row before, and the first sweep of the row after.
        """
        f, last = self.f, len(self.sweeps.needed) - 1
        numbers = self.sweeps.numbers_in(self.rows.body, last)

        def reduced(index: Value) -> _Row:
            row = self._row(index, ahead)
            for sweep in range(last):
                self._sweep(sweep, row)
            for n, i in enumerate(self.rows.body):
                if isinstance(i.what, Reduce):
                    row.numbers[n] = f.pinned(row.numbers[n])
            return row

        def written(index: Value, values: Sequence[Value], following: _Row | None = None) -> None:
            row = self._row(index, ahead)
            row.numbers.update(zip(numbers, values, strict=True))
            if following is None:
                return self._write(0, self.length, row)
            for part, (begin, end) in enumerate(self._parts()):
                self._write(begin, end, row)
                self._some_numbers(part, following)
            return None

        def both(index: Value, values: list[Value]) -> list[Value]:
            following = reduced(f.add(index, 1))
            written(index, values, following)
            return [following.numbers[n] for n in numbers]

        def rows(begin: Value, _: list[Value]) -> None:
            end, first = f.add(self.end, -1), reduced(begin)
            for part in range(PARTS):
                self._some_numbers(part, first)
            written(end, f.loop(begin, end, 1, both, [first.numbers[n] for n in numbers]))

        # Once, unless there are no rows.
        f.loop(self.begin, f.minimum(f.add(self.begin, 1), self.end), 1, rows)

    def _parts(self) -> list[tuple[int, int]]:
        """Where the parts of a row begin and end; the last one ends with the row."""
        ends = [self.vectors * part // PARTS * self.lanes for part in range(PARTS)]
        return list(zip(ends, [*ends[1:], self.length], strict=True))

    def _write(self, begin: int, end: int, row: _Row) -> None:
        """Compute a part of the elements of the last sweep."""
        last, whole = len(self.sweeps.needed) - 1, (end - begin) // self.lanes * self.lanes

        def some(at: Value, _: list[Value]) -> None:
            self._elements(last, self.lanes, at, (), row)

        def elements(rebased: bool) -> None:
            row.rebased = rebased
            self.f.loop(begin, begin + whole, self.lanes, some)
            for at, count in self._rest() if end == self.length else ():
                self._elements(last, count, at, (), row)

        factors = [i.arguments[1] for i in self.rows.body if isinstance(i.what, Rebased)]
        if factors:
            rare = self.f.compare("ne", self.f.lane(row.numbers[factors[0]], 0), 1)
            self.f.branch(rare, lambda: elements(True), lambda: elements(False))
        else:
            elements(True)

    def _some_numbers(self, part: int, row: _Row) -> None:
        """Compute a part of the numbers of the last sweep, here and not where they are used."""
        body, last = self.rows.body, len(self.sweeps.needed) - 1
        every = [n for n in self._numbers_before(last) if not isinstance(body[n].what, Number)]
        some, later = (every[k * len(every) // PARTS :] for k in (part, part + 1))
        needed = {k for n in later for k in body[n].arguments}
        for n in [n for n in self._numbers_before(last) if n not in row.numbers and n not in later]:
            row.numbers[n] = self._number(n, row)
            if n in needed and n in some:
                row.numbers[n] = self.f.pinned(row.numbers[n])

    def _buffers(self, scalars: Collection[int]) -> dict[int, Value]:
        return {n: self.f.scratch(_lines(self._size(n) * self.length)) for n in sorted(scalars)}

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
        self._compute_numbers(sweep, row)
        reductions = self.sweeps.reductions(body, sweep)
        totals = self._over_row(sweep, [body[n] for n in reductions], row)
        for n, total in zip(reductions, totals, strict=True):
            row.numbers[n] = self._total(body[n], total)

    def _compute_numbers(self, sweep: int, row: _Row) -> None:
        """Compute the numbers of a row that are known before a sweep."""
        for n in self._numbers_before(sweep):
            row.numbers[n] = self._number(n, row)

    def _numbers_before(self, sweep: int) -> list[int]:
        """The numbers of a row that are known before a sweep, and not before the one before."""
        return [
            n
            for n, i in enumerate(self.rows.body)
            if not self.sweeps.wide[n] and self.sweeps.known[n] == sweep and not isinstance(i.what, Reduce)
        ]

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
        return min(self.lanes, PARTIALS) if _is_ordered(reduction) else self._count(reduction.arguments[0], self.lanes)

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
            return found[n] if n in found else self._given(n, self._count(n, count), at, row)

        if sweep == len(self.sweeps.needed) - 1:
            write = self.rows.write
            result = value(len(self.rows.body) - 1)
            self.elements.store(result, write, self.along, write.moved(self.f, row.out, self.along, at))
        return [value(n) for n in wanted]

    def _compute(self, needed: Sequence[int], count: int, at: Value | int, row: _Row) -> dict[int, Value]:
        """Compute the `needed` scalars; return their values and those of the wide ones among their arguments."""
        body = self.rows.body
        reads = zip(self.rows.reads, row.sources, strict=True)
        here = [read.moved(self.f, source, self.along, at) for read, source in reads]
        found: dict[int, Value] = {}
        for n in needed:
            if isinstance(at, int) and (n, at) in row.values:
                continue
            arguments: dict[int, Value] = {}
            for k in body[n].arguments:
                if k not in found and self.sweeps.wide[k]:
                    found[k] = self._given(k, self._count(k, count), at, row)
                # Numbers beside as many elements as the scalar has.
                arguments[k] = found[k] if k in found else self._given(k, self._count(n, count), at, row)
            if isinstance(body[n].what, Rebased) and not row.rebased:
                found[n] = arguments[body[n].arguments[0]]
            else:
                found[n] = self.elements.value(body[n], body, arguments, self._count(n, count), self.along, here)
            self._keep(n, found[n], at, row)
        return found

    def _count(self, n: int, count: int) -> int:
        """How many numbers scalar n has for a number of elements."""
        return max(1, count // 2) if self.rows.halved[n] else count

    def _given(self, n: int, count: int, at: Value | int, row: _Row) -> Value:
        """`count` numbers from earlier: of a constant, of a number of the row, or kept values."""
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
        """Bytes of what is kept for an element."""
        return self.rows.size(n)
