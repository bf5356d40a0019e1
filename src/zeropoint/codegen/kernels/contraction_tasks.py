"""The tasks of a contraction, one after the other: groups of output channels, and in each of them tiles of pixels.

Subclasses emit the tiles of a group: in vector registers (`vector_products.py`) or in tile registers
(`tile_products.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from zeropoint.codegen.kernels.contraction_shape import ContractionShape
from zeropoint.codegen.kernels.tiles import Part
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.parameters import ALIGNMENT

PREFETCHING_TILES = 64
"""The maximum number of tiles of a group for which the next group's weights are prefetched. Longer ones need none."""


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
        f, tasks, begin, beside, own = self.f, 0, 0, 0, self.own
        for part in self.shape.columns(self.isa).parts:
            self.own = None if own is None else f.at(own, beside)
            tiles = self.shape.tiles(self.isa, part.size)
            # The range of tasks of this part, counted from its first task.
            low = f.maximum(f.add(self.begin, -tasks), i64(0))
            high = f.minimum(f.add(self.end, -tasks), i64(part.count * tiles))
            self._groups(part, tiles, begin, low, high)
            tasks += part.count * tiles
            begin += part.count * self.shape.group_bytes(self.isa, part.size)
            beside += part.count * self.shape.arithmetic.size(self.isa, part.size)

    def _groups(self, part: Part, tiles: int, begin: int, low: Value, high: Value) -> None:
        """Emit the tasks `low` to `high` of groups of one size, whose weights start at `begin`."""
        f, size, own = self.f, self.shape.group_bytes(self.isa, part.size), self.own
        beside = self.shape.arithmetic.size(self.isa, part.size)

        def group(index: Value, _: list[Value]) -> None:
            base = f.mul(index, tiles)
            self.own = None if own is None else f.at(own, f.mul(index, beside))
            weights = f.at(f.at(self.weights, begin), f.mul(index, size))
            unit = self.isa.width * self.shape.arithmetic.channel_bytes
            channel = f.add(f.mul(index, part.size * unit), part.first * unit)
            first = f.maximum(f.binary("sub", low, base), i64(0))
            last = f.minimum(f.binary("sub", high, base), i64(tiles))
            self.tiles(part.size, weights, channel, first, last)

        if part.count == 1:
            # A loop of one iteration would only hide constants from LLVM.
            group(i64(0), [])
        else:
            f.loop(f.binary("sdiv", low, i64(tiles)), f.binary("sdiv", f.add(high, tiles - 1), i64(tiles)), 1, group)

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
