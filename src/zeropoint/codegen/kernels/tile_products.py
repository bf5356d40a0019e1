"""The tiles of a contraction in tile registers (AMX).

A block has two tiles of up to 16 pixels, and a group of n vectors of output channels. One instruction adds the products
of a tile of pixels (16 pixels x 64 bytes: a chunk of up to 16 steps) with a tile of weights (16 steps x 16 channels of
four bytes) to a tile of accumulators (16 pixels x 16 channels). Of eight registers, four are accumulators, two have
pixels, and two have weights, so that a group of four vectors takes two passes over the steps:

    accumulators = biases
    for chunk of steps:
        accumulators += pixels[chunk] x weights[chunk]
    store accumulators                                      # on the stack, as [tile][pixel][vector][element]

The epilogue then reads the accumulators of a pixel as vectors. It is not mixed with the products of the next block:
networks were as fast so, or up to 15 % slower (Sapphire Rapids). Weights and activations have the same layout in memory
as for vector registers, because a tile is loaded row by row at a stride.

The weights of a long sum do not fit in the L1 cache, and reading them from L2 takes longer than the products. So the
chunks are divided into spans, and some blocks are multiplied with the weights of a span before the next one:

    for vectors of a pass:
        for span of chunks:
            for block of the blocks together:
                accumulators = span == 0 ? biases : load accumulators
                ...
                store accumulators

Tiles of narrow images cross rows (`ContractionShape.pitch`), so that fewer blocks read the weights.

All tiles are multiplied with the same number of pixels, because changing the shape of a register clears all of them. Of
tiles of two sizes, the smaller ones come first: their last pixel belongs to the next tile and is not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from zeropoint.codegen.kernels.arithmetic import TileTarget
from zeropoint.codegen.kernels.contraction_shape import BLOCK_TILES, ContractionShape
from zeropoint.codegen.kernels.contraction_tasks import ContractionTasks
from zeropoint.codegen.kernels.requantize import GROUP
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.tile_registers import TileRegisters, TileShape
from zeropoint.codegen.llvm.types import Value, i64

VECTORS = 2
"""The number of vectors of channels that are accumulated in one pass."""
PIXELS, WEIGHTS = BLOCK_TILES * VECTORS, BLOCK_TILES * VECTORS + BLOCK_TILES
"""The first registers of pixels and of weights. The accumulators come before them."""
TOGETHER = 4
"""The number of blocks that are multiplied with the weights of a span before the next one."""
SPAN = 18 << 10
"""The maximum number of bytes of weights of a span, for one pass. They and the pixels fit in the L1 cache."""
LONG = 40 << 10
"""The number of bytes of weights of a pass from which there are spans."""


@dataclass(frozen=True)
class ChannelGroup:
    """A group of `count` vectors of channels: the address of its weights, and its first byte in a pixel."""

    count: int
    weights: Value
    channel: Value


@dataclass(frozen=True)
class TileBlock:
    """A block of tiles: its number, and the address of its accumulators."""

    number: Value
    sums: Value


@dataclass(frozen=True)
class Place:
    """A row, and a pixel of the row."""

    row: Value
    pixel: Value


@dataclass(frozen=True)
class PixelTile:
    """A tile of pixels: its first one, and their number. If tiles cross rows, all are in the row 0."""

    first: Place
    pixels: Value


class TileProducts(ContractionTasks):
    """Emits the kernel of one contraction, whose accumulators are tile registers."""

    def __init__(self, shape: ContractionShape, isa: InstructionSet, f: Function):
        super().__init__(shape, isa, f, shape.tile_chunk)
        self.height = max(part.size for part in shape.tile_pixels.parts)
        self.spans = self._least_spans()
        self.together = 1 if self.spans == 1 else TOGETHER
        self.sums = f.scratch(self.together * self._block_bytes(GROUP))
        sums, pixels = TileShape(self.height, isa.bytes), TileShape(self.height, 4 * self.chunk)
        weights = TileShape(self.chunk, isa.bytes)
        assert isa.tiles is not None
        self.registers = TileRegisters(f, isa.tiles, [sums] * PIXELS + [pixels] * BLOCK_TILES + [weights] * VECTORS)

    def _least_spans(self) -> int:
        """The least number of equal spans whose weights stay in the L1 cache. 1 for short sums and for few blocks."""
        chunks, size = len(self.starts), VECTORS * self.chunk * self.isa.bytes * self.shape.arithmetic.halves
        if chunks * size <= LONG or self.shape.tiles(self.isa, GROUP) < TOGETHER:
            return 1
        return next(n for n in range(1, chunks + 1) if chunks % n == 0 and chunks // n * size <= SPAN)

    def tasks(self) -> None:
        """Emit the tasks `begin` to `end`, between the configuration and the release of the registers."""
        self.registers.configure()
        super().tasks()
        self.registers.release()

    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the blocks `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""
        f, group = self.f, ChannelGroup(count, weights, channel)
        # A chunk of a pass takes about as long as a pixel of the epilogue.
        parts = self._chunks(count) + BLOCK_TILES * self.height
        self.prefetch_group(self.shape.tiles(self.isa, count), parts, self.shape.group_bytes(self.isa, count))

        def together(first: Value, _: list[Value]) -> None:
            self._blocks_together(group, first, f.minimum(f.add(first, self.together), high))

        f.loop(low, high, self.together, together)

    def _blocks_together(self, group: ChannelGroup, first: Value, last: Value) -> None:
        """Emit the blocks `first` to `last`, which share the weights of a span; only `first` if blocks are alone."""
        f, count = self.f, group.count

        def each(emit: Callable[[TileBlock], None]) -> None:
            def block(index: Value, _: list[Value]) -> None:
                self.prefetch_from(index, f.at(group.weights, self.shape.group_bytes(self.isa, count)))
                here = f.mul(f.binary("sub", index, first), self._block_bytes(count))
                emit(TileBlock(index, f.at(self.sums, here)))

            if self.together == 1:
                block(first, [])
            else:
                f.loop(first, last, 1, block, entered=True)

        def finished(block: TileBlock, span: Value | None, vectors: range) -> None:
            self._accumulate(group, vectors, block, span)
            self._finish_block(group, block)

        for begin in range(0, count, VECTORS):
            vectors = range(begin, min(begin + VECTORS, count))
            span = partial(self._accumulate, group, vectors)
            # The epilogue of a block follows its last product, which leaves accumulators in the L1 cache.
            final = vectors.stop == count
            if self.spans > 1 or not final:
                each(lambda block, span=span: span(block, None))
            if self.spans > 1:
                spans = self.spans - 1 if final else self.spans
                f.loop(1, spans, 1, lambda number, _, span=span: each(lambda block: span(block, number)))
            if final:
                number = None if self.spans == 1 else i64(self.spans - 1)
                each(lambda block, number=number, vectors=vectors: finished(block, number, vectors))

    def _block_bytes(self, count: int) -> int:
        """The bytes of the accumulators of a block."""
        return BLOCK_TILES * self.height * count * self.isa.bytes

    def _chunks(self, count: int) -> int:
        """The number of chunks in all passes of a block."""
        return -(-count // VECTORS) * len(self.starts)

    def _tile(self, block: TileBlock, number: int) -> PixelTile:
        """A tile of a block. A tile past the last one is the last one, which is multiplied again and not stored."""
        f, tiles, parts = self.f, self.shape.register_tiles, self.shape.tile_pixels.parts
        index = f.add(f.mul(block.number, BLOCK_TILES), number)
        if number and tiles % BLOCK_TILES:
            index = f.minimum(index, i64(tiles - 1))
        several = self.shape.rows > 1 and not self.shape.pitch
        y, x = f.divided(index, self.shape.tile_pixels.count) if several else (i64(0), index)
        start, pixels = f.mul(x, parts[0].size), i64(parts[0].size)
        if len(parts) > 1:
            larger = f.add(x, -parts[0].count)
            start = f.add(start, f.maximum(larger, i64(0)))
            pixels = f.add(pixels, f.cast("zext", f.compare("sge", larger, 0), "i64"))
        return PixelTile(Place(y, start), pixels)

    def _address(self, base: Value, place: Place, row: int, pixel: int) -> Value:
        """The address of a pixel."""
        f = self.f
        moved = f.at(base, f.mul(place.row, row)) if self.shape.rows > 1 else base
        return f.at(moved, f.mul(place.pixel, pixel))

    def _accumulate(self, group: ChannelGroup, vectors: range, block: TileBlock, span: Value | None) -> None:
        """Emit a span of a pass: the accumulators of some vectors of all tiles of a block. None is the first span."""
        f, isa, shape, registers = self.f, self.isa, self.shape, self.registers
        tiles, parameters = range(BLOCK_TILES), self.parameters(group.weights, group.count)
        sources = [
            self._address(self.source, self._tile(block, number).first, shape.in_row, shape.in_pixel)
            for number in tiles
        ]
        row = group.count * isa.bytes
        places = [
            (number * VECTORS + n, f.at(block.sums, number * self.height * row + vectors[n] * isa.bytes))
            for number in tiles
            for n in range(len(vectors))
        ]
        for place, (register, sums) in enumerate(places):
            if span is None:
                # Every row of the register is the same vector of biases.
                registers.load(register, f.at(parameters, vectors[place % len(vectors)] * isa.bytes), 0)
            else:
                registers.load(register, sums, row)
        self._multiply(group, vectors, sources, span)
        for register, sums in places:
            registers.store(register, sums, row)

    def _multiply(self, group: ChannelGroup, vectors: range, sources: list[Value], span: Value | None) -> None:
        """Emit the products of the chunks of a span."""
        f, isa, shape, registers = self.f, self.isa, self.shape, self.registers
        table = f.module.table(self.starts) if len(shape.runs) > 1 else None
        halves, length = shape.arithmetic.halves, len(self.starts) // self.spans
        stride = halves * group.count * isa.bytes

        def chunk(number: Value, _: list[Value]) -> None:
            index = number if span is None else f.add(f.mul(span, length), number)
            taps = f.mul(index, 4 * self.chunk) if table is None else f.load("i64", table, f.mul(index, 8), align=8)
            here = f.at(group.weights, f.mul(index, self.chunk * stride))
            self.prefetch_part(f.add(index, vectors.start // VECTORS * len(self.starts)))
            for tile, source in enumerate(sources):
                registers.load(PIXELS + tile, f.at(source, taps), shape.in_pixel)
            for half in range(halves):
                for n, vector in enumerate(vectors):
                    registers.load(WEIGHTS + n, f.at(here, (half * group.count + vector) * isa.bytes), stride)
                    for tile in range(BLOCK_TILES):
                        registers.multiply(tile * VECTORS + n, PIXELS + tile, WEIGHTS + n)

        if length == 1:
            chunk(i64(0), [])
        else:
            f.loop(0, length, 1, chunk, entered=True)

    def _finish_block(self, group: ChannelGroup, block: TileBlock) -> None:
        """Store the pixels of a block, from its accumulators."""
        f, tiles = self.f, self.shape.register_tiles
        for number in range(BLOCK_TILES):
            finish = partial(self._finish, group, block, number)
            if number and tiles % BLOCK_TILES:
                f.branch(f.compare("slt", f.add(f.mul(block.number, BLOCK_TILES), number), tiles), finish)
            else:
                finish()

    def _finish(self, group: ChannelGroup, block: TileBlock, number: int) -> None:
        """Store the pixels of a tile of a block, from its accumulators."""
        f, isa, shape, tile, count = self.f, self.isa, self.shape, self._tile(block, number), group.count
        parameters = self.parameters(group.weights, count)
        held = f.at(block.sums, number * self.height * count * isa.bytes)

        def pixel(index: Value, _: list[Value]) -> None:
            self.prefetch_part(f.add(index, self._chunks(count) + number * self.height))
            place = Place(tile.first.row, f.add(tile.first.pixel, index))
            if shape.pitch:
                place = Place(*f.divided(place.pixel, shape.pitch))
            vectors = f.vectors(isa.i32, f.at(held, f.mul(index, count * isa.bytes)), count)
            store = partial(shape.arithmetic.finish, f, isa, [vectors], parameters)
            if shape.pitch > shape.width:
                inside = f.compare("slt", place.pixel, shape.width)
                f.branch(inside, lambda: store(self._target(place, group.channel)))
            else:
                store(self._target(place, group.channel))

        f.loop(0, tile.pixels, 1, pixel, entered=True)

    def _target(self, place: Place, channel: Value) -> TileTarget:
        """The address of the output and the residuals of a pixel, from `channel` on."""
        f, shape, residual = self.f, self.shape, self.shape.arithmetic.residual
        out = f.at(self._address(self.out, place, shape.out_row, shape.out_pixel), channel)
        if residual is None:
            return TileTarget(out, shape.out_pixel)
        others = [self._address(other, place, residual.row, residual.pixel) for other in self.others]
        others = [f.at(other, channel) for other in others] if residual.channels else others
        return TileTarget(out, shape.out_pixel, *others)
