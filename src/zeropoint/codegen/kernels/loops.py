"""Loop nests: anything elementwise, broadcast, moved or reduced, on views of any strides.

The kernel for all that has none of its own. The output's loops run from the outermost stride to the innermost; the
innermost is cut into vectors where the output is dense there, or, where the reduction is what runs over adjacent
elements, that one is. An operand that steps by its size is loaded as a vector, one that stands still as a repeated
scalar, any other element by element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from zeropoint.codegen.kernels.elements import Body, Instruction, apply, identity, width_inside
from zeropoint.codegen.kernels.scalars import WIDTHS, filled
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64, vector

UNROLLED = 16
"""Steps of a reduction up to which they are laid out."""
PIECE = 2048
"""Elements of a long row that are one task."""


@dataclass(frozen=True)
class Access:
    """How an operand is read, or the output written: LLVM type in memory and the step in bytes of every loop.

    `form` is "plain", "activation" (i8 plus the instruction set's offset) or "boolean" (i1 in a byte of 0 or 1).
    """

    type: str
    strides: tuple[int, ...]
    form: str = "plain"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return WIDTHS[self.type] // 8

    @property
    def register(self) -> str:
        """The element type once it is loaded."""
        return "i1" if self.form == "boolean" else self.type


@dataclass(frozen=True)
class Reduction:
    """Combines what `body` computes for every element of the inner loops, beginning with `start`."""

    op: str
    start: float
    body: Body


@dataclass(frozen=True)
class Nest:
    """`sizes` are the output's loops, then the reduction's, `inner` of them; strides have an entry for each."""

    sizes: tuple[int, ...]
    inner: int
    reads: tuple[Access, ...]
    write: Access
    reduction: Reduction | None
    body: Body

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the output's loops."""
        return self.sizes[: len(self.sizes) - self.inner]

    @property
    def pieces(self) -> int:
        """Tasks of a row: where there are few rows, threads share one."""
        return -(-self.outer[-1] // PIECE) if math.prod(self.outer[:-1]) < 8 else 1

    def tasks(self, isa: InstructionSet) -> int:
        """Rows times pieces of a row."""
        return math.prod(self.outer[:-1]) * self.pieces

    def arranged(self) -> Nest:
        """The same nest with its loops in the best order: loops of one round left out, adjacent ones made one."""
        count = len(self.outer)
        accesses = (self.write, *self.reads)
        outer = [d for d in range(count) if self.sizes[d] != 1]
        outer.sort(key=lambda d: -abs(self.write.strides[d]))
        inner = [d for d in range(count, len(self.sizes)) if self.sizes[d] != 1]
        inner.sort(key=lambda d: -max((abs(read.strides[d]) for read in self.reads), default=0))
        loops: list[list[tuple[int, tuple[int, ...]]]] = []
        for part in (outer, inner):
            merged: list[tuple[int, tuple[int, ...]]] = []
            for d in part:
                size, strides = self.sizes[d], tuple(access.strides[d] for access in accesses)
                if merged and merged[-1][1] == tuple(size * stride for stride in strides):
                    size *= merged.pop()[0]
                merged.append((size, strides))
            loops.append(merged)
        if not loops[0]:
            loops[0] = [(1, tuple(access.size for access in accesses))]
        every = loops[0] + loops[1]
        changed = [
            replace(access, strides=tuple(strides[n] for _, strides in every)) for n, access in enumerate(accesses)
        ]
        return Nest(
            tuple(size for size, _ in every), len(loops[1]), tuple(changed[1:]), changed[0], self.reduction, self.body
        )

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, begin, end)`."""
        operands = [("ptr", f"in{n}") for n in range(len(self.reads))]
        f = module.function(name, [*operands, ("ptr", "out"), ("i64", "begin"), ("i64", "end")])
        _Emitter(self, isa, f).kernel()


class _Emitter:
    """Writes the kernel of one nest."""

    def __init__(self, nest: Nest, isa: InstructionSet, f: Function):
        self.nest, self.isa, self.f = nest, isa, f
        *self.sources, self.out, self.begin, self.end = f.arguments
        bodies = [*nest.body, *(nest.reduction.body if nest.reduction else ())]
        widest = max(width_inside(i) for i in bodies)
        self.lanes = max(1, 8 * isa.bytes // max(widest, 8))
        self.row = len(nest.outer) - 1
        self.across = self._reduces_vectors()
        """The reduction's last loop is cut into vectors, not the output's."""

    def _reduces_vectors(self) -> bool:
        nest = self.nest
        if nest.reduction is None or not nest.inner:
            return False
        last = len(nest.sizes) - 1

        def adjacent(loop: int) -> int:
            return sum(access.strides[loop] in (0, access.size) for access in nest.reads)

        fits = nest.write.strides[self.row] == nest.write.size and nest.sizes[self.row] > 1
        return nest.sizes[last] > 1 and (not fits or adjacent(last) > adjacent(self.row))

    def kernel(self) -> None:
        f, nest = self.f, self.nest
        length, pieces = nest.outer[-1], nest.pieces
        piece = -(-length // (pieces * self.lanes)) * self.lanes

        def task(index: Value, _: list[Value]) -> None:
            rest, start, stop = index, i64(0), i64(length)
            if pieces > 1:
                rest = f.binary("udiv", index, i64(pieces))
                start = f.mul(f.binary("sub", index, f.mul(rest, pieces)), piece)
                stop = f.minimum(f.add(start, piece), i64(length))
            *sources, out = self._rows(rest)
            self._row(sources, out, start, stop)

        f.loop(self.begin, self.end, 1, task)
        f.ret()

    def _rows(self, index: Value) -> list[Value]:
        """Where row `index` starts in every operand and in the output."""
        f, nest = self.f, self.nest
        places = [*self.sources, self.out]
        accesses = [*nest.reads, nest.write]
        for loop in range(self.row - 1, -1, -1):
            at = index
            if loop:
                index = f.binary("udiv", at, i64(nest.sizes[loop]))
                at = f.binary("sub", at, f.mul(index, nest.sizes[loop]))
            for n, access in enumerate(accesses):
                if access.strides[loop]:
                    places[n] = f.at(places[n], f.mul(at, access.strides[loop]))
        return places

    def _row(self, sources: list[Value], out: Value, start: Value, stop: Value) -> None:
        f, lanes = self.f, self.lanes
        if self.across or lanes == 1:
            f.loop(start, stop, 1, lambda x, _: self._elements(1, sources, out, x))
            return
        whole = f.binary("sub", stop, f.binary("urem", f.binary("sub", stop, start), i64(lanes)))
        f.loop(start, whole, lanes, lambda x, _: self._elements(lanes, sources, out, x))
        f.loop(whole, stop, 1, lambda x, _: self._elements(1, sources, out, x))

    def _elements(self, count: int, sources: list[Value], out: Value, x: Value) -> None:
        """`count` elements of the output, from x of its last loop on."""
        f, nest = self.f, self.nest
        here = [
            f.at(source, f.mul(x, access.strides[self.row])) if access.strides[self.row] else source
            for source, access in zip(sources, nest.reads, strict=True)
        ]
        total = None if nest.reduction is None else self._total(nest.reduction, count, here)
        result = self._evaluated(nest.body, count, self.row, here, total)
        self._store(result, count, f.at(out, f.mul(x, nest.write.strides[self.row])))

    # The reduction.

    def _total(self, reduction: Reduction, count: int, sources: list[Value]) -> Value:
        last = reduction.body[-1]
        start = filled(vector(count, last.type), reduction.start)
        if not self.across:
            return self._reduced(reduction, count, sources, len(self.nest.outer), start, self.row)
        neutral = filled(vector(self.lanes, last.type), identity(reduction.op, last.type, last.signed))
        first = len(self.nest.outer)
        pair = self._across(reduction, sources, first, [neutral, filled(vector(1, last.type), reduction.start)])
        return self._combined(reduction, self._folded(reduction, pair[0]), pair[1])

    def _reduced(
        self, reduction: Reduction, count: int, sources: list[Value], loop: int, total: Value, along: int
    ) -> Value:
        """Loops from `loop` on, element after element."""
        nest = self.nest
        if loop == len(nest.sizes):
            value = self._evaluated(reduction.body, count, along, sources, None)
            return self._combined(reduction, total, value)

        def step(index: Value | int, carried: Value) -> Value:
            return self._reduced(reduction, count, self._moved(sources, loop, index), loop + 1, carried, along)

        if math.prod(nest.sizes[loop:]) <= UNROLLED:
            for index in range(nest.sizes[loop]):
                total = step(index, total)
            return total
        return self.f.loop(0, nest.sizes[loop], 1, lambda i, c: [step(i, c[0])], [total], entered=True)[0]

    def _across(self, reduction: Reduction, sources: list[Value], loop: int, totals: list[Value]) -> list[Value]:
        """The last loop in vectors, and what is left of it one by one: [vector of totals, total]."""
        nest, f = self.nest, self.f
        size = nest.sizes[loop]
        if loop + 1 < len(nest.sizes):
            return f.loop(
                0, size, 1, lambda i, c: self._across(reduction, self._moved(sources, loop, i), loop + 1, c), totals
            )
        whole = size // self.lanes * self.lanes

        def step(count: int, index: Value, total: Value) -> list[Value]:
            value = self._evaluated(reduction.body, count, loop, self._moved(sources, loop, index), None)
            return [self._combined(reduction, total, value)]

        wide = f.loop(0, whole, self.lanes, lambda i, c: step(self.lanes, i, c[0]), totals[:1])
        return wide + f.loop(whole, size, 1, lambda i, c: step(1, i, c[0]), totals[1:])

    def _moved(self, sources: list[Value], loop: int, index: Value | int) -> list[Value]:
        f = self.f
        moved: list[Value] = []
        for source, access in zip(sources, self.nest.reads, strict=True):
            stride = access.strides[loop]
            offset = index * stride if isinstance(index, int) else f.mul(index, stride) if stride else 0
            moved.append(f.at(source, offset))
        return moved

    def _combined(self, reduction: Reduction, left: Value, right: Value) -> Value:
        last = reduction.body[-1]
        instruction = Instruction(reduction.op, last.type, (0, 1), signed=last.signed)
        return apply(self.f, instruction, [last, last], [left, right])

    def _folded(self, reduction: Reduction, total: Value) -> Value:
        """All elements of a vector combined, halves first."""
        count = self.lanes
        while count > 1:
            count //= 2
            low = self.f.shuffle(total, None, range(count))
            high = self.f.shuffle(total, None, range(count, 2 * count))
            total = self._combined(reduction, low, high)
        return total

    # Elements.

    def _evaluated(self, body: Body, count: int, along: int, sources: list[Value], total: Value | None) -> Value:
        """What `body` computes for `count` elements that follow each other in loop `along`."""
        f = self.f
        values: list[Value] = []
        for i in body:
            type_ = vector(count, i.type)
            if i.op == "read":
                value = self._load(int(i.extra[0]), count, along, sources)
            elif i.op == "number":
                value = filled(type_, i.extra[0]) if not isinstance(i.extra[0], str) else Value(type_, "poison")
            elif i.op == "total":
                assert total is not None
                value = total
            elif i.op == "table":
                value = self._looked_up(values[i.arguments[0]], i, sources)
            elif i.op == "gather":
                value = self._gathered(i, count, along, sources)
            else:
                value = apply(f, i, [body[n] for n in i.arguments], [values[n] for n in i.arguments])
            values.append(value)
        return values[-1]

    def _load(self, operand: int, count: int, along: int, sources: list[Value]) -> Value:
        access = self.nest.reads[operand]
        return self._register(self._loaded(sources[operand], access.strides[along], count, access), access)

    def _loaded(self, pointer: Value, stride: int, count: int, access: Access) -> Value:
        """`count` elements as they are in memory, `stride` bytes from one to the next."""
        f, type_ = self.f, vector(count, access.type)
        if stride == access.size or count == 1:
            value = f.load(type_, pointer)
        elif stride == 0:
            value = f.broadcast(f.load(access.type, pointer), count)
        else:
            value = Value(type_, "poison")
            for lane in range(count):
                scalar = f.load(access.type, pointer, lane * stride)
                value = f.let(type_, f"insertelement {value}, {scalar}, i64 {lane}")
        return value

    def _gathered(self, i: Instruction, count: int, along: int, sources: list[Value]) -> Value:
        """Elements whose places depend on integers read at run time, kept inside of the operand."""
        f = self.f
        operand, *indices = (int(n) for n in i.extra)
        access = self.nest.reads[operand]
        parts = list(zip(indices[::3], indices[1::3], indices[2::3], strict=True))

        def place(lane: int) -> Value:
            pointer = f.at(sources[operand], lane * access.strides[along])
            for index, limit, stride in parts:
                of = self.nest.reads[index]
                read = f.load(of.type, sources[index], lane * of.strides[along])
                wide = f.cast("sext", read, "i64") if of.type != "i64" else read
                inside = f.minimum(f.maximum(wide, i64(0)), i64(limit))
                pointer = f.at(pointer, f.mul(inside, stride))
            return pointer

        type_ = vector(count, access.type)
        if count == 1 or all(self.nest.reads[index].strides[along] == 0 for index, _, _ in parts):
            # One place for all lanes, from which on they are read as those of any operand.
            value = self._loaded(place(0), access.strides[along], count, access)
        else:
            value = Value(type_, "poison")
            for lane in range(count):
                value = f.let(type_, f"insertelement {value}, {f.load(access.type, place(lane))}, i64 {lane}")
        return self._register(value, access)

    def _register(self, value: Value, access: Access) -> Value:
        f = self.f
        if access.form == "boolean":
            return f.compare("ne", value, 0)
        if access.form == "activation" and self.isa.offset:
            return f.binary("xor", value, constant(value.type, -128))
        return value

    def _looked_up(self, value: Value, instruction: Instruction, sources: list[Value]) -> Value:
        """Entries of a table of 256, by the stored integer minus -128."""
        f = self.f
        operand = int(instruction.extra[0])
        access = self.nest.reads[operand]
        count = int(value.type[1:].split()[0])
        result = Value(vector(count, access.type), "poison")
        places = f.binary("xor", value, constant(value.type, -128))
        for lane in range(count):
            index = f.cast("zext", f.let("i8", f"extractelement {places}, i64 {lane}"), "i64")
            scalar = f.load(access.type, sources[operand], f.mul(index, access.size))
            result = f.let(result.type, f"insertelement {result}, {scalar}, i64 {lane}")
        return self._register(result, access)

    def _store(self, value: Value, count: int, pointer: Value) -> None:
        f, access = self.f, self.nest.write
        if access.form == "boolean":
            value = f.cast("zext", value, vector(count, "i8"))
        elif access.form == "activation" and self.isa.offset:
            value = f.binary("xor", value, constant(value.type, -128))
        stride = access.strides[self.row]
        if count == 1 or stride == access.size:
            return f.store(value, pointer)
        for lane in range(count):
            scalar = f.let(access.type, f"extractelement {value}, i64 {lane}")
            f.store(scalar, pointer, lane * stride)
        return None
