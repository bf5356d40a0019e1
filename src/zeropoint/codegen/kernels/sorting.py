"""Stable merge sort along one dimension, with any comparator. Runs of 1, 2, 4, ... positions are merged.

For each element of a left run, bisection finds its place in the right run. The interpreter does the same, so that both
give the same permutation even for a comparator that is not an order. `order` has two arrays of positions per line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeropoint.codegen.kernels.access import Access, Elements, row_addresses
from zeropoint.codegen.kernels.elements import Region
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64


@dataclass(frozen=True)
class Sort:
    """`sizes` are the sizes of the loops over lines, then the length of a line. The region is the comparator."""

    sizes: tuple[int, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    region: Region

    @property
    def length(self) -> int:
        """The number of elements of a line."""
        return self.sizes[-1]

    def tasks(self, isa: InstructionSet) -> int:
        """The number of lines."""
        return math.prod(self.sizes[:-1])

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(values..., results..., order, begin, end)`."""
        count = len(self.reads)
        names = [*(f"in{n}" for n in range(count)), *(f"out{n}" for n in range(count)), "order"]
        f = module.kernel(name, *names)
        *pointers, order, begin, end = f.arguments

        def line(index: Value, _: list[Value]) -> None:
            strides = [access.strides for access in (*self.reads, *self.writes)]
            addresses = row_addresses(f, index, self.sizes[:-1], strides, pointers)
            mine = f.at(order, f.mul(index, 8 * self.length))
            _Line(self, f, isa, addresses, mine).sort()

        f.loop(begin, end, 1, line)
        f.ret()


class _Line:
    """Emits the code that sorts one line. `order` has two arrays of positions, which are read and written in turn."""

    def __init__(self, shape: Sort, f: Function, isa: InstructionSet, addresses: list[Value], order: Value):
        self.shape, self.f, self.order = shape, f, order
        count = len(shape.reads)
        self.sources, self.targets = addresses[:count], addresses[count:]
        self.elements = Elements(f, isa, shape.reads)

    def _position(self, side: Value, at: Value) -> Value:
        """Element `at` of the array of positions at byte offset `side` of `order`."""
        address = self.f.at(self.order, self.f.add(side, self.f.mul(at, 4)))
        return self.f.cast("zext", self.f.load("i32", address), "i64")

    def _put(self, side: Value, at: Value, position: Value) -> None:
        address = self.f.at(self.order, self.f.add(side, self.f.mul(at, 4)))
        self.f.store(self.f.cast("trunc", position, "i32"), address)

    def _values(self, position: Value) -> list[Value]:
        last = len(self.shape.sizes) - 1
        return [
            self.elements.loaded(n, access.moved(self.f, source, last, position))
            for n, (source, access) in enumerate(zip(self.sources, self.shape.reads, strict=True))
        ]

    def sort(self) -> None:
        f, length = self.f, self.shape.length
        zero, other = i64(0), i64(4 * length)
        f.loop(0, length, 1, lambda at, _: self._put(zero, at, at))
        rounds = (length - 1).bit_length()

        def merge(turn: Value, sides: list[Value]) -> list[Value]:
            width = f.binary("shl", i64(1), turn)
            pairs = f.binary("lshr", f.add(f.add(f.mul(width, 2), -1), length), f.add(turn, 1))
            f.loop(0, pairs, 1, lambda pair, _: self._merge(sides[0], sides[1], turn, width, pair))
            return [sides[1], sides[0]]

        side, _ = f.loop(0, rounds, 1, merge, [zero, other])
        last = len(self.shape.sizes) - 1

        def move(at: Value, _: list[Value]) -> None:
            values = self._values(self._position(side, at))
            for value, access, target in zip(values, self.shape.writes, self.targets, strict=True):
                self.elements.store(value, access, last, access.moved(f, target, last, at))

        f.loop(0, length, 1, move)

    def _merge(self, source: Value, target: Value, turn: Value, width: Value, pair: Value) -> None:
        """Merge one pair of runs: each left element after the right elements before it, then the rest of the right."""
        f, length = self.f, i64(self.shape.length)
        begin = f.binary("shl", pair, f.add(turn, 1))
        middle = f.minimum(f.binary("add", begin, width), length)
        end = f.minimum(f.binary("add", middle, width), length)

        def copy(at: Value, carried: list[Value]) -> list[Value]:
            (to,) = carried
            self._put(target, to, self._position(source, at))
            return [f.add(to, 1)]

        def left(at: Value, carried: list[Value]) -> list[Value]:
            taken, to = carried
            own = self._position(source, at)
            upto = f.maximum(taken, self._bisected(source, middle, end, turn, self._values(own)))
            (to,) = f.loop(taken, upto, 1, copy, [to])
            self._put(target, to, own)
            return [upto, f.add(to, 1)]

        taken, to = f.loop(begin, middle, 1, left, [middle, begin])
        f.loop(taken, end, 1, copy, [to])

    def _bisected(self, source: Value, low: Value, high: Value, turn: Value, own: list[Value]) -> Value:
        """The end of the right run's elements that sort before `own`, found by bisection."""
        f, last = self.f, i64(self.shape.length - 1)

        def halve(_: Value, carried: list[Value]) -> list[Value]:
            below, above = carried
            open_ = f.compare("slt", below, above)
            centre = f.minimum(f.binary("lshr", f.binary("add", below, above), i64(1)), last)
            others = self._values(self._position(source, centre))
            pairs = [value for pair in zip(others, own, strict=True) for value in pair]
            found = f.lane(self.shape.region.computed(f, pairs)[0], 0)
            before = f.binary("and", open_, found)
            after = f.binary("and", open_, f.binary("xor", found, Value("i1", "true")))
            return [f.select(before, f.add(centre, 1), below), f.select(after, centre, above)]

        return f.loop(0, f.add(turn, 1), 1, halve, [low, high])[0]
