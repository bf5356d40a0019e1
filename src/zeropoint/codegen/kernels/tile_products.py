"""The tiles of a contraction in tile registers (AMX).

A block has two tiles of up to 16 pixels, and a group of n vectors of output channels. One instruction adds the products
of a tile of pixels (16 pixels x 64 bytes: a chunk of up to 16 steps) with a tile of weights (16 steps x 16 channels of
four bytes) to a tile of accumulators (16 pixels x 16 channels). Of eight registers, four are accumulators, two have
pixels, and two have weights, so that a group of four vectors takes two passes over the steps:

    accumulators = biases
    for chunk of steps:
        accumulators += pixels[chunk] x weights[chunk]
        finish some pixels of the block before              # the epilogue, in vector registers
    store accumulators                                      # on the stack, as [tile][pixel][vector][element]

The processor multiplies tiles while it finishes pixels, because neither waits for the other. The epilogue reads the
accumulators of a pixel as vectors; those of two blocks are on the stack. Weights and activations have the same layout
in memory as for vector registers, because a tile is loaded row by row at a stride.

All tiles are multiplied with the same number of pixels, because changing the shape of a register clears all of them. Of
tiles of two sizes, the smaller ones come first: their last pixel belongs to the next tile and is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
LONG = 8
"""The number of chunks in a pass from which products take longer than the epilogue."""
PIXELS, WEIGHTS = BLOCK_TILES * VECTORS, BLOCK_TILES * VECTORS + BLOCK_TILES
"""The first registers of pixels and of weights. The accumulators come before them."""


After = Callable[[Value], None]
"""Emits what is done after the chunk of a number."""


@dataclass(frozen=True)
class PixelTile:
    """A tile of pixels: its row, its first pixel in the row, and the number of its pixels."""

    row: Value
    first: Value
    pixels: Value


@dataclass(frozen=True)
class Finished:
    """A block whose accumulators are stored: its tiles, and the number of vectors and the parameters of its group.

    For each tile, there is the address of its accumulators, and the offsets of the output and of what is added.
    """

    tiles: Sequence[PixelTile]
    sums: Sequence[Value]
    count: int
    parameters: Value
    offsets: Sequence[Sequence[Value]]


class TileProducts(ContractionTasks):
    """Emits the kernel of one contraction, whose accumulators are tile registers."""

    def __init__(self, shape: ContractionShape, isa: InstructionSet, f: Function):
        super().__init__(shape, isa, f, shape.tile_chunk)
        self.height = max(part.size for part in shape.tile_pixels.parts)
        self.sums = f.scratch((BLOCK_TILES + 1) * self._held(GROUP))
        sums, pixels = TileShape(self.height, isa.bytes), TileShape(self.height, 4 * self.chunk)
        weights = TileShape(self.chunk, isa.bytes)
        assert isa.tiles is not None
        self.registers = TileRegisters(f, isa.tiles, [sums] * PIXELS + [pixels] * BLOCK_TILES + [weights] * VECTORS)
        # The operands of the epilogue: the output and what is added, with the strides of rows and pixels.
        residual = shape.arithmetic.residual
        self.operands = [(self.out, shape.out_row, shape.out_pixel)]
        if residual is not None:
            self.operands += [(other, residual.row, residual.pixel) for other in self.others]

    @property
    def interleaved(self) -> bool:
        """Whether a block is finished while the next one is multiplied.

        Long sums, and values to be added, come from outer caches: then reading ahead saves more time.
        """
        residual = self.shape.arithmetic.residual
        return len(self.starts) < LONG and (residual is None or not residual.channels)

    def tasks(self) -> None:
        """Emit the tasks `begin` to `end`, between the configuration and the release of the registers."""
        self.registers.configure()
        super().tasks()
        self.registers.release()

    def tiles(self, count: int, weights: Value, channel: Value, low: Value, high: Value) -> None:
        """Emit the blocks `low` to `high` of one group of `count` vectors, which is `channel` bytes into a pixel."""
        f, size = self.f, self.shape.group_bytes(self.isa, count)
        passes = [range(begin, min(begin + VECTORS, count)) for begin in range(0, count, VECTORS)]
        chunks, pixels = len(passes) * len(self.starts), BLOCK_TILES * self.height
        # A chunk takes about as long as a pixel of the epilogue.
        parts = chunks if self.interleaved else chunks + pixels
        self.prefetch_group(self.shape.tiles(self.isa, count), parts, size)

        def finish(block: Value) -> None:
            """Finish a block at once."""
            finished = self._finished(block, None, count, weights, channel)
            for tile, held in enumerate(finished.tiles):
                first = None if self.interleaved else chunks + tile * self.height
                self._pixels(finished, tile, (i64(0), held.pixels), first)

        def block(index: Value, _: list[Value]) -> None:
            self.prefetch_from(index, weights, size)
            for vectors in passes:
                self._accumulate(count, vectors, weights, index)
            finish(index)

        def interleaved(index: Value, _: list[Value]) -> None:
            self.prefetch_from(index, weights, size)
            before = self._finished(f.add(index, -1), f.compare("sgt", index, low), count, weights, channel)
            for number, vectors in enumerate(passes):
                # One pass finishes both tiles, two passes one each.
                after = partial(self._some, before, range(number, BLOCK_TILES, len(passes)))
                self._accumulate(count, vectors, weights, index, after)

        f.loop(low, high, 1, interleaved if self.interleaved else block)
        if self.interleaved:
            f.branch(f.compare("slt", low, high), lambda: finish(f.add(high, -1)))

    @property
    def _tiles(self) -> int:
        """The number of tiles of pixels."""
        return self.shape.rows * self.shape.tile_pixels.count

    def _held(self, count: int) -> int:
        """Bytes of the accumulators of a tile."""
        return self.height * count * self.isa.bytes

    def _sums(self, block: Value, number: int, count: int) -> Value:
        """The address of the accumulators of a tile of a block.

        If the next block is multiplied before, its first pass overwrites the first tile after it was finished, but not
        the other one: that of the next block is elsewhere.
        """
        f, held = self.f, self._held(count)
        here = f.at(self.sums, number * held)
        if not self.interleaved or number == 0 or count <= VECTORS:
            return here
        return f.at(here, f.mul(f.binary("and", block, i64(1)), held))

    def _tile(self, block: Value, number: int) -> PixelTile:
        """A tile of a block. A tile past the last one is the last one, which is multiplied again and has no pixels."""
        f, parts = self.f, self.shape.tile_pixels.parts
        at = index = f.add(f.mul(block, BLOCK_TILES), number)
        is_odd = number > 0 and self._tiles % BLOCK_TILES > 0
        if is_odd:
            index = f.minimum(at, i64(self._tiles - 1))
        y, x = f.divided(index, self.shape.tile_pixels.count) if self.shape.rows > 1 else (i64(0), index)
        start, pixels = f.mul(x, parts[0].size), i64(parts[0].size)
        if len(parts) > 1:
            larger = f.add(x, -parts[0].count)
            start = f.add(start, f.maximum(larger, i64(0)))
            pixels = f.add(pixels, f.cast("zext", f.compare("sge", larger, 0), "i64"))
        if is_odd:
            pixels = f.select(f.compare("slt", at, self._tiles), pixels, i64(0))
        return PixelTile(y, start, pixels)

    def _offset(self, tile: PixelTile, row: int, pixel: int) -> Value:
        """The offset of the first pixel of a tile."""
        f, start = self.f, self.f.mul(tile.first, pixel)
        return f.add(f.mul(tile.row, row), start) if self.shape.rows > 1 else start

    def _accumulate(self, count: int, vectors: range, weights: Value, block: Value, after: After | None = None) -> None:
        """Emit a pass: the accumulators of some vectors of a block's tiles. `after` is emitted after each chunk."""
        f, isa, shape, registers = self.f, self.isa, self.shape, self.registers
        tiles, parameters = range(BLOCK_TILES), self.parameters(weights, count)
        sources = [
            f.at(self.source, self._offset(self._tile(block, number), shape.in_row, shape.in_pixel)) for number in tiles
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
            for number, source in enumerate(sources):
                registers.load(PIXELS + number, f.at(source, taps), shape.in_pixel)
            for half in range(halves):
                for n, vector in enumerate(vectors):
                    registers.load(WEIGHTS + n, f.at(here, (half * count + vector) * isa.bytes), stride)
                    for number in tiles:
                        registers.multiply(number * VECTORS + n, PIXELS + number, WEIGHTS + n)
            if after is not None:
                after(index)

        if len(self.starts) == 1:
            chunk(i64(0), [])
        else:
            f.loop(0, len(self.starts), 1, chunk, entered=True)
        for number, n in places:
            to = f.at(self._sums(block, number, count), vectors[n] * isa.bytes)
            registers.store(number * VECTORS + n, to, count * isa.bytes)

    def _finished(self, block: Value, exists: Value | None, count: int, weights: Value, channel: Value) -> Finished:
        """A block whose accumulators are stored. It has no pixels if it does not exist."""
        f, residual = self.f, self.shape.arithmetic.residual
        tiles = [self._tile(block, number) for number in range(BLOCK_TILES)]
        if exists is not None:
            tiles = [PixelTile(tile.row, tile.first, f.select(exists, tile.pixels, i64(0))) for tile in tiles]
        offsets: list[list[Value]] = []
        for tile in tiles:
            out, *others = [self._offset(tile, row, pixel) for _, row, pixel in self.operands]
            if residual is not None and residual.channels:
                others = [f.add(other, channel) for other in others]
            offsets.append([f.add(out, channel), *others])
        sums = [self._sums(block, number, count) for number in range(BLOCK_TILES)]
        return Finished(tiles, sums, count, self.parameters(weights, count), offsets)

    def _some(self, finished: Finished, tiles: range, chunk: Value) -> None:
        """Finish the part of some tiles that belongs to a chunk."""
        f, each = self.f, -(-self.height // len(self.starts))
        begin = f.mul(chunk, each)
        for tile in tiles:
            self._pixels(finished, tile, (begin, f.minimum(f.add(begin, each), finished.tiles[tile].pixels)))

    def _pixels(self, finished: Finished, tile: int, pixels: tuple[Value, Value], part: int | None = None) -> None:
        """Store pixels of a tile, from the first to before the last. `part` is the first one's part to prefetch."""
        f, isa, shape, count = self.f, self.isa, self.shape, finished.count
        starts = [f.at(base, offset) for (base, *_), offset in zip(self.operands, finished.offsets[tile], strict=True)]

        def pixel(index: Value, _: list[Value]) -> None:
            if part is not None:
                self.prefetch_part(f.add(index, part))
            places = [
                f.at(start, f.mul(index, stride)) for start, (*_, stride) in zip(starts, self.operands, strict=True)
            ]
            sums = f.vectors(isa.i32, f.at(finished.sums[tile], f.mul(index, count * isa.bytes)), count)
            to = TileTarget(places[0], shape.out_pixel, *places[1:])
            shape.arithmetic.finish(f, isa, [sums], finished.parameters, to)

        f.loop(*pixels, 1, pixel)
