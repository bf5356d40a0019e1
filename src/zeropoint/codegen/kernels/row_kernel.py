"""What kernels of rows have in common: sweeps over the elements of rows, and the numbers between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

from zeropoint.codegen.kernels.access import Elements, row_addresses
from zeropoint.codegen.kernels.combining import combined, filled_up, folded, identity, started
from zeropoint.codegen.kernels.elements import Number, Reduce, Scalar
from zeropoint.codegen.kernels.row_shape import RowShape, is_ordered_sum
from zeropoint.codegen.kernels.word_scalars import Rebased
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, splat, vector
from zeropoint.numerics.sums import PARTIALS

Elementary = Callable[[Value | int, int, Sequence[Value]], Sequence[Value]]
"""Totals with some more elements: index of the first one, their number, the totals before."""


def _of(i: Scalar) -> Reduce:
    assert isinstance(i.what, Reduce)
    return i.what


class Row:
    """The state of a row while it is computed."""

    def __init__(self, sources: list[Value], out: Value, places: list[Value], buffers: dict[int, Value]):
        self.sources, self.out, self.places = sources, out, places
        self.buffers = buffers
        """Buffers for what is computed ahead of all rows and, for a long row, for what later sweeps need."""
        self.values: dict[tuple[int, int], Value] = {}
        """The computed values of a short row, by scalar and index."""
        self.rebased = True
        """Whether `Rebased` values may differ from their operands."""
        self.numbers: dict[int, Value] = {}
        """Values that are the same for all elements, as vectors of one."""


class RowKernel:
    """Writes the kernel of rows. Which sweep of which row follows which one is up to subclasses."""

    def __init__(self, rows: RowShape, isa: InstructionSet, f: Function):
        self.rows, self.f, self.sweeps = rows, f, rows.sweeps
        *pointers, self.begin, self.end = f.arguments
        self.sources, (self.out, *self.places) = pointers[: len(rows.reads)], pointers[len(rows.reads) :]
        self.elements = Elements(f, isa, rows.reads)
        self.along, self.length, self.lanes = len(rows.sizes) - 1, rows.length, rows.lanes(isa)
        self.vectors = self.length // self.lanes
        self.last = len(self.sweeps.needed) - 1
        self.held = rows.is_held(isa)

    def kernel(self) -> None:
        """The whole function."""
        ahead = self.buffers(self.sweeps.ahead)
        if ahead:
            self._ahead(Row(self.sources, self.out, self.places, ahead))
        self.all_rows(ahead)
        self.f.ret()

    def all_rows(self, ahead: dict[int, Value]) -> None:
        """Compute the rows from `begin` to `end`, given the buffers of what is computed ahead of them."""
        raise NotImplementedError

    def row(self, index: Value, buffers: dict[int, Value]) -> Row:
        """A row by its number, with its buffers."""
        strides = [access.strides for access in (*self.rows.reads, self.rows.write, *self.rows.numbers)]
        pointers = [*self.sources, self.out, *self.places]
        found = row_addresses(self.f, index, self.rows.sizes[:-1], strides, pointers)
        count = len(self.sources)
        return Row(found[:count], found[count], found[count + 1 :], buffers)

    def buffers(self, scalars: Collection[int]) -> dict[int, Value]:
        """A buffer on the stack for each of the scalars of a row."""
        return {n: self.f.scratch(self.rows.bytes(n)) for n in sorted(scalars)}

    def _ahead(self, row: Row) -> None:
        """Compute the scalars that are the same in all rows."""
        for n in self.sweeps.numbers_before:
            row.numbers[n] = self.number(n, row)

        def some(at: Value | int, count: int) -> None:
            self._compute(self.sweeps.before, count, at, row)

        self.f.loop(0, self.vectors * self.lanes, self.lanes, lambda x, _: some(x, self.lanes))
        for at, count in self.rest():
            some(at, count)

    def rest(self) -> Iterator[tuple[int, int]]:
        """The rest after whole vectors, in powers of two: (index, elements)."""
        at = self.vectors * self.lanes
        while rest := self.length - at:
            count = 1 << (rest.bit_length() - 1)
            yield at, count
            at += count

    # Sweeps of rows side by side.

    def sweep(self, sweep: int, rows: Sequence[Row]) -> None:
        """Compute the row numbers that are known now, then all elements, then the reductions."""
        self.prepare(sweep, rows)

        def step(at: Value | int, count: int, totals: Sequence[Value]) -> list[Value]:
            return self.added(sweep, at, count, rows, totals)

        self.finish(sweep, rows, self.over_elements(step, self.neutral(sweep, rows)))

    def prepare(self, sweep: int, rows: Sequence[Row]) -> None:
        """Compute the row numbers that are known before a sweep."""
        for row in rows:
            for n in self.numbers_before(sweep):
                row.numbers[n] = self.number(n, row)
            if sweep == self.last:
                self.store_numbers(row)

    def store_numbers(self, row: Row) -> None:
        """Store the numbers of a row that other kernels need, too."""
        for n, access, place in zip(self.rows.stored, self.rows.numbers, row.places, strict=True):
            self.elements.store(row.numbers[n], access, self.along, place)

    def over_elements(self, step: Elementary, totals: Sequence[Value]) -> Sequence[Value]:
        """The totals of all elements, by steps from the ones before."""
        end = self.vectors * self.lanes
        if self.held:
            for at in range(0, end, self.lanes):
                totals = step(at, self.lanes, totals)
        else:
            totals = self.f.loop(0, end, self.lanes, lambda at, c: step(at, self.lanes, c), totals, entered=True)
        for at, count in self.rest():
            totals = step(at, count, totals)
        return totals

    def neutral(self, sweep: int, rows: Sequence[Row]) -> list[Value]:
        """The partial totals of no elements, of each row and each reduction at the end of a sweep."""
        return [self._neutral(self.rows.body[n]) for n in self.sweeps.reductions(self.rows.body, sweep)] * len(rows)

    def added(
        self, sweep: int, at: Value | int, count: int, rows: Sequence[Row], totals: Sequence[Value]
    ) -> list[Value]:
        """The partial totals with some more elements, which are computed."""
        reductions = [self.rows.body[n] for n in self.sweeps.reductions(self.rows.body, sweep)]
        values = self.computed(sweep, count, at, [i.arguments[0] for i in reductions], rows)
        # Whole vectors begin with element 0 of the parts of a total.
        end = self.vectors * self.lanes
        first = at - end if isinstance(at, int) and at >= end else 0
        pairs = zip(len(rows) * reductions, totals, values, strict=True)
        return [self._added(i, total, more, first) for i, total, more in pairs]

    def finish(self, sweep: int, rows: Sequence[Row], totals: Sequence[Value]) -> None:
        """Combine the partial totals to numbers of the rows."""
        numbers = self.sweeps.reductions(self.rows.body, sweep)
        for (row, n), total in zip(itertools.product(rows, numbers), totals, strict=True):
            row.numbers[n] = self._total(self.rows.body[n], total)

    def numbers_before(self, sweep: int) -> list[int]:
        """The numbers of a row that are known before a sweep, and not before the one before."""
        return [
            n
            for n, i in enumerate(self.rows.body)
            if not self.sweeps.wide[n] and self.sweeps.known[n] == sweep and not isinstance(i.what, Reduce)
        ]

    def number(self, n: int, row: Row) -> Value:
        """A scalar that is the same for all elements of a row, as a vector of one."""
        body = self.rows.body
        return self.elements.value(body[n], body, row.numbers, 1, self.along, row.sources)

    def _neutral(self, reduction: Scalar) -> Value:
        """The partial totals of no elements."""
        count = self._count(reduction.arguments[0], self.lanes)
        count = min(self.lanes, PARTIALS) if is_ordered_sum(reduction) else count
        same = identity(_of(reduction).op, reduction.type, reduction.signed)
        return constant(vector(count, reduction.type), same)

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
            total = combined(f, _of(reduction).op, reduction, total, part)
        return total

    def _total(self, i: Scalar, total: Value) -> Value:
        """Combine a vector of partial totals and the initial value into one number."""
        return started(self.f, _of(i).op, i, _of(i).start, folded(self.f, _of(i).op, i, total))

    # `count` elements of a sweep, from index `at` of the row on.

    def computed(
        self, sweep: int, count: int, at: Value | int, wanted: Sequence[int], rows: Sequence[Row]
    ) -> list[Value]:
        """Compute elements, and store them in the last sweep. Returns the values of the `wanted` scalars, by rows."""
        found = [self._values(sweep, count, at, row) for row in rows]
        if sweep == self.last:
            write, result = self.rows.write, len(self.rows.body) - 1
            # After all loads, so that rows side by side load what they have in common once.
            for row, value in zip(rows, found, strict=True):
                address = write.moved(self.f, row.out, self.along, at)
                self.elements.store(value(result), write, self.along, address)
        return [value(n) for value in found for n in wanted]

    def _values(self, sweep: int, count: int, at: Value | int, row: Row) -> Callable[[int], Value]:
        """The values of scalars of a sweep."""
        found = self._compute(self.sweeps.needed[sweep], count, at, row)

        def value(n: int) -> Value:
            return found[n] if n in found else self._given(n, self._count(n, count), at, row)

        return value

    def _compute(self, needed: Sequence[int], count: int, at: Value | int, row: Row) -> dict[int, Value]:
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

    def _given(self, n: int, count: int, at: Value | int, row: Row) -> Value:
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

    def _keep(self, n: int, value: Value, at: Value | int, row: Row) -> None:
        f = self.f
        if n in row.buffers:
            if self.rows.body[n].type == "i1":
                value = f.cast("zext", value, vector(lanes(value.type), "i8"))
            f.store(value, row.buffers[n], self._offset(n, at))
        elif self.held and isinstance(at, int):
            row.values[n, at] = value

    def _offset(self, n: int, at: Value | int) -> Value | int:
        size = self.rows.size(n)
        return at * size if isinstance(at, int) else self.f.mul(at, size)
