"""The tasks of a contraction, one after the other: groups of output channels, and in each of them tiles of pixels.

Subclasses emit the tiles of a group: in vector registers (`vector_products.py`) or in tile registers
(`tile_products.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from zeropoint.codegen.kernels.contraction_shape import ContractionShape
from zeropoint.codegen.kernels.tiles import Part
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.parameters import ALIGNMENT

PREFETCHING_TILES = 64
"""The maximum number of tiles of a group for which the next group's weights are prefetched. Longer ones need none."""


@dataclass(frozen=True)
class _Groups:
    """Groups of output channels of one size. Their weights start at `begin`, and parameters that are apart at `beside`.

    Each group has `tiles` tiles of pixels.
    """

    part: Part
    tiles: int
    begin: int
    beside: int


class ContractionTasks(ABC):
    """Emits the kernel of one contraction, whose steps are in chunks of `chunk` steps of a run."""

    def __init__(self, shape: ContractionShape, isa: InstructionSet, f: Function, chunk: int):
        self.shape, self.isa, self.f, self.chunk = shape, isa, f, chunk
        self.source, *others, self.out, self.begin, self.end = f.arguments
        self.own = others.pop() if shape.apart else None
        """The parameters of the current group, if they are apart from the weights."""
        *self.others, self.weights = others
        self.starts = self._starts()
        self.lines = 0
        """The number of cache lines of weights in a part (`prefetch_group`)."""
        self.parts, self.ahead = 1, self.weights

    def _starts(self) -> list[int]:
        """Input offset of every chunk of steps."""
        if self.chunk == self.shape.steps:
            return [0]
        return [run + 4 * g for run in self.shape.runs for g in range(0, self.shape.groups, self.chunk)]

    def kernel(self) -> None:
        """Emit the kernel."""
        self.tasks()
        self.f.ret()

    def tasks(self) -> None:
        """Emit the tasks `begin` to `end`."""
        if self.shape.by_pixels(self.isa):
            self._by_pixels()
            return
        tasks = 0
        for block in self._blocks():
            tasks += self._by_group(block, tasks)

    def _by_pixels(self) -> None:
        """Emit the tasks, which are the groups of a tile of pixels, then those of the next tile.

        The tiles of a group that belong to the tasks are computed together. A group may have fewer tiles than others.
        """
        f, tiles, size = self.f, self.shape.most_tiles(self.isa), self.shape.piece(self.isa)
        every = self.shape.columns(self.isa).count

        def piece(begin: Value, end: Value) -> None:
            first = 0
            for block in self._blocks():
                self._groups(block, (i64(0), i64(block.part.count)), partial(bounds, begin, end, block.tiles, first))
                first += block.part.count

        def bounds(begin: Value, end: Value, count: int, first: int, index: Value) -> tuple[Value, Value]:
            # Task n * every + g is group g of tile n. The first of them from `begin` on is rounded up.
            rest = f.binary("sub", i64(every - 1 - first), index)
            low, high = (f.binary("udiv", f.add(task, rest), i64(every)) for task in (begin, end))
            if count == tiles:
                return low, high
            return f.binary("udiv", f.mul(low, count), i64(tiles)), f.binary("udiv", f.mul(high, count), i64(tiles))

        if size >= tiles:
            piece(self.begin, self.end)
        else:
            step = size * every
            f.loop(self.begin, self.end, step, lambda n, _: piece(n, f.minimum(f.add(n, step), self.end)))

    def _blocks(self) -> Iterator[_Groups]:
        """The groups of output channels, by size."""
        begin = beside = 0
        for part in self.shape.columns(self.isa).parts:
            yield _Groups(part, self.shape.tiles(self.isa, part.size), begin, beside)
            begin += part.count * self.shape.group_bytes(self.isa, part.size)
            beside += part.count * self.shape.arithmetic.size(self.isa, part.size)

    def _by_group(self, block: _Groups, before: int) -> int:
        """Emit the tasks that are tiles of some groups, after `before` other tasks. Returns their number."""
        f, tiles = self.f, block.tiles
        count = block.part.count * tiles
        low = f.maximum(f.add(self.begin, -before), i64(0))
        high = f.minimum(f.add(self.end, -before), i64(count))

        def bounds(index: Value) -> tuple[Value, Value]:
            base = f.mul(index, tiles)
            return f.maximum(f.binary("sub", low, base), i64(0)), f.minimum(f.binary("sub", high, base), i64(tiles))

        groups = f.binary("sdiv", low, i64(tiles)), f.binary("sdiv", f.add(high, tiles - 1), i64(tiles))
        self._groups(block, groups, bounds)
        return count

    def _groups(
        self, block: _Groups, groups: tuple[Value, Value], bounds: Callable[[Value], tuple[Value, Value]]
    ) -> None:
        """Emit a range of groups; `bounds` has the first tile of each, and one past the last."""
        f, part, own = self.f, block.part, self.own
        size, beside = self.shape.group_bytes(self.isa, part.size), self.shape.arithmetic.size(self.isa, part.size)
        unit = self.isa.width * self.shape.arithmetic.channel_bytes

        def group(index: Value, _: list[Value]) -> None:
            self.own = None if own is None else f.at(f.at(own, block.beside), f.mul(index, beside))
            weights = f.at(f.at(self.weights, block.begin), f.mul(index, size))
            channel = f.add(f.mul(index, part.size * unit), part.first * unit)
            self.tiles(part.size, weights, channel, *bounds(index))

        if part.count == 1:
            # A loop of one iteration would only hide constants from LLVM.
            group(i64(0), [])
        else:
            f.loop(*groups, 1, group)
        self.own = own

    @abstractmethod
    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the tiles `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""

    def parameters(self, weights: Value, count: int) -> Value:
        """The address of the parameters of a group of `count` vectors."""
        return self.own or self.f.at(weights, self.shape.weight_bytes(self.isa, count))

    def prefetch_group(self, tiles: int, parts: int, size: int) -> None:
        """Divide weights of `size` bytes into equal parts: `parts` for each of `tiles`.

        They are those of the next group or block, which follow in memory. The last group is followed by the weights of
        the next kernel.
        """
        self.parts = parts
        self.lines = -(-size // (ALIGNMENT * tiles * parts)) if tiles <= PREFETCHING_TILES else 0

    def prefetch_from(self, index: Value, ahead: Value) -> None:
        """Let tile `index` prefetch its parts of the weights at `ahead`."""
        f = self.f
        self.ahead = f.at(ahead, f.mul(index, self.lines * self.parts * ALIGNMENT))

    def prefetch_part(self, number: Value | None = None) -> None:
        """Prefetch a part of the tile; without a number, the first one."""
        f, ahead = self.f, self.ahead
        for line in range(self.lines):
            part = ahead if number is None else f.at(ahead, f.mul(number, self.lines * ALIGNMENT))
            f.prefetch(part, line * ALIGNMENT)
