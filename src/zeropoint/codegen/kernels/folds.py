"""Reductions whose body is not one associative op, or that reduce several operands together.

Elements are combined in the order of the interpreter. A window is combined from left to right, starting with the
initial values. `reduce` combines neighbours, level by level. An odd last element moves to the next level, and the
initial values are combined last, from the left. This works like the carries of a binary counter: `waiting` has a slot
for every power of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zeropoint.codegen.kernels.access import Access, Elements, row_addresses
from zeropoint.codegen.kernels.elements import Region
from zeropoint.codegen.kernels.loops import OuterLoops
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, vector

LoadElements = Callable[[list[Value]], list[Value]]
"""The elements at some addresses."""
CombineVectors = Callable[[Sequence[Value], Sequence[Value]], list[Value]]
Visit = Callable[[list[Value], list[Value]], list[Value]]


@dataclass(frozen=True)
class Fold(OuterLoops):
    """A reduction. `sizes` are the loops of the results, then the `inner` loops that are reduced, in order.

    Operands are the values, their initial values (with strides of 0), the tables of the body, and the results.
    """

    sizes: tuple[int, ...]
    inner: int
    reads: tuple[Access, ...]
    starts: tuple[Access, ...]
    tables: tuple[Access, ...]
    writes: tuple[Access, ...]
    region: Region
    left_to_right: bool

    def tasks(self, isa: InstructionSet) -> int:
        """The number of elements of a result."""
        return math.prod(self.outer)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(values..., initial values..., tables..., results..., begin, end)`."""
        parts = {"in": self.reads, "start": self.starts, "table": self.tables, "out": self.writes}
        names = [f"{kind}{n}" for kind, part in parts.items() for n in range(len(part))]
        f = module.kernel(name, *names)
        *pointers, begin, end = f.arguments
        f.loop(begin, end, 1, lambda index, _: self._element(f, isa, pointers, index))
        f.ret()

    def _element(self, f: Function, isa: InstructionSet, pointers: list[Value], index: Value) -> None:
        count, tables = len(self.reads), len(self.tables)
        accesses = [*self.tables, *self.reads, *self.starts, *self.writes]
        elements = Elements(f, isa, accesses)
        found = pointers[2 * count : 2 * count + tables]
        moving = [*self.reads, *self.starts, *self.writes]
        given = [*pointers[: 2 * count], *pointers[2 * count + tables :]]
        addresses = row_addresses(f, index, self.outer, [access.strides for access in moving], given)
        starts = [elements.loaded(tables + count + n, addresses[count + n]) for n in range(count)]

        def combined(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
            return self.region.computed(f, [*left, *right], lambda i, at: elements.looked_up(i, at, found))

        def leaf(addresses: list[Value]) -> list[Value]:
            return [elements.loaded(tables + n, addresses[n]) for n in range(count)]

        total = self._in_order if self.left_to_right else self._by_neighbours
        results = total(f, addresses[:count], starts, leaf, combined)
        for value, access, address in zip(results, self.writes, addresses[2 * count :], strict=True):
            elements.store(value, access, 0, address)

    def _each(self, f: Function, addresses: list[Value], carried: list[Value], visit: Visit) -> list[Value]:
        """Visit the reduced elements in order. `visit` maps their addresses and the carried values to new values."""

        def loops(loop: int, addresses: list[Value], carried: list[Value]) -> list[Value]:
            if loop == len(self.sizes):
                return visit(addresses, carried)

            def step(i: Value, carried: list[Value]) -> list[Value]:
                moved = [a.moved(f, p, loop, i) for p, a in zip(addresses, self.reads, strict=True)]
                return loops(loop + 1, moved, carried)

            return f.loop(0, self.sizes[loop], 1, step, carried)

        return loops(len(self.outer), addresses, carried)

    def _in_order(
        self, f: Function, addresses: list[Value], starts: list[Value], leaf: LoadElements, combined: CombineVectors
    ) -> list[Value]:
        return self._each(f, addresses, starts, lambda addresses, total: combined(total, leaf(addresses)))

    def _by_neighbours(
        self, f: Function, addresses: list[Value], starts: list[Value], leaf: LoadElements, combined: CombineVectors
    ) -> list[Value]:
        number = math.prod(self.sizes[len(self.outer) :])
        # One partial result for each level of the tree. Level n holds that of 2^n neighbours.
        waiting = [f.scratch(8 * max(1, number.bit_length())) for _ in self.reads]
        types = [vector(1, access.register) for access in self.reads]

        def at(level: Value | int) -> list[Value]:
            offset = 8 * level if isinstance(level, int) else f.mul(level, 8)
            return [f.load(type_, f.at(address, offset)) for type_, address in zip(types, waiting, strict=True)]

        def visit(addresses: list[Value], done: list[Value]) -> list[Value]:
            # The number of complete levels is the number of trailing ones in the count of previous elements.
            rest = f.binary("xor", done[0], Value("i64", "-1"))
            levels = f.call("i64", "llvm.cttz.i64", rest, Value("i1", "false"))
            total = f.loop(0, levels, 1, lambda level, carried: combined(at(level), carried), leaf(addresses))
            for value, address in zip(total, waiting, strict=True):
                f.store(value, f.at(address, f.mul(levels, 8)))
            return [f.add(done[0], 1)]

        self._each(f, addresses, [Value("i64", "0")], visit)
        total: list[Value] = []
        for level in range(number.bit_length()):
            # The levels that hold a partial result are the set bits of the number of elements.
            if number >> level & 1:
                total = combined(at(level), total) if total else at(level)
        return combined(starts, total) if total else starts
