"""The tiles of a contraction in tile registers (AMX).

A block has two tiles of up to 16 pixels, and a group of n vectors of output channels. One instruction adds the products
of a tile of pixels (16 pixels x 64 bytes: a chunk of up to 16 steps) with a tile of weights (16 steps x 16 channels of
four bytes) to a tile of accumulators (16 pixels x 16 channels). Of eight registers, four are accumulators, two have
pixels, and two have weights, so that a group of four vectors takes two passes over the steps:

    accumulators = biases
    for chunk of steps:
        accumulators += pixels[chunk] x weights[chunk]
    store accumulators                                      # on the stack, as [tile][pixel][vector][element]

The epilogue then reads the accumulators of a pixel as vectors. Weights and activations have the same layout in memory
as for vector registers, because a tile is loaded row by row at a stride.

All tiles are multiplied with the same number of pixels, because changing the shape of a register clears all of them. Of
tiles of two sizes, the smaller ones come first: their last pixel belongs to the next tile and is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.kernels.arithmetic import TileTarget
from zeropoint.codegen.kernels.contraction_shape import BLOCK_TILES, ContractionShape
from zeropoint.codegen.kernels.contraction_tasks import ContractionTasks
from zeropoint.codegen.kernels.requantize import GROUP
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.tile_registers import ROWS, TileRegisters, TileShape
from zeropoint.codegen.llvm.types import Value, i64

VECTORS = 2
"""The number of vectors of channels that are accumulated in one pass."""
PIXELS, WEIGHTS = BLOCK_TILES * VECTORS, BLOCK_TILES * VECTORS + BLOCK_TILES
"""The first registers of pixels and of weights. The accumulators come before them."""


@dataclass(frozen=True)
class PixelTile:
    """A tile of pixels: the number of them that are stored, and the addresses of the operands of the first one."""

    pixels: Value
    source: Value
    target: Value
    others: Sequence[Value]


class TileProducts(ContractionTasks):
    """Emits the kernel of one contraction, whose accumulators are tile registers."""

    def __init__(self, shape: ContractionShape, isa: InstructionSet, f: Function):
        super().__init__(shape, isa, f, shape.tile_chunk)
        self.sums = f.scratch(BLOCK_TILES * ROWS * GROUP * isa.bytes)
        self.height = max(part.size for part in shape.tile_pixels.parts)
        accumulators, pixels = TileShape(self.height, isa.bytes), TileShape(self.height, 4 * self.chunk)
        weights = TileShape(self.chunk, isa.bytes)
        shapes = [accumulators] * PIXELS + [pixels] * BLOCK_TILES + [weights] * VECTORS
        self.registers = TileRegisters(f, shapes)

    def kernel(self) -> None:
        self.registers.configure()
        super().kernel()

    def leave(self) -> None:
        self.registers.release()

    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the blocks `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""
        f, shape, size = self.f, self.shape, self.shape.group_bytes(self.isa, count)
        each, number = shape.tile_pixels.count, shape.rows * shape.tile_pixels.count
        self.prefetch_group(shape.tiles(self.isa, count), size)

        def block(index: Value, _: list[Value]) -> None:
            self.prefetch_from(index, weights, size)
            first = f.mul(index, BLOCK_TILES)
            tiles = [self._tile(first, each, channel)]
            for place in range(1, BLOCK_TILES):
                # A block past the last tile multiplies the last one again, and does not store it.
                at = f.add(first, place)
                tile = self._tile(f.minimum(at, i64(number - 1)), each, channel)
                stored = f.select(f.compare("slt", at, number), tile.pixels, i64(0))
                tiles.append(PixelTile(stored, tile.source, tile.target, tile.others))
            for begin in range(0, count, VECTORS):
                self._accumulate(count, range(begin, min(begin + VECTORS, count)), weights, tiles)
            for place, tile in enumerate(tiles):
                self._finish(count, weights, place, tile)

        f.loop(low, high, 1, block)

    def _tile(self, index: Value, each: int, channel: Value) -> PixelTile:
        """Tile `index` of the pixels, of which a row has `each`."""
        f, shape = self.f, self.shape
        y, x = f.divided(index, each) if shape.rows > 1 else (i64(0), index)
        first, *others = shape.tile_pixels.parts
        start, pixels = f.mul(x, first.size), i64(first.size)
        if others:
            larger = f.add(x, -first.count)
            start = f.add(start, f.maximum(larger, i64(0)))
            pixels = f.add(pixels, f.cast("zext", f.compare("sge", larger, 0), "i64"))

        def address(base: Value, row: int, pixel: int) -> Value:
            moved = f.at(base, f.mul(y, row)) if shape.rows > 1 else base
            return f.at(moved, f.mul(start, pixel))

        target = f.at(address(self.out, shape.out_row, shape.out_pixel), channel)
        residual, beside = shape.arithmetic.residual, list[Value]()
        if residual is not None:
            beside = [address(other, residual.row, residual.pixel) for other in self.others]
            beside = [f.at(other, channel) for other in beside] if residual.channels else beside
        return PixelTile(pixels, address(self.source, shape.in_row, shape.in_pixel), target, beside)

    def _accumulate(self, count: int, vectors: range, weights: Value, tiles: Sequence[PixelTile]) -> None:
        """Emit a pass: the accumulators of some vectors of all tiles."""
        f, isa, registers = self.f, self.isa, self.registers
        places, parameters = [(p, n) for p in range(len(tiles)) for n in range(len(vectors))], None
        parameters = self.parameters(weights, count)
        for p, n in places:
            # Every row of the register is the same vector of biases.
            registers.load(_sums(p, n), f.at(parameters, vectors[n] * isa.bytes), 0)
        table = f.module.table(self.starts) if len(self.shape.runs) > 1 else None
        halves = self.shape.arithmetic.halves
        stride = halves * count * isa.bytes

        def chunk(index: Value, _: list[Value]) -> None:
            taps = f.mul(index, 4 * self.chunk) if table is None else f.load("i64", table, f.mul(index, 8), align=8)
            here = f.at(weights, f.mul(index, self.chunk * stride))
            if not vectors.start:
                self.prefetch_part(index)
            for p, tile in enumerate(tiles):
                registers.load(PIXELS + p, f.at(tile.source, taps), self.shape.in_pixel)
            for half in range(halves):
                for n, number in enumerate(vectors):
                    registers.load(WEIGHTS + n, f.at(here, (half * count + number) * isa.bytes), stride)
                    for p in range(len(tiles)):
                        registers.multiply(_sums(p, n), PIXELS + p, WEIGHTS + n)

        if len(self.starts) == 1:
            chunk(i64(0), [])
        else:
            f.loop(0, len(self.starts), 1, chunk, entered=True)
        for p, n in places:
            to = f.at(self.sums, p * self.height * count * isa.bytes + vectors[n] * isa.bytes)
            registers.store(_sums(p, n), to, count * isa.bytes)

    def _finish(self, count: int, weights: Value, place: int, tile: PixelTile) -> None:
        """Store the pixels of a tile."""
        f, isa, shape = self.f, self.isa, self.shape
        sums = f.at(self.sums, place * self.height * count * isa.bytes)
        residual, parameters = shape.arithmetic.residual, self.parameters(weights, count)

        def pixel(index: Value, _: list[Value]) -> None:
            others = [f.at(other, f.mul(index, residual.pixel)) for other in tile.others] if residual else []
            to = TileTarget(f.at(tile.target, f.mul(index, shape.out_pixel)), shape.out_pixel, *others)
            held = f.vectors(isa.i32, f.at(sums, f.mul(index, count * isa.bytes)), count)
            shape.arithmetic.finish(f, isa, [held], parameters, to)

        f.loop(0, tile.pixels, 1, pixel)


def _sums(tile: int, vector: int) -> int:
    """The register of the accumulators of a tile and vector."""
    return tile * VECTORS + vector
