"""The shape of a contraction, and how its pixels and channels are split into tiles (`contraction.py` has the code).

A tile has R output pixels and a group of n vectors of output channels. Its accumulators stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Self

import numpy as np

from zeropoint.codegen.kernels.arithmetic import Arithmetic
from zeropoint.codegen.kernels.requantize import GROUP
from zeropoint.codegen.kernels.tiles import NEAR, Split, balanced, divisor, greedy
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.tile_registers import ROWS
from zeropoint.numerics.arrays import IntArray

KEPT = 16 << 10
"""The maximum size in bytes of a group's weights that stay in the L1 cache beside other data."""
STREAMED = 30
"""The estimated bandwidth of the L2 cache in bytes per cycle."""
EPILOGUE = {1: 4, 2: 4.5, 3: 6.5, 4: 6.5}
"""The estimated cycles for requantizing a pixel, by the number of vectors in a group."""
UNPACKED = 2
"""The estimated cycles for dequantizing a vector of packed weights."""
BLOCK = 24 << 10
"""Bytes of weights in a block of steps."""
UNROLLED = 8
"""About so many steps of a sum are in one turn of a loop; up to twice as many are not in a loop."""
EXTRA = 0.3
"""How much longer a kernel of short code may take that has groups of one size."""
BLOCK_TILES = 2
"""The number of tiles of pixels that are multiplied with the same weights in tile registers."""
STORED = 5
"""The estimated cycles for storing and loading a pixel's accumulators of a group, beside the tile registers."""
CROSSING = 0.75
"""Tiles for tile registers cross rows if there are at most so many of them for each tile inside of a row."""
FEWEST = 6
"""The least number of pixels for which tile registers are used. Fewer have the time of reading the weights."""
SAVED = 1.5
"""The least number of cycles that tile registers save for each pixel and vector, because they cost as many."""
PIECE = 1 << 15
"""The least number of bytes of pixels that are computed for all channels before the next ones, in large images."""
FEWEST_SHARED = 6
"""The least number of tiles of pixels that threads share. Of fewer, most would be shared by two of them."""
MANY = 24
"""The number of pixels from which packed weights are dequantized to memory, panel by panel, for all tiles of pixels."""


@dataclass(frozen=True)
class ContractionShape:
    """The shape of a contraction in bytes, and how it is split into tiles: everything that its code depends on.

    Output pixel (y, x) is at y * out_row + x * out_pixel. For every r of `runs`, in order, it reads `4 * groups` bytes
    at y * in_row + x * in_pixel + r. The output channels are in `vectors` vectors of the instruction set.
    """

    rows: int
    width: int
    in_row: int
    in_pixel: int
    out_row: int
    out_pixel: int
    runs: tuple[int, ...]
    groups: int
    vectors: int
    arithmetic: Arithmetic
    apart: bool = False
    """Whether the weights are in a block of their own, which kernels with other parameters share."""

    def flat(self) -> Self:
        """The same contraction with all pixels in one row, if rows have no gaps, and with adjacent runs merged."""
        rows, width, residual = self.rows, self.width, self.arithmetic.residual
        adjacent = self.in_row == width * self.in_pixel and self.out_row == width * self.out_pixel
        # Tiles may then cross rows, so that fewer tiles are smaller than the registers allow.
        if rows > 1 and adjacent and (residual is None or residual.row == width * residual.pixel):
            rows, width = 1, rows * width
        each = self._adjacent_runs()
        return replace(
            self, rows=rows, width=width, runs=self.runs[::each], groups=self.groups * each,
        )  # fmt: skip

    def _adjacent_runs(self) -> int:
        """The maximum number of consecutive runs that can be merged into one run."""
        # Fewer runs need fewer entries in the table of starts.
        count, step = len(self.runs), 4 * self.groups
        # Runs between two that are not adjacent can be merged only if their number is a multiple.
        gaps = [n for n in range(1, count) if self.runs[n] != self.runs[n - 1] + step]
        return max(gcd(count, *gaps), 1)

    def in_tiles(self, isa: InstructionSet) -> bool:
        """Whether the accumulators are in tile registers (`tile_products.py`)."""
        if isa.tiles is None or not self.arithmetic.of_bytes or self.rows * self.width < FEWEST:
            return False
        # Vector registers compute two steps in a cycle, tile registers a chunk.
        return self.steps / 2 - self.steps / self.tile_chunk > SAVED

    @property
    def tile_chunk(self) -> int:
        """The number of steps of one product of tiles. They are inside of a run."""
        return tile_chunk(self.groups)

    @property
    def pitch(self) -> int:
        """The number of pixels from a row of the input to the next, if tiles for tile registers cross rows; else 0.

        Such tiles also have the pixels between the rows, which are multiplied and not stored. They are used if they are
        much fewer: each block of tiles reads all weights of its group.
        """
        # A piece of a transposed convolution without weights reads the same pixel for all results.
        pitch, gap = divmod(self.in_row, self.in_pixel) if self.in_pixel else (0, 0)
        alone = self.rows * -(-self.width // ROWS)
        return pitch if pitch and not gap and -(-self._pixels_across(pitch) // ROWS) <= CROSSING * alone else 0

    def _pixels_across(self, pitch: int) -> int:
        """The number of pixels from the first to the last one, with those between the rows."""
        return (self.rows - 1) * pitch + self.width

    @property
    def tile_pixels(self) -> Split:
        """The pixels of a row in tiles for tile registers, or those of all rows if tiles cross rows.

        Sizes differ by at most one; smaller tiles come first.
        """
        split = balanced(self._pixels_across(self.pitch) if self.pitch else self.width, ROWS)
        return Split.of(*((part.size, part.count) for part in reversed(split.parts)))

    @property
    def register_tiles(self) -> int:
        """The number of tiles of pixels for tile registers."""
        return self.tile_pixels.count * (1 if self.pitch else self.rows)

    @property
    def steps(self) -> int:
        """The number of steps, of four input bytes each."""
        return len(self.runs) * self.groups

    def columns(self, isa: InstructionSet) -> Split:
        """Split output vectors into groups of at most four, by the size that costs least; larger ones win ties."""
        found = [greedy(self.vectors, most) for most in range(GROUP, 0, -1)]
        costs = [self._cost(isa, split) for split in found]
        if isa.brief:
            # Groups of two sizes are twice the code.
            costs = [cost * (1 + EXTRA * (len(split.parts) - 1)) for cost, split in zip(costs, found, strict=True)]
        return found[costs.index(min(costs))]

    def _cost(self, isa: InstructionSet, columns: Split) -> float:
        """The estimated cycles per row: products or loads at two per cycle, or weights streamed from the L2 cache."""
        if self.in_tiles(isa):
            return self._cost_in_tiles(columns)
        total, unpacked = 0.0, UNPACKED if self.arithmetic.packed > 1 and not self.paneled else 0
        for part in columns.parts:
            # The bytes of weights of one step of the group.
            weights = part.size * isa.bytes / self.arithmetic.packed
            # Weights that stay in L1 cost no bandwidth from L2.
            streamed = weights / STREAMED if weights * self.steps > KEPT else 0
            for tile in self.pixels(isa, part.size).parts:
                # Products, loads and streaming overlap, so the longest of them counts.
                step = max(self._step(tile.size, part.size), (tile.size + part.size) / 2, streamed)
                step += unpacked * part.size
                total += part.count * tile.count * (step * self.steps + tile.size * EPILOGUE[part.size])
        return total

    def _step(self, pixels: int, count: int) -> float:
        """The estimated cycles for the products of a step."""
        # Dot products run two per cycle. With 16 bits, a pixel takes two instructions for its operands, and a vector
        # two products and two sums. Of these, three run per cycle.
        return pixels * (2 + 4 * count) / 3 if self.arithmetic.wide else pixels * count / 2

    def _cost_in_tiles(self, columns: Split) -> float:
        """The estimated cycles per row: a cycle a pixel for the products of a chunk, and then the epilogue."""
        products = self.steps / self.tile_chunk
        return self.width * sum(
            part.count * (part.size * products + EPILOGUE[part.size] + STORED) for part in columns.parts
        )

    @property
    def paneled(self) -> bool:
        """Whether packed weights are dequantized to memory in panels. The output holds accumulators between panels."""
        return self.arithmetic.packed > 1 and len(self.runs) == 1 and self.rows * self.width >= MANY

    def blocks(self, isa: InstructionSet, count: int) -> int:
        """The number of blocks of steps, such that the weights of a block stay in L1. 1 for short sums.

        Between blocks, the output holds the accumulators. Without blocks, every tile of a long sum would reload its
        weights from outer caches.
        """
        chunks = self.chunks
        weights = self.weight_bytes(isa, count)
        if (
            self.arithmetic.packed > 1
            or not self.arithmetic.in_order
            or weights <= 4 * BLOCK
            or self.tiles(isa, count) < 4
        ):
            return 1
        # The smallest number of equal blocks that are small enough.
        return next(n for n in range(-(-weights // BLOCK), chunks + 1) if chunks % n == 0)

    def is_blocked(self, isa: InstructionSet) -> bool:
        """Whether the output temporarily holds accumulators, so that it may not share memory with the residual."""
        return self.paneled or any(self.blocks(isa, part.size) > 1 for part in self.columns(isa).parts)

    @property
    def chunks(self) -> int:
        """Number of iterations of the loop over steps."""
        return self.steps // self.chunk

    @property
    def chunk(self) -> int:
        """Steps in one iteration: all of them if they are few."""
        # A chunk does not cross a run: its size divides the groups of one.
        return self.steps if self.steps <= 2 * UNROLLED else divisor(self.groups, UNROLLED)

    def pixels(self, isa: InstructionSet, count: int) -> Split:
        """Split the pixels of a row into tiles for groups of `count` vectors, whose accumulators fit the registers."""
        # Registers hold the accumulators of the tile, the `count` weight vectors of a step and one broadcast input.
        # With packed weights, they also hold the words and the scales.
        held = 3 * count if self.arithmetic.packed > 1 and not self.paneled else count
        most = max(1, min(isa.most_pixels, (isa.registers - held - 1) // count))
        if self.arithmetic.wide:
            # Besides its sums, each pixel has an operand. A weight vector, a product and a spare one are in three more.
            most = max(1, (isa.registers - 3) // (count + 1))
        # Tiles of two sizes are twice the code.
        even = [size for size in range(most // 2 + 1, most + 1) if self.width % size == 0] if isa.brief else []
        return greedy(self.width, even[-1]) if even else balanced(self.width, most)

    def tiles(self, isa: InstructionSet, count: int) -> int:
        """The number of tiles of one group of `count` vectors, or of blocks of tiles in tile registers."""
        if self.in_tiles(isa):
            return -(-self.register_tiles // BLOCK_TILES)
        return self.rows * self.pixels(isa, count).count

    def by_pixels(self, isa: InstructionSet) -> bool:
        """Whether threads share the pixels, and each computes all channels of its own ones.

        The next step then finds most of what it reads in the cache of its own processor. Otherwise, threads share the
        weights, which are more bytes than the pixels.
        """
        if self.columns(isa).count == 1:
            return False  # the tasks are tiles of pixels anyway
        return self._weights(isa) <= self._pixel_bytes and self.most_tiles(isa) >= FEWEST_SHARED

    def piece(self, isa: InstructionSet) -> int:
        """The number of tiles after which a thread goes on to the next group of channels, if threads share pixels.

        All tiles of small images. Large ones would not stay in the L2 cache from group to group.
        """
        tiles, whole = self.most_tiles(isa), self._pixel_bytes
        return tiles if whole <= NEAR else max(1, tiles * max(PIECE, 4 * self._weights(isa)) // whole)

    @property
    def _pixel_bytes(self) -> int:
        """Bytes of all pixels of the input and the output."""
        return self.rows * self.width * (self.in_pixel + self.out_pixel)

    def _weights(self, isa: InstructionSet) -> int:
        """Bytes of all weights."""
        return sum(part.count * self.weight_bytes(isa, part.size) for part in self.columns(isa).parts)

    def most_tiles(self, isa: InstructionSet) -> int:
        """The number of tiles of the groups that have the most."""
        return max(self.tiles(isa, part.size) for part in self.columns(isa).parts)

    def tasks(self, isa: InstructionSet) -> int:
        """The number of tiles of all groups."""
        columns = self.columns(isa)
        if self.by_pixels(isa):
            return columns.count * self.most_tiles(isa)
        return sum(part.count * self.tiles(isa, part.size) for part in columns.parts)

    def group_bytes(self, isa: InstructionSet, count: int) -> int:
        """Bytes of a group in the block of the weights: its weights, and its parameters unless they are apart."""
        return self.weight_bytes(isa, count) + (0 if self.apart else self.arithmetic.size(isa, count))

    def weight_bytes(self, isa: InstructionSet, count: int) -> int:
        """Bytes of weights of a group."""
        return self.steps // self.arithmetic.packed * self.arithmetic.halves * count * isa.bytes

    def groups_of(self, isa: InstructionSet, channels: int) -> Iterator[tuple[int, IntArray]]:
        """For every part, the vectors of a group and the channels (groups, channels of a group). -1 is padding."""
        for part in self.columns(isa).parts:
            first, size = part.first * isa.width, part.size * isa.width
            covered = np.arange(first, first + part.count * size).reshape(part.count, size)
            # The last vector may have fewer channels. Its padding computes zeros, which are not stored.
            yield part.size, np.where(covered < channels, covered, -1)


def tile_chunk(steps: int) -> int:
    """The number of steps of one product of tiles: the greatest divisor of the steps of a run that is at most 16."""
    return next(n for n in range(min(steps, ROWS), 0, -1) if steps % n == 0)
