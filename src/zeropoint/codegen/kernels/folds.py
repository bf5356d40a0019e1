"""Reductions whose body is not one associative op, or that reduce several operands together.

Elements are combined in the interpreter's order: neighbours, level by level, with an odd last one carried over; the
initial values are combined from the left at the end. This works like carries in a binary counter: `waiting` has a slot
for every power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeropoint.codegen.kernels.access import Access, Elements, row_places
from zeropoint.codegen.kernels.elements import Region
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, vector


@dataclass(frozen=True)
class Fold:
    """`sizes` are the loops of the results, then the `inner` ones that are reduced, in order.

    Operands are the values, then their initial values (with strides of 0), then the results.
    """

    sizes: tuple[int, ...]
    inner: int
    reads: tuple[Access, ...]
    starts: tuple[Access, ...]
    writes: tuple[Access, ...]
    region: Region

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the results' loops."""
        return self.sizes[: len(self.sizes) - self.inner]

    def tasks(self, isa: InstructionSet) -> int:
        """Number of elements of a result."""
        return math.prod(self.outer)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(values..., initial values..., results..., begin, end)`."""
        names = [
            f"{kind}{n}"
            for kind, count in (("in", self.reads), ("start", self.starts), ("out", self.writes))
            for n in range(len(count))
        ]
        f = module.kernel(name, *names)
        *pointers, begin, end = f.arguments
        f.loop(begin, end, 1, lambda index, _: self._element(f, isa, pointers, index))
        f.ret()

    def _element(self, f: Function, isa: InstructionSet, pointers: list[Value], index: Value) -> None:
        count = len(self.reads)
        accesses = [*self.reads, *self.starts, *self.writes]
        elements = Elements(f, isa, accesses)
        places = row_places(f, index, self.outer, [access.strides for access in accesses], pointers)
        values, outs = places[:count], places[2 * count :]
        starts = [elements.loaded(count + n, places[count + n]) for n in range(count)]
        number = math.prod(self.sizes[len(self.outer) :])
        waiting = [f.scratch(8 * max(1, number.bit_length())) for _ in range(count)]
        types = [vector(1, access.register) for access in self.reads]

        def at(level: Value | int) -> list[Value]:
            offset = 8 * level if isinstance(level, int) else f.mul(level, 8)
            return [f.load(type_, f.at(place, offset)) for type_, place in zip(types, waiting, strict=True)]

        def leaf(places: list[Value], done: Value) -> None:
            here = [elements.loaded(n, places[n]) for n in range(count)]
            # The number of complete levels is the number of trailing ones of the count of elements before.
            rest = f.binary("xor", done, Value("i64", "-1"))
            levels = f.call("i64", "llvm.cttz.i64", rest, Value("i1", "false"))
            total = f.loop(0, levels, 1, lambda level, carried: self.region.computed(f, [*at(level), *carried]), here)
            for value, place in zip(total, waiting, strict=True):
                f.store(value, f.at(place, f.mul(levels, 8)))

        def loops(loop: int, places: list[Value], done: Value) -> Value:
            if loop == len(self.sizes):
                leaf(places, done)
                return f.add(done, 1)

            def step(i: Value, carried: list[Value]) -> list[Value]:
                moved = [a.moved(f, p, loop, i) for p, a in zip(places, self.reads, strict=True)]
                return [loops(loop + 1, moved, carried[0])]

            return f.loop(0, self.sizes[loop], 1, step, [done])[0]

        loops(len(self.outer), values, Value("i64", "0"))
        total: list[Value] = []
        for level in range(number.bit_length()):
            if number >> level & 1:
                total = self.region.computed(f, [*at(level), *total]) if total else at(level)
        results = self.region.computed(f, [*starts, *total]) if total else starts
        for value, access, place in zip(results, self.writes, outs, strict=True):
            elements.store(value, access, 0, place)
