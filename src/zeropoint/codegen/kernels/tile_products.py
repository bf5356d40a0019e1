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

All tiles are multiplied with the same number of pixels, because changing the shape of a register clears all of them. Of
tiles of two sizes, the smaller ones come first: their last pixel belongs to the next tile and is not stored.
"""

from __future__ import annotations

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
        self.sums = f.scratch(BLOCK_TILES * self.height * GROUP * isa.bytes)
        sums, pixels = TileShape(self.height, isa.bytes), TileShape(self.height, 4 * self.chunk)
        weights = TileShape(self.chunk, isa.bytes)
        assert isa.tiles is not None
        self.registers = TileRegisters(f, isa.tiles, [sums] * PIXELS + [pixels] * BLOCK_TILES + [weights] * VECTORS)

    def tasks(self) -> None:
        """Emit the tasks `begin` to `end`, between the configuration and the release of the registers."""
        self.registers.configure()
        super().tasks()
        self.registers.release()

    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the blocks `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""
        f, size = self.f, self.shape.group_bytes(self.isa, count)
        passes = [range(begin, min(begin + VECTORS, count)) for begin in range(0, count, VECTORS)]
        # A chunk of a pass takes about as long as a pixel of the epilogue.
        parts = self._chunks(count) + BLOCK_TILES * self.height
        self.prefetch_group(self.shape.tiles(self.isa, count), parts, size)

        def block(index: Value, _: list[Value]) -> None:
            self.prefetch_from(index, f.at(weights, size))
            for vectors in passes:
                self._accumulate(count, vectors, weights, index)
            tiles = self.shape.register_tiles
            for number in range(BLOCK_TILES):
                finish = partial(self._finish, count, weights, index, number, channel)
                if number and tiles % BLOCK_TILES:
                    f.branch(f.compare("slt", f.add(f.mul(index, BLOCK_TILES), number), tiles), finish)
                else:
                    finish()

        f.loop(low, high, 1, block)

    def _chunks(self, count: int) -> int:
        """The number of chunks in all passes of a block."""
        return -(-count // VECTORS) * len(self.starts)

    def _tile(self, block: Value, number: int) -> PixelTile:
        """A tile of a block. A tile past the last one is the last one, which is multiplied again and not stored."""
        f, tiles, parts = self.f, self.shape.register_tiles, self.shape.tile_pixels.parts
        index = f.add(f.mul(block, BLOCK_TILES), number)
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

    def _accumulate(self, count: int, vectors: range, weights: Value, block: Value) -> None:
        """Emit a pass: the accumulators of some vectors of all tiles of a block."""
        f, isa, shape, registers = self.f, self.isa, self.shape, self.registers
        tiles, parameters = range(BLOCK_TILES), self.parameters(weights, count)
        sources = [
            self._address(self.source, self._tile(block, number).first, shape.in_row, shape.in_pixel)
            for number in tiles
        ]
        places = [(number, n) for number in tiles for n in range(len(vectors))]
        for number, n in places:
            # Every row of the register is the same vector of biases.
            registers.load(number * VECTORS + n, f.at(parameters, vectors[n] * isa.bytes), 0)
        table = f.module.table(self.starts) if len(shape.runs) > 1 else None
        halves = shape.arithmetic.halves
        stride = halves * count * isa.bytes

        def chunk(index: Value, _: list[Value]) -> None:
            taps = f.mul(index, 4 * self.chunk) if table is None else f.load("i64", table, f.mul(index, 8), align=8)
            here = f.at(weights, f.mul(index, self.chunk * stride))
            self.prefetch_part(f.add(index, vectors.start // VECTORS * len(self.starts)))
            for half in range(halves):
                for n, vector in enumerate(vectors):
                    registers.load(WEIGHTS + n, f.at(here, (half * count + vector) * isa.bytes), stride)
                    for number, source in enumerate(sources):
                        # The loads of a chunk are between its products, which take longer.
                        if half == n == 0:
                            registers.load(PIXELS + number, f.at(source, taps), shape.in_pixel)
                        registers.multiply(number * VECTORS + n, PIXELS + number, WEIGHTS + n)

        if len(self.starts) == 1:
            chunk(i64(0), [])
        else:
            f.loop(0, len(self.starts), 1, chunk, entered=True)
        for number, n in places:
            to = f.at(self.sums, (number * self.height * count + vectors[n]) * isa.bytes)
            registers.store(number * VECTORS + n, to, count * isa.bytes)

    def _finish(self, count: int, weights: Value, block: Value, number: int, channel: Value) -> None:
        """Store the pixels of a tile of a block, from its accumulators."""
        f, isa, shape, tile = self.f, self.isa, self.shape, self._tile(block, number)
        parameters = self.parameters(weights, count)
        held = f.at(self.sums, number * self.height * count * isa.bytes)

        def pixel(index: Value, _: list[Value]) -> None:
            self.prefetch_part(f.add(index, self._chunks(count) + number * self.height))
            place = Place(tile.first.row, f.add(tile.first.pixel, index))
            if shape.pitch:
                place = Place(*f.divided(place.pixel, shape.pitch))
            vectors = f.vectors(isa.i32, f.at(held, f.mul(index, count * isa.bytes)), count)
            store = partial(shape.arithmetic.finish, f, isa, [vectors], parameters)
            if shape.pitch > shape.width:
                f.branch(f.compare("slt", place.pixel, shape.width), lambda: store(self._target(place, channel)))
            else:
                store(self._target(place, channel))

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
