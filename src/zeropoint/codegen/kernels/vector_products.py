"""The tiles of a contraction in vector registers: the micro-kernel (`contraction.py`), for every arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from zeropoint.codegen.kernels.arithmetic import TileSums, TileTarget
from zeropoint.codegen.kernels.blockwise import Blocks
from zeropoint.codegen.kernels.contraction_shape import UNROLLED, ContractionShape
from zeropoint.codegen.kernels.contraction_tasks import ContractionTasks
from zeropoint.codegen.kernels.dequantized import PackedFloats
from zeropoint.codegen.kernels.tiles import Part, Split, divisor
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, i64, vector
from zeropoint.codegen.parameters import ALIGNMENT

LATENCY = 10
"""The number of independent dot products that are needed to issue two per cycle."""


@dataclass(frozen=True)
class Tile:
    """A tile of pixels: the addresses of the input, output and other operands of the arithmetic of its first pixel."""

    pixels: int
    source: Value
    target: Value
    others: Sequence[Value]


TileWork = Callable[[Tile], None]
Chunks = tuple[Value, Value]
"""A range of chunks of steps: the first, and one past the last."""


class VectorProducts(ContractionTasks):
    """Emits the kernel of one contraction, whose accumulators are vectors."""

    def __init__(self, shape: ContractionShape, isa: InstructionSet, f: Function):
        super().__init__(shape, isa, f, shape.chunk)

    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the tiles `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""
        f, shape = self.f, self.shape
        pixels = shape.pixels(self.isa, count)
        tiles = shape.tiles(self.isa, count)
        size = shape.group_bytes(self.isa, count)
        self.prefetch_group(tiles, len(self.starts), size)
        blocks = shape.blocks(self.isa, count)

        def every(ahead: Value, work: TileWork) -> None:
            """Emit `work` on every tile. It prefetches from `ahead`."""

            def one(index: Value, _: list[Value]) -> None:
                self.prefetch_from(index, ahead)
                self._at_tile(index, channel, pixels, work)

            f.loop(low, high, 1, one)

        following = f.at(weights, size)
        if shape.paneled:
            assert isinstance(shape.arithmetic, PackedFloats)
            return self._panels(shape.arithmetic, count, weights, partial(every, following))
        if blocks == 1:
            return every(following, partial(self._tile, count, weights))
        self._in_blocks(blocks, count, weights, tiles, every)

    def _in_blocks(
        self, blocks: int, count: int, weights: Value, tiles: int, every: Callable[[Value, TileWork], None]
    ) -> None:
        """Compute `tiles` tiles, block by block of steps. The tiles of a block prefetch the weights of the next one."""
        f, each = self.f, len(self.starts) // blocks
        step = self.chunk * self.shape.arithmetic.halves * count * self.isa.bytes
        every(weights, partial(self._begin, count, weights))
        self.prefetch_group(tiles, each, each * step)

        def block(index: Value, _: list[Value]) -> None:
            first = f.mul(index, each)
            last = f.add(first, each)
            # Parts of a tile have the numbers of chunks, which begin at `first`.
            ahead = f.at(f.at(weights, f.mul(last, step)), f.mul(first, -self.lines * ALIGNMENT))
            every(ahead, partial(self._continue, count, weights, (first, last)))

        f.loop(0, blocks, 1, block, entered=True)
        every(weights, partial(self._end, count, weights))

    def _at_tile(self, index: Value, channel: Value, pixels: Split, work: TileWork) -> None:
        """Emit `work` on tile `index`, which has one of two sizes."""
        f, shape = self.f, self.shape
        y, x = i64(0), index
        if shape.rows > 1:
            y, x = f.divided(index, pixels.count)

        def sized(part: Part) -> None:
            start = f.add(f.mul(f.add(x, -part.before), part.size), part.first)

            def address(base: Value, row: int, pixel: int) -> Value:
                moved = f.at(base, f.mul(y, row)) if shape.rows > 1 else base
                return f.at(moved, f.mul(start, pixel))

            source = address(self.source, shape.in_row, shape.in_pixel)
            target = f.at(address(self.out, shape.out_row, shape.out_pixel), channel)
            residual, others = shape.arithmetic.residual, list[Value]()
            if residual is not None:
                others = [address(each, residual.row, residual.pixel) for each in self.others]
            if residual is not None and residual.channels:
                others = [f.at(each, channel) for each in others]
            work(Tile(part.size, source, target, others))

        first, *others = pixels.parts
        if not others:
            sized(first)
        else:
            # Each size has separate code, because the accumulators of a tile are registers.
            f.branch(f.compare("slt", x, first.count), lambda: sized(first), lambda: sized(others[0]))

    def _tile(self, count: int, weights: Value, tile: Tile) -> None:
        """Compute a tile of `count` vectors."""
        if isinstance(self.shape.arithmetic, Blocks):
            return self._tile_of_blocks(self.shape.arithmetic, count, weights, tile)
        if isinstance(self.shape.arithmetic, PackedFloats):
            return self._tile_of_packed(self.shape.arithmetic, count, weights, tile)
        starts = self.shape.arithmetic.starts(self.f, self.isa, self.parameters(weights, count), count)
        return self._finished(count, weights, tile, self._summed(count, weights, tile, starts * tile.pixels))

    def _finished(self, count: int, weights: Value, tile: Tile, sums: list[Value]) -> None:
        pixels = _by_pixel(sums, count)
        to = TileTarget(tile.target, self.shape.out_pixel, *tile.others)
        self.shape.arithmetic.finish(self.f, self.isa, pixels, self.parameters(weights, count), to)

    # In blocks of steps with factors.

    def _tile_of_blocks(self, arithmetic: Blocks, count: int, weights: Value, tile: Tile) -> None:
        """Compute a tile. The sums of each block are added to wide sums."""
        f, isa, shape = self.f, self.isa, self.shape
        parameters, steps = self.parameters(weights, count), shape.groups // arithmetic.count
        each = steps if steps <= 2 * UNROLLED else divisor(steps, UNROLLED)
        stride = each * shape.arithmetic.halves * count * isa.bytes
        zeros = arithmetic.starts(f, isa, parameters, count) * tile.pixels

        def block(index: Value, wide: list[Value]) -> list[Value]:
            def chunk(number: Value, sums: list[Value]) -> list[Value]:
                at = f.add(f.mul(index, steps // each), number)
                source, here = f.at(tile.source, f.mul(at, 4 * each)), f.at(weights, f.mul(at, stride))
                return self._chunk(tile.pixels, count, source, here, sums, range(0, 4 * each, 4))

            sums = chunk(i64(0), zeros) if each == steps else f.loop(0, steps // each, 1, chunk, zeros, entered=True)
            return arithmetic.added(f, isa, wide, _by_pixel(sums, count), parameters, index)

        starts = arithmetic.wide_starts(f, isa, parameters, count) * tile.pixels
        wide = f.loop(0, arithmetic.count, 1, block, starts, entered=True)
        sums = arithmetic.narrowed(f, isa, wide, parameters, count)
        self._finished(count, weights, tile, [value for pixel in sums for value in pixel])

    def _tile_of_packed(self, arithmetic: PackedFloats, count: int, weights: Value, tile: Tile) -> None:
        """Compute a tile. Its weights are dequantized word by word."""
        f, isa, shape, packed = self.f, self.isa, self.shape, arithmetic.packed
        parameters, words = self.parameters(weights, count), shape.groups // packed // arithmetic.count

        def block(index: Value, sums: list[Value]) -> list[Value]:
            scales = arithmetic.block(f, isa, parameters, count, index)

            def word(number: Value, sums: list[Value]) -> list[Value]:
                at = f.add(f.mul(index, words), number)
                source, here = f.at(tile.source, f.mul(at, 4 * packed)), f.at(weights, f.mul(at, count * isa.bytes))
                held = f.vectors(isa.i32, here, count)
                for term in range(packed):
                    vectors = [arithmetic.weights(f, isa, held[n], term, *scales[n]) for n in range(count)]
                    sums = self._products(count, source, 4 * term, vectors, sums)
                return sums

            return f.loop(0, words, 1, word, sums, entered=True)

        starts = arithmetic.starts(f, isa, parameters, count) * tile.pixels
        self._finished(count, weights, tile, f.loop(0, arithmetic.count, 1, block, starts, entered=True))

    def _panels(self, arithmetic: PackedFloats, count: int, weights: Value, every: Callable[[TileWork], None]) -> None:
        """Compute tiles from weights that are dequantized once for all tiles, panel by panel of terms."""
        f, isa, parameters = self.f, self.isa, self.parameters(weights, count)
        terms, scaled = arithmetic.panel(self.shape.steps, count * isa.bytes)
        panel = f.scratch(terms * count * isa.bytes)
        every(partial(self._begin, count, weights))

        def one(index: Value, _: list[Value]) -> None:
            first = f.mul(index, terms)

            def part(number: Value, _: list[Value]) -> None:
                # The number of terms that share their scales.
                start = f.add(first, f.mul(number, scaled))
                block = f.binary("udiv", start, i64(self.shape.steps // arithmetic.count))
                scales = arithmetic.block(f, isa, parameters, count, block)
                to = f.at(panel, f.mul(number, scaled * count * isa.bytes))
                words = f.at(weights, f.mul(f.binary("udiv", start, i64(arithmetic.packed)), count * isa.bytes))
                self._unpack(arithmetic, count, words, to, scaled // arithmetic.packed, scales)

            f.loop(0, terms // scaled, 1, part, entered=True)
            every(partial(self._continue_panel, count, panel, first, terms))

        f.loop(0, self.shape.steps // terms, 1, one, entered=True)
        every(partial(self._end, count, weights))

    def _unpack(
        self,
        arithmetic: PackedFloats,
        count: int,
        words: Value,
        to: Value,
        number: int,
        scales: list[tuple[Value, Value | None]],
    ) -> None:
        """Dequantize `number` words of each of `count` vectors."""
        f, isa, packed = self.f, self.isa, arithmetic.packed

        def word(index: Value, _: list[Value]) -> None:
            here = f.at(words, f.mul(index, count * isa.bytes))
            there = f.at(to, f.mul(index, packed * count * isa.bytes))
            held = f.vectors(isa.i32, here, count)
            for term in range(packed):
                for n in range(count):
                    made = arithmetic.weights(f, isa, held[n], term, *scales[n])
                    f.store(made, there, (term * count + n) * isa.bytes)

        f.loop(0, number, 1, word, entered=True)

    def _continue_panel(self, count: int, panel: Value, first: Value, terms: int, tile: Tile) -> None:
        """Accumulate the terms of a panel, the first of which is `first`, in a tile."""
        f, each = self.f, divisor(terms, UNROLLED)
        base = f.at(tile.source, f.mul(first, 4))

        def chunk(index: Value, sums: list[Value]) -> list[Value]:
            source = f.at(base, f.mul(index, 4 * each))
            here = f.at(panel, f.mul(index, each * count * self.isa.bytes))
            return self._chunk(tile.pixels, count, source, here, sums, range(0, 4 * each, 4))

        self._hold(count, tile, f.loop(0, terms // each, 1, chunk, self._held(count, tile), entered=True))

    def _products(
        self, count: int, source: Value, offset: int, vectors: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """The accumulators of some pixels, `count` for each, plus the products of the step at an input offset."""
        f, made, arithmetic = self.f, list(sums), self.shape.arithmetic
        operands: list[Sequence[Value]] = []
        for pixel in range(len(sums) // count):
            word = f.broadcast(f.load("i32", source, pixel * self.shape.in_pixel + offset), self.isa.width)
            operands.append(arithmetic.operands(f, word))
        pairs = list(itertools.product(range(len(operands)), range(len(vectors))))
        if arithmetic.wide:
            # Vector by vector, because the operands of all pixels take the registers of the other vectors.
            pairs.sort(key=lambda pair: pair[1])
        for pixel, n in pairs:
            number = pixel * count + n % count
            operand = operands[pixel][n // count]
            made[number] = arithmetic.step(f, self.isa, made[number], operand, vectors[n])
        return made

    # In blocks of steps, between which the output holds the accumulators.

    def _begin(self, count: int, weights: Value, tile: Tile) -> None:
        """Store the initial accumulators of a tile."""
        starts = self.shape.arithmetic.starts(self.f, self.isa, self.parameters(weights, count), count)
        self._hold(count, tile, starts * tile.pixels)

    def _continue(self, count: int, weights: Value, chunks: Chunks, tile: Tile) -> None:
        """Accumulate some chunks of steps of a tile."""
        self._hold(count, tile, self._summed(count, weights, tile, self._held(count, tile), chunks))

    def _end(self, count: int, weights: Value, tile: Tile) -> None:
        self._finished(count, weights, tile, self._held(count, tile))

    def _offsets(self, count: int, tile: Tile) -> list[int]:
        """The offsets in the output of a tile's accumulators."""
        pixels, vectors = range(tile.pixels), range(count)
        return [pixel * self.shape.out_pixel + n * self.isa.bytes for pixel in pixels for n in vectors]

    def _hold(self, count: int, tile: Tile, sums: list[Value]) -> None:
        for value, offset in zip(sums, self._offsets(count, tile), strict=True):
            self.f.store(value, tile.target, offset)

    def _held(self, count: int, tile: Tile) -> list[Value]:
        type_ = vector(self.isa.width, "float")
        return [self.f.load(type_, tile.target, offset) for offset in self._offsets(count, tile)]

    def _summed(
        self, count: int, weights: Value, tile: Tile, sums: list[Value], chunks: Chunks | None = None
    ) -> list[Value]:
        """The accumulators after all steps or some chunks. Few integers are computed in two independent chains."""
        half = tile.pixels * count
        # Sums of floats are rounded, so that two chains would give other bits.
        chains = 1 if half >= LATENCY or self.shape.steps < 8 or self.shape.arithmetic.in_order else 2
        # The first chain starts at the bias, the second at 0.
        zero = Value(sums[0].type, "zeroinitializer")
        sums = self._steps(count, weights, tile, sums + [zero] * ((chains - 1) * half), chunks)
        if chains == 2:
            return [self.f.add(sums[n], sums[half + n]) for n in range(half)]
        return sums

    def _steps(self, count: int, weights: Value, tile: Tile, sums: list[Value], chunks: Chunks | None) -> list[Value]:
        f, isa, shape, size, source = self.f, self.isa, self.shape, tile.pixels, tile.source
        if self.chunk == shape.steps:
            offsets = [run + 4 * g for run in shape.runs for g in range(shape.groups)]
            self.prefetch_part()
            return self._chunk(size, count, source, weights, sums, offsets)
        stride = self.chunk * shape.arithmetic.halves * count * isa.bytes
        # With one run, the offset is a product, which saves a load from a table.
        table = f.module.table(self.starts) if len(shape.runs) > 1 else None

        def chunk(index: Value, carried: list[Value]) -> list[Value]:
            taps = f.mul(index, 4 * self.chunk) if table is None else f.load("i64", table, f.mul(index, 8), align=8)
            here = f.at(weights, f.mul(index, stride))
            self.prefetch_part(index)
            return self._chunk(size, count, f.at(source, taps), here, carried, range(0, 4 * self.chunk, 4))

        first, last = chunks or (i64(0), i64(len(self.starts)))
        return f.loop(first, last, 1, chunk, sums, entered=True)

    def _chunk(
        self, size: int, count: int, source: Value, weights: Value, sums: Sequence[Value], offsets: Sequence[int]
    ) -> list[Value]:
        """Emit steps at the given input offsets, with consecutive weights. Two chains alternate."""
        each = self.shape.arithmetic.halves * count
        chains = [list(sums[first : first + size * count]) for first in range(0, len(sums), size * count)]
        for step, offset in enumerate(offsets):
            # Consecutive steps add to different registers, which hides the latency of the product.
            chain = step % len(chains)
            vectors = self.f.vectors(self.isa.i8, weights, each, step * each)
            chains[chain] = self._products(count, source, offset, vectors, chains[chain])
        return [value for chain in chains for value in chain]


def _by_pixel(sums: Sequence[Value], count: int) -> TileSums:
    """The accumulators of a tile, `count` for each pixel."""
    return [sums[n : n + count] for n in range(0, len(sums), count)]
