"""Rows that are reduced and computed from what that gave: softmax, layer norm, any mean, with all around them.

A row is read once. Its phases end at reductions: of what a phase computes from the elements, one number is left, and
the phases after it compute with that. What later phases need of earlier ones stays in registers where a row is a few
vectors, in a buffer on the stack where it is longer; the last phase writes. Sums have several accumulators, which are
added pairwise, and then their halves: an order that depends on the instruction set, not on threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from zeropoint.codegen.kernels.access import Access, Elements, merged, row_places
from zeropoint.codegen.kernels.elements import Body, Instruction, apply, identity, width_inside
from zeropoint.codegen.kernels.scalars import WIDTHS, filled
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, i64, lanes, vector

HELD = 8
"""Vectors up to which a row is laid out whole, in registers."""
ACCUMULATORS = 4
"""Of a longer row: as many sums as a machine adds one after the other at its full speed."""
TOGETHER = 2
"""Rows that are computed at once: while one waits for what it is reduced to, another goes on."""
STACK = 32 << 10
"""Bytes of the stack that a kernel may use; threads of other programs may have little."""


@dataclass(frozen=True)
class Rows:
    """`sizes` are the loops over rows, then the elements of a row; strides have an entry for each.

    Instructions are those of a nest, and `reduce` of all elements of the row, with extra (op, start).
    """

    sizes: tuple[int, ...]
    reads: tuple[Access, ...]
    write: Access
    body: Body

    def tasks(self, isa: InstructionSet) -> int:
        """One a row."""
        return math.prod(self.sizes[:-1])

    def arranged(self) -> Rows:
        """The same with its loops over rows in the best order, adjacent ones made one."""
        accesses = (self.write, *self.reads)
        loops = [d for d, size in enumerate(self.sizes[:-1]) if size != 1]
        loops.sort(key=lambda d: -abs(self.write.strides[d]))
        every = [*merged(self.sizes, accesses, loops), (self.sizes[-1], tuple(a.strides[-1] for a in accesses))]
        changed = [
            replace(access, strides=tuple(strides[n] for _, strides in every)) for n, access in enumerate(accesses)
        ]
        return Rows(tuple(size for size, _ in every), tuple(changed[1:]), changed[0], self.body)

    @cached_property
    def phases(self) -> Phases:
        """What is computed when."""
        return Phases(self)

    def lanes(self, isa: InstructionSet) -> int:
        """Elements of a vector: of the widest numbers that are computed for every element."""
        widest = max(width_inside(i) for n, i in enumerate(self.body) if self.phases.wide[n])
        most = max(1, 8 * isa.bytes // max(widest, 8))
        return min(most, 1 << (self.sizes[-1].bit_length() - 1))

    def stack(self) -> int:
        """Bytes that rows take on the stack, at most."""
        return TOGETHER * sum(-(-self.sizes[-1] * WIDTHS[self.body[n].type] // 512) * 64 for n in self.phases.kept)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, begin, end)`."""
        operands = [("ptr", f"in{n}") for n in range(len(self.reads))]
        f = module.function(name, [*operands, ("ptr", "out"), ("i64", "begin"), ("i64", "end")])
        _Emitter(self, isa, f).kernel()


class Phases:
    """The instructions of a body by when they are computed.

    `wide` says of each whether it differs from element to element, `known` after how many reductions in a row it can
    be computed. `needed` are those that each phase computes, `kept` those that a later one needs, too.
    """

    def __init__(self, rows: Rows):
        body, last = rows.body, len(rows.sizes) - 1
        self.wide: list[bool] = []
        self.known: list[int] = []
        for i in body:
            if i.op in ("read", "gather"):
                operands = i.extra[:1] if i.op == "read" else (i.extra[0], *i.extra[1::3])
                self.wide.append(any(rows.reads[int(n)].strides[last] for n in operands))
            else:
                self.wide.append(i.op != "reduce" and any(self.wide[n] for n in i.arguments))
            self.known.append(max((self.known[n] for n in i.arguments), default=0) + (i.op == "reduce"))
        self.needed: list[list[int]] = []
        self.kept: set[int] = set()
        computed: set[int] = set()
        for phase in range(self.known[-1] + 1):
            found: set[int] = set()
            waiting = [i.arguments[0] for n, i in enumerate(body) if i.op == "reduce" and self.known[n] == phase + 1]
            waiting += [len(body) - 1] if phase == self.known[-1] else []
            while waiting:
                n = waiting.pop()
                if not self.wide[n] or n in found:
                    continue
                if n in computed and body[n].op != "read":
                    self.kept.add(n)
                    continue
                found.add(n)
                waiting += body[n].arguments
            computed |= found
            self.needed.append(sorted(found))


class _Row:
    """What is known of a row while it is computed."""

    def __init__(self, sources: list[Value], out: Value, buffers: dict[int, Value]):
        self.sources, self.out = sources, out
        self.buffers = buffers
        """Of a long row, what later phases need."""
        self.values: dict[tuple[int, int], Value] = {}
        """Of a short row, what has been computed, by instruction and place."""
        self.numbers: dict[int, Value] = {}
        """What is the same for all elements, as vectors of one."""


class _Emitter:
    """Writes the kernel of rows."""

    def __init__(self, rows: Rows, isa: InstructionSet, f: Function):
        self.rows, self.f, self.phases = rows, f, rows.phases
        *self.sources, self.out, self.begin, self.end = f.arguments
        self.elements = Elements(f, isa, rows.reads)
        self.along, self.length, self.lanes = len(rows.sizes) - 1, rows.sizes[-1], rows.lanes(isa)
        self.vectors = self.length // self.lanes
        self.held = self.vectors <= HELD
        self.accumulators = self.vectors if self.held else ACCUMULATORS

    def kernel(self) -> None:
        f = self.f
        kept = () if self.held else sorted(self.phases.kept)
        buffers = [{n: f.scratch(self._size(n) * self.length) for n in kept} for _ in range(TOGETHER)]

        def task(index: Value, together: int) -> None:
            rows, accesses = list[_Row](), [*self.rows.reads, self.rows.write]
            for n in range(together):
                pointers = [*self.sources, self.out]
                *sources, out = row_places(f, f.add(index, n), self.rows.sizes[:-1], accesses, pointers)
                rows.append(_Row(sources, out, buffers[n]))
            for phase in range(len(self.phases.needed)):
                for row in rows:
                    self._phase(phase, row)

        whole = f.binary("sub", self.end, f.binary("urem", f.binary("sub", self.end, self.begin), i64(TOGETHER)))
        f.loop(self.begin, whole, TOGETHER, lambda index, _: task(index, TOGETHER))
        f.loop(whole, self.end, 1, lambda index, _: task(index, 1))
        f.ret()

    def _phase(self, phase: int, row: _Row) -> None:
        """The numbers of the row that are known now, then all elements, then what they are reduced to."""
        body = self.rows.body
        for n, i in enumerate(body):
            if not self.phases.wide[n] and self.phases.known[n] == phase and i.op != "reduce":
                row.numbers[n] = self.elements.value(i, body, row.numbers, 1, self.along, row.sources)
        reductions = [n for n, i in enumerate(body) if i.op == "reduce" and self.phases.known[n] == phase + 1]
        totals = self._over_row(phase, [body[n] for n in reductions], row)
        for n, vectors in zip(reductions, totals, strict=True):
            row.numbers[n] = self._total(body[n], vectors)

    def _over_row(self, phase: int, reductions: Sequence[Instruction], row: _Row) -> list[list[Value]]:
        """All elements of a phase; the accumulators of every reduction."""
        f, each = self.f, self.accumulators
        operands = [i.arguments[0] for i in reductions]
        neutral = [filled(vector(self.lanes, i.type), identity(str(i.extra[0]), i.type, i.signed)) for i in reductions]
        totals = [start for start in neutral for _ in range(each)]

        def added(values: Sequence[Value], totals: Sequence[Value], which: int) -> list[Value]:
            result = list(totals)
            for k, value in enumerate(values):
                result[k * each + which] = self._both(reductions[k], result[k * each + which], value)
            return result

        def some(vectors: range, base: Value | None, totals: Sequence[Value]) -> list[Value]:
            for v in vectors:
                place = v * self.lanes if base is None else f.add(base, v * self.lanes)
                totals = added(self._elements(phase, self.lanes, place, operands, row), totals, v % each)
            return list(totals)

        blocks = 0 if self.held else self.vectors // each
        if blocks:
            step = each * self.lanes
            totals = f.loop(0, blocks * step, step, lambda x, c: some(range(each), x, c), totals, entered=True)
        totals = some(range(blocks * each, self.vectors), None, totals)
        rest = self.length - self.vectors * self.lanes
        if rest:
            order = [*range(rest), *[rest] * (self.lanes - rest)]
            values = self._elements(phase, rest, self.vectors * self.lanes, operands, row)
            # What is missing changes nothing.
            filled_up = [
                f.shuffle(value, Value(value.type, start.name), order)
                for value, start in zip(values, neutral, strict=True)
            ]
            totals = added(filled_up, totals, 0)
        return [totals[k * each : (k + 1) * each] for k in range(len(reductions))]

    def _both(self, reduction: Instruction, left: Value, right: Value) -> Value:
        combined = Instruction(str(reduction.extra[0]), reduction.type, (0, 1), signed=reduction.signed)
        return apply(self.f, combined, [reduction, reduction], [left, right])

    def _total(self, reduction: Instruction, vectors: list[Value]) -> Value:
        """One number of all accumulators and what the reduction starts with."""
        while len(vectors) > 1:
            pairs = [self._both(reduction, *vectors[n : n + 2]) for n in range(0, len(vectors) - 1, 2)]
            vectors = [*pairs, *vectors[2 * len(pairs) :]]
        (total,), count = vectors, self.lanes
        while count > 1:
            count //= 2
            low = self.f.shuffle(total, None, range(count))
            total = self._both(reduction, low, self.f.shuffle(total, None, range(count, 2 * count)))
        start = float(reduction.extra[1])
        if start == identity(str(reduction.extra[0]), reduction.type, reduction.signed):
            return total
        return self._both(reduction, filled(total.type, start), total)

    # Elements of a phase: `count` of them, from `place` of the row on.

    def _elements(self, phase: int, count: int, place: Value | int, wanted: Sequence[int], row: _Row) -> list[Value]:
        """Compute them, store them if this is the last phase; the values of the instructions that are wanted."""
        body, last = self.rows.body, len(self.rows.body) - 1
        here = [self._moved(source, read, place) for source, read in zip(row.sources, self.rows.reads, strict=True)]
        found: dict[int, Value] = {}

        def value(n: int) -> Value:
            if n not in found:
                found[n] = self._given(n, count, place, row)
            return found[n]

        for n in self.phases.needed[phase]:
            if isinstance(place, int) and (n, place) in row.values:
                continue
            arguments = {k: value(k) for k in body[n].arguments}
            found[n] = self.elements.value(body[n], body, arguments, count, self.along, here)
            self._keep(n, found[n], place, row)
        if phase == len(self.phases.needed) - 1:
            write = self.rows.write
            self.elements.store(value(last), write, self.along, self._moved(row.out, write, place))
        return [value(n) for n in wanted]

    def _moved(self, pointer: Value, access: Access, place: Value | int) -> Value:
        stride = access.strides[self.along]
        if isinstance(place, int):
            return self.f.at(pointer, place * stride)
        return self.f.at(pointer, self.f.mul(place, stride)) if stride else pointer

    def _given(self, n: int, count: int, place: Value | int, row: _Row) -> Value:
        """A number of the row for every element, or what has been computed before."""
        f, i = self.f, self.rows.body[n]
        if i.op == "number" and not isinstance(i.extra[0], str):
            return filled(vector(count, i.type), i.extra[0])
        if not self.phases.wide[n]:
            return f.shuffle(row.numbers[n], None, [0] * count)
        if isinstance(place, int) and (n, place) in row.values:
            return row.values[n, place]
        stored = "i8" if i.type == "i1" else i.type
        value = f.load(vector(count, stored), row.buffers[n], self._offset(n, place))
        return f.compare("ne", value, 0) if i.type == "i1" else value

    def _keep(self, n: int, value: Value, place: Value | int, row: _Row) -> None:
        f = self.f
        if self.held:
            assert isinstance(place, int)
            row.values[n, place] = value
        elif n in row.buffers:
            if self.rows.body[n].type == "i1":
                value = f.cast("zext", value, vector(lanes(value.type), "i8"))
            f.store(value, row.buffers[n], self._offset(n, place))

    def _offset(self, n: int, place: Value | int) -> Value | int:
        size = self._size(n)
        return place * size if isinstance(place, int) else self.f.mul(place, size)

    def _size(self, n: int) -> int:
        """Bytes of an element that is kept."""
        return max(8, WIDTHS[self.rows.body[n].type]) // 8
