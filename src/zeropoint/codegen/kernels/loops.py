"""Loop nests: elementwise ops, broadcasts, data movement and reductions, on views with any strides.

This is the fallback for ops without a specialized kernel. The loops of the output are ordered from the largest stride
to the smallest. The innermost loop is vectorized if the output is dense along it. If a reduction runs over adjacent
elements, its loop is vectorized instead.

Float sums are added in the order of the interpreter: sums of windows and of products from left to right
(`zeropoint.numerics.products`), reductions in 16 parts, then halves (`zeropoint.numerics.sums`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from enum import Enum

from zeropoint.codegen.kernels.access import Access, Elements, arranged, merged, row_addresses
from zeropoint.codegen.kernels.combining import combined, filled_up, folded, identity, started
from zeropoint.codegen.kernels.elements import LookUp, Scalars, Total, is_function, width_inside
from zeropoint.codegen.kernels.known_scalars import of_known
from zeropoint.codegen.kernels.signed_zeros import SignedZeros
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import WIDTHS, Value, constant, i64, vector
from zeropoint.numerics.sums import PARTIALS

UNROLLED = 16
"""The maximum number of steps of an unrolled reduction."""
UNROLLED_PARTS = 64
"""The maximum number of unrolled steps of a reduction in parts."""
MOST_LOOKED_UP = 16
"""The maximum number of i16 that are looked up at once. With 32, an element takes 1.4 times as long on AVX512."""
LONG = 20
"""With more scalars in the body, the rest of a row is computed in narrower vectors, if it takes one or two."""
PIECE = 2048
"""The number of elements per task in a long row."""


class Order(Enum):
    """The order in which a reduction combines elements. The inner loops number them, the last loop fastest."""

    ANY = "any"
    LEFT_TO_RIGHT = "left to right"
    PARTS = "parts"


@dataclass(frozen=True)
class Reduction(SignedZeros):
    """Combines the results of `body` for all elements of the inner loops, and the initial value `start`.

    If the body contains `Total`, the running total, the body itself combines.
    """

    op: str
    start: float
    body: Scalars
    order: Order = Order.ANY

    @property
    def combines(self) -> bool:
        """Whether the body combines."""
        return any(isinstance(i.what, Total) for i in self.body)

    @property
    def identity(self) -> float:
        """The identity element."""
        return identity(self.op, self.body[-1].type, self.body[-1].signed)


class OuterLoops:
    """Loops of `sizes`: those of the results, then `inner` loops of a reduction."""

    sizes: tuple[int, ...]
    inner: int

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the loops of the results."""
        return self.sizes[: len(self.sizes) - self.inner]


@dataclass(frozen=True)
class Nest(OuterLoops):
    """`sizes` are the loops of the output, then the `inner` loops of the reduction. Strides have an entry per loop."""

    sizes: tuple[int, ...]
    inner: int
    reads: tuple[Access, ...]
    write: Access
    reduction: Reduction | None
    body: Scalars

    @property
    def pieces(self) -> int:
        """The number of tasks per row. If there are few rows, each is split among threads."""
        return -(-self.outer[-1] // PIECE) if math.prod(self.outer[:-1]) < 8 else 1

    def tasks(self, isa: InstructionSet) -> int:
        """The number of rows times the number of pieces per row."""
        return math.prod(self.outer[:-1]) * self.pieces

    def arranged(self) -> Nest:
        """The same nest with its loops in the best order: single-iteration loops removed, adjacent ones merged."""
        count = len(self.outer)
        accesses = (self.write, *self.reads)
        outer = [d for d in range(count) if self.sizes[d] != 1]
        # Write the output in memory order.
        outer.sort(key=lambda d: -abs(self.write.strides[d]))
        inner = [d for d in range(count, len(self.sizes)) if self.sizes[d] != 1]
        # The inner loops keep their order if order matters, because floats would be added in another order.
        if self.reduction is None or self.reduction.order is Order.ANY:
            inner.sort(key=lambda d: -max((abs(read.strides[d]) for read in self.reads), default=0))
        loops = [merged(self.sizes, accesses, part) for part in (outer, inner)]
        if not loops[0]:
            loops[0] = [(1, tuple(access.size for access in accesses))]
        sizes, (write, *reads) = arranged(accesses, loops[0] + loops[1])
        return Nest(sizes, len(loops[1]), tuple(reads), write, self.reduction, self.body)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(operands..., output, begin, end)`."""
        # Only an operand with the layout of the output may share its memory (`graph.py`). What others hold for a row is
        # loaded once, because no store changes it.
        apart = ("" if read.strides == self.write.strides else "noalias " for read in self.reads)
        f = module.kernel(name, *(f"{kind}in{n}" for n, kind in enumerate(apart)), "out")
        _Emitter(replace(self, body=of_known(self.body, isa)), isa, f).kernel()


def _combined_elements(nest: Nest) -> int:
    """The number of elements that the reduction combines."""
    return math.prod(nest.sizes[len(nest.outer) :])


class _Emitter:
    """Writes the kernel of one nest."""

    def __init__(self, nest: Nest, isa: InstructionSet, f: Function):
        self.nest, self.isa, self.f = nest, isa, f
        *self.sources, self.out, self.begin, self.end = f.arguments
        bodies = [*nest.body, *(nest.reduction.body if nest.reduction else ())]
        widest = max(width_inside(i) for i in bodies)
        # A vector has as many elements as fit a register in the widest type of the body.
        self.lanes = max(1, 8 * isa.bytes // max(widest, 8))
        in_parts = nest.reduction is not None and nest.reduction.order is Order.PARTS
        # A lookup loads each element separately and assembles them into vectors of at most 32 bytes.
        if any(isinstance(i.what, LookUp) and i.type == "i16" for i in bodies):
            self.lanes = min(self.lanes, MOST_LOOKED_UP)
        self.together = isa.registers // 8 if any(is_function(i) for i in bodies) and not in_parts else 1
        """The number of vectors that are computed at once, because one chain of function steps is bound by latency."""
        self.row = len(nest.outer) - 1
        self.elements = Elements(f, isa, nest.reads)
        self.across = self._reduces_vectors()
        """Whether the reduction's last loop is vectorized instead of the output's."""

    def _reduces_vectors(self) -> bool:
        nest = self.nest
        if nest.reduction is None or not nest.inner or nest.reduction.order is Order.LEFT_TO_RIGHT:
            return False
        last = len(nest.sizes) - 1
        if nest.reduction.order is Order.PARTS:
            # A vector then has one element of each part.
            if nest.sizes[last] < PARTIALS or (nest.inner > 1 and nest.sizes[last] % PARTIALS):
                return False
            self.lanes = PARTIALS

        def adjacent(loop: int) -> int:
            return sum(access.strides[loop] in (0, access.size) for access in nest.reads)

        fits = nest.write.strides[self.row] == nest.write.size and nest.sizes[self.row] > 1
        return nest.sizes[last] > 1 and (not fits or adjacent(last) > adjacent(self.row))

    def kernel(self) -> None:
        f, nest = self.f, self.nest
        length, pieces = nest.outer[-1], nest.pieces
        self.elements.keep_tables(nest.body, self.sources)
        # Pieces are whole vectors, so that only the last piece has a remainder.
        piece = -(-length // (pieces * self.lanes)) * self.lanes

        def task(index: Value, _: list[Value]) -> None:
            rest, start, stop = index, i64(0), i64(length)
            if pieces > 1:
                rest, number = f.divided(index, pieces)
                start = f.mul(number, piece)
                stop = f.minimum(f.add(start, piece), i64(length))
            strides = [access.strides for access in (*nest.reads, nest.write)]
            *sources, out = row_addresses(f, rest, nest.sizes[: self.row], strides, [*self.sources, self.out])
            self._row(sources, out, start, stop)

        f.loop(self.begin, self.end, 1, task)
        f.ret()

    def _row(self, sources: list[Value], out: Value, start: Value, stop: Value) -> None:
        f, lanes = self.f, self.lanes
        if self.across or lanes == 1:
            f.loop(start, stop, 1, lambda x, _: self._elements(1, sources, out, x))
            return
        narrow = self.isa.narrowest.bytes if lanes == self.isa.bytes else lanes
        counts = dict.fromkeys((self.together * lanes, lanes, narrow, 1))
        rest = self.nest.outer[-1] % lanes
        is_long = bool(self.nest.inner) or (len(self.nest.body) > LONG and rest.bit_count() <= 2)
        if is_long and self.nest.pieces == 1:
            # Each element takes long, so the rest of a row is also computed in vectors, as few as possible.
            counts = dict.fromkeys((self.together * lanes, lanes, *(1 << n for n in range(8, -1, -1) if rest >> n & 1)))
        # Each narrower step computes the remainder of the step before.
        for count in counts:
            left = f.binary("urem", f.binary("sub", stop, start), i64(count))
            end = f.binary("sub", stop, left)
            f.loop(start, end, count, lambda x, _, n=count: self._elements(n, sources, out, x))
            start = end

    def _elements(self, count: int, sources: list[Value], out: Value, x: Value) -> None:
        """Compute `count` output elements, from index x of the output's last loop on."""
        f, nest = self.f, self.nest
        here = self._moved(sources, self.row, x)
        total = None if nest.reduction is None else self._total(nest.reduction, count, here)
        result = self.elements.evaluated(nest.body, count, self.row, here, total)
        self.elements.store(result, nest.write, self.row, nest.write.moved(f, out, self.row, x))

    # The reduction.

    def _total(self, reduction: Reduction, count: int, sources: list[Value]) -> Value:
        f, last, first = self.f, reduction.body[-1], len(self.nest.outer)
        same = constant(vector(1 if self.across else count, last.type), reduction.identity)
        if self.across:
            neutral = constant(vector(self.lanes, last.type), reduction.identity)
            wide, rest = self._across(reduction, sources, first, [neutral, same])
            total = self._combined(reduction, folded(f, reduction.op, last, wide), rest)
        elif reduction.order is Order.PARTS and _combined_elements(self.nest) > 1:
            total = self._halved(reduction, self._in_parts(reduction, count, sources))
        else:
            total = self._reduced(reduction, count, sources, first, same, self.row)
        return started(f, reduction.op, last, reduction.start, total)

    def _in_parts(self, reduction: Reduction, count: int, sources: list[Value]) -> list[Value]:
        """The partial sums. Elements are numbered by all inner loops. If there are few, each is a part."""
        f, nest, last = self.f, self.nest, reduction.body[-1]
        first, end, size = len(nest.outer), len(nest.sizes), _combined_elements(nest)
        type_ = vector(count, last.type)

        def value(addresses: list[Value]) -> Value:
            return self.elements.evaluated(reduction.body, count, self.row, addresses, None)

        if size <= UNROLLED_PARTS:
            parts: list[Value] = []
            for n, indices in enumerate(itertools.product(*(range(extent) for extent in nest.sizes[first:]))):
                addresses = sources
                for loop, index in enumerate(indices, start=first):
                    addresses = self._moved(addresses, loop, index)
                if n < PARTIALS:
                    parts.append(value(addresses))
                else:
                    # The schedule adds element n to part n mod 16 for every vector width.
                    parts[n % PARTIALS] = self._combined(reduction, parts[n % PARTIALS], value(addresses))
            return parts
        each = WIDTHS[last.type] // 8 * count
        held = f.scratch(PARTIALS * each)
        for part in range(PARTIALS):
            f.store(constant(type_, reduction.identity), held, part * each)

        def loops(loop: int, addresses: list[Value], done: Value) -> Value:
            if loop == end:
                there = f.at(held, f.mul(f.binary("and", done, i64(PARTIALS - 1)), each))
                f.store(self._combined(reduction, f.load(type_, there), value(addresses)), there)
                return f.add(done, 1)

            def step(index: Value, carried: list[Value]) -> list[Value]:
                return [loops(loop + 1, self._moved(addresses, loop, index), carried[0])]

            return f.loop(0, nest.sizes[loop], 1, step, [done], entered=True)[0]

        loops(first, sources, i64(0))
        return [f.load(type_, held, part * each) for part in range(PARTIALS)]

    def _halved(self, reduction: Reduction, parts: list[Value]) -> Value:
        """Combine the parts by halves: part p with part p + 8, then with part p + 4, and so on."""
        half = PARTIALS
        while half := half // 2:
            behind = parts[half:]
            parts = [
                self._combined(reduction, part, behind[n]) if n < len(behind) else part
                for n, part in enumerate(parts[:half])
            ]
        return parts[0]

    def _reduced(
        self, reduction: Reduction, count: int, sources: list[Value], loop: int, total: Value, along: int
    ) -> Value:
        """Reduce over the loops from `loop` on, element by element."""
        nest = self.nest
        if loop == len(nest.sizes):
            value = self.elements.evaluated(reduction.body, count, along, sources, total)
            return value if reduction.combines else self._combined(reduction, total, value)

        def step(index: Value | int, carried: Value) -> Value:
            return self._reduced(reduction, count, self._moved(sources, loop, index), loop + 1, carried, along)

        if math.prod(nest.sizes[loop:]) <= UNROLLED:
            for index in range(nest.sizes[loop]):
                total = step(index, total)
            return total
        return self.f.loop(0, nest.sizes[loop], 1, lambda i, c: [step(i, c[0])], [total], entered=True)[0]

    def _across(self, reduction: Reduction, sources: list[Value], loop: int, totals: list[Value]) -> list[Value]:
        """Reduce the last loop in vectors, and its remainder element by element. Returns [vector of totals, total]."""
        nest, f = self.nest, self.f
        size = nest.sizes[loop]
        if loop + 1 < len(nest.sizes):
            return f.loop(
                0, size, 1, lambda i, c: self._across(reduction, self._moved(sources, loop, i), loop + 1, c), totals
            )
        whole = size // self.lanes * self.lanes
        if reduction.order is Order.PARTS:
            return self._across_in_parts(reduction, sources, loop, totals)

        def step(count: int, index: Value, total: Value) -> list[Value]:
            value = self.elements.evaluated(reduction.body, count, loop, self._moved(sources, loop, index), None)
            return [self._combined(reduction, total, value)]

        wide = f.loop(0, whole, self.lanes, lambda i, c: step(self.lanes, i, c[0]), totals[:1])
        return wide + f.loop(whole, size, 1, lambda i, c: step(1, i, c[0]), totals[1:])

    def _across_in_parts(
        self, reduction: Reduction, sources: list[Value], loop: int, totals: list[Value]
    ) -> list[Value]:
        """Reduce the last loop in vectors with one element per part. The remainder is added to the first parts."""
        f, size = self.f, self.nest.sizes[loop]
        whole = size // PARTIALS * PARTIALS

        def value(count: int, index: Value | int) -> Value:
            return self.elements.evaluated(reduction.body, count, loop, self._moved(sources, loop, index), None)

        wide, *_ = f.loop(
            0, whole, PARTIALS, lambda i, c: [self._combined(reduction, c[0], value(PARTIALS, i))], totals[:1]
        )
        while rest := size - whole:
            # The remainder is split into powers of two. Each piece is shifted to the parts of its elements.
            count, first = 1 << (rest.bit_length() - 1), whole % PARTIALS
            part = filled_up(f, value(count, whole), first, PARTIALS, reduction.identity)
            wide, whole = self._combined(reduction, wide, part), whole + count
        return [wide, totals[1]]

    def _moved(self, sources: list[Value], loop: int, index: Value | int) -> list[Value]:
        return [a.moved(self.f, source, loop, index) for source, a in zip(sources, self.nest.reads, strict=True)]

    def _combined(self, reduction: Reduction, left: Value, right: Value) -> Value:
        return combined(self.f, reduction.op, reduction.body[-1], left, right)
