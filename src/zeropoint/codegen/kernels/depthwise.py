"""Depthwise convolution on the four-way dot product.

The 8-bit values of four input rows of one column are interleaved, so that every 32-bit element holds four taps of one
channel. This takes at most 16 in-lane unpack operations for a block of four vectors of V channels. One dot product then
adds four taps of V channels. A column is interleaved once for all output columns that read it. Two output rows share
input rows if they need no more groups of four than one. The weights of the second row are then shifted down by the
stride.

In-lane packing is the inverse of in-lane unpacking, so channels come out in order (`channel_order` of four vectors).

The parameters of a block are weights [output row][kernel column][group of four rows][vector][channel][4], biases, and
the parameters of the epilogue. A block begins at a multiple of the size of the vectors that read it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.computed import Output, parameters_of, rounding_of
from zeropoint.codegen.kernels.depthwise_lanes import LaneRow, buffer_size, fits
from zeropoint.codegen.kernels.depthwise_shape import DepthwiseShape
from zeropoint.codegen.kernels.requantize import GROUP, channel_order, of_channels, side_by_side
from zeropoint.codegen.kernels.tiles import NEAR
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.numerics.arrays import AnyArray, IntArray

AHEAD = 1 << 17
"""The maximum number of bytes of the next kernel's weights to prefetch."""
SMALL_IMAGE = 28 * 28
SHARED = 7
"""The least number of passes over rows that threads share."""


@dataclass(frozen=True)
class ChannelBlock:
    """`count` blocks of channels, starting at channel `first`, for one width of vectors."""

    isa: InstructionSet
    first: int
    count: int
    channels: int
    """The number of channels of a block: 4 V, or fewer if vectors hold several pixels (`depthwise_lanes`)."""
    before: int
    """The number of preceding blocks."""
    begin: int
    """The offset of the parameters, a multiple of the vector size."""


@dataclass(frozen=True)
class Depthwise(DepthwiseShape):
    """The kernel of a depthwise convolution: its blocks, their parameters, and its code."""

    @property
    def by_block(self) -> bool:
        """Whether to process all rows of a block of channels before the next block, so that half of its reads hit L1.

        False for images that do not fit L2, because they should be read only once, and for those with enough rows for
        threads to share: each finds most of its rows in the cache of its own processor.
        """
        size = self.rows * (self.strides[0] * self.in_row + self.out_row)
        return self.passes < SHARED and size <= NEAR

    def blocks(self, isa: InstructionSet) -> list[ChannelBlock]:
        """Split the channels into blocks: blocks of whole vectors first, then of narrower vectors for the rest."""
        blocks: list[ChannelBlock] = []
        first = before = begin = 0
        narrow: InstructionSet | None = isa
        while first < self.channels and narrow is not None:
            count = (self.channels - first) // narrow.bytes
            if count:
                # Channels that do not fill a wide vector share it with the channels of the next pixels.
                lanes = narrow is not isa and fits(self, isa, narrow.bytes)
                chosen = isa if lanes else narrow
                # A block of wide vectors may follow a block of narrow ones, whose size may not be a multiple of theirs.
                begin += -begin % chosen.bytes
                blocks.append(ChannelBlock(chosen, first, count, narrow.bytes, before, begin))
                first, before = first + count * narrow.bytes, before + count
                begin += count * self.block_bytes(chosen)
            narrow = narrow.narrower
        return blocks

    def block_bytes(self, isa: InstructionSet) -> int:
        """Bytes of parameters of a block, a multiple of its vectors."""
        vectors = self.paired * self.kernel[1] * self.groups * GROUP * self.halves + GROUP
        return vectors * isa.bytes + self.epilogue.size(isa, GROUP)

    def tasks(self, isa: InstructionSet) -> int:
        """Number of passes times blocks."""
        return self.passes * sum(block.count for block in self.blocks(isa))

    def pack(self, isa: InstructionSet, weights: AnyArray, bias: IntArray, output: Output) -> bytes:
        """Pack weights (kernel rows, kernel columns, channels) i8 and biases (channels,) as the kernel reads them."""
        channels = weights.shape[2]
        start = bias - isa.offset * weights.sum((0, 1), dtype=np.int64) + rounding_of(self.epilogue, output)
        taps, packed = self._taps(weights), bytearray()
        for block in self.blocks(isa):
            packed.extend(bytes(block.begin - len(packed)))
            first = block.first + np.arange(block.count)[:, None] * block.channels
            covered = first + np.arange(block.isa.bytes) % block.channels
            covered = np.where(covered < channels, covered, -1)
            chosen = covered[:, channel_order(GROUP, block.isa.width)]
            biases = of_channels(start, chosen, np.int32)
            own = parameters_of(self.epilogue, block.isa, output, covered, GROUP)
            packed.extend(side_by_side(taps[chosen].transpose(0, 3, 4, 5, 6, 1, 2, 7), biases, own).data)
        return bytes(packed)

    def _taps(self, weights: AnyArray) -> AnyArray:
        """The weights as (channels + 1, output row, kernel column, group of rows, half, tap). The last channel is 0."""
        rows, columns, channels = weights.shape
        taps = np.zeros((channels + 1, self.paired, columns, 4 * self.groups), np.int8)
        for row in range(self.paired):
            first = row * self.strides[0]
            taps[:-1, row, :, first : first + rows] = weights.transpose(2, 1, 0)
        # Four rows of a column are the four taps of a dot product.
        laid = taps.reshape(channels + 1, self.paired, columns, self.groups, 4)
        # A weight is the sum of its halves, and the sum of two products with halves fits 16 bits.
        halves = [laid] if self.halves == 1 else [laid >> 1, laid - (laid >> 1)]
        return np.stack(halves, axis=4)

    def prefetched(self) -> int:
        """How many cache lines of the next kernel's weights, which follow in memory, to prefetch per iteration.

        0 except for small images, whose kernels are short and have many weights.
        """
        rounds = self.passes * max(1, self.width // 2) * -(-self.channels // 64)
        return -(-AHEAD // (ALIGNMENT * rounds)) if self.rows * self.width <= SMALL_IMAGE else 0

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, parameters, output, begin, end)`: tasks begin to end."""
        f = module.kernel(name, "noalias in", "noalias w", "noalias out")
        blocks = self.blocks(isa)
        total = sum(block.count for block in blocks)
        source, parameters, out, begin, end = f.arguments
        scratch = f.scratch(max(self._scratch(block) for block in blocks))
        size = blocks[-1].begin + blocks[-1].count * self.block_bytes(blocks[-1].isa)
        ahead = self.prefetched() * max(1, self.width // 2) * ALIGNMENT

        def task(index: Value, _: list[Value]) -> None:
            inner = self.passes if self.by_block else total
            outer, rest = f.divided(index, inner)
            row, which = (rest, outer) if self.by_block else (outer, rest)
            # With an odd number of rows, the last pair starts one row earlier and computes that row again.
            y = f.minimum(f.mul(row, self.paired), i64(self.rows - self.paired))
            here = f.at(source, f.mul(y, self.strides[0] * self.in_row))
            there = f.at(out, f.mul(y, self.out_row))
            # The parameters of the next kernel follow in memory. Each task prefetches a part of them.
            following = f.at(f.at(parameters, size), f.mul(index, ahead))

            def chosen(rest: list[ChannelBlock]) -> None:
                block, *others = rest
                last = block.before + block.count

                def one() -> None:
                    self._row(f, block, f.add(which, -block.before), (here, parameters, there), scratch, following)

                if others:
                    f.branch(f.compare("slt", which, last), one, lambda: chosen(others))
                else:
                    one()

            chosen(blocks)

        f.loop(begin, end, 1, task)
        f.ret()

    def _row(
        self, f: Function, block: ChannelBlock, number: Value, pointers: tuple[Value, ...], scratch: Value, ahead: Value
    ) -> None:
        """Emit block `number` of its kind. Pointers are the input of a row, all parameters, and the output of a row."""
        channel = f.add(f.mul(number, block.channels), block.first)
        own = f.add(f.mul(number, self.block_bytes(block.isa)), block.begin)
        source, parameters, out = (f.at(p, o) for p, o in zip(pointers, (channel, own, channel), strict=True))
        if block.channels < block.isa.bytes:
            LaneRow(self, block.isa, f, block.channels, parameters, scratch).emit(source, out)
        else:
            _Row(self, block.isa, f, parameters, scratch, ahead).emit(source, out)

    def _scratch(self, block: ChannelBlock) -> int:
        """The size in bytes of the interleaved columns that a block keeps."""
        if block.channels < block.isa.bytes:
            return buffer_size(self, block.channels)
        return ring_slots(self) * self.groups * GROUP * block.isa.bytes


class _Row:
    """Emits the loop over x of one block of channels, for one or two output rows.

    Interleaved columns are stored in a ring buffer on the stack, which stays in L1. Two output columns are computed at
    once, vector by vector, so that a weight in a register is used for two columns, and a column for two rows.
    """

    def __init__(
        self, shape: Depthwise, isa: InstructionSet, f: Function, parameters: Value, ring: Value, ahead: Value
    ):
        self.shape, self.isa, self.f, self.parameters, self.ring = shape, isa, f, parameters, ring
        self.ahead = ahead
        self.slots = ring_slots(shape)
        self.slot_bytes = shape.groups * GROUP * isa.bytes

    def emit(self, source: Value, out: Value) -> None:
        """Emit all columns."""
        f, shape = self.f, self.shape
        stride = shape.strides[1]
        # The columns that the first output would share with a previous one are interleaved first.
        for x in range(max(shape.kernel[1] - stride, 0)):
            self._fill(source, i64(x))
        pairs = shape.width // 2
        if pairs:
            f.loop(0, pairs, 1, lambda index, _: self._pair(source, out, index), entered=True)
        if shape.width % 2:
            self._outputs(source, out, i64(shape.width - 1), 1)

    def _pair(self, source: Value, out: Value, index: Value) -> None:
        f, lines = self.f, self.shape.prefetched()
        for line in range(lines):
            f.prefetch(f.at(self.ahead, f.mul(index, lines * ALIGNMENT)), line * ALIGNMENT)
        self._outputs(source, out, f.mul(index, 2), 2)

    def _outputs(self, source: Value, out: Value, first: Value, count: int) -> None:
        """Emit `count` (1 or 2) output columns from `first` on. Their new input columns are interleaved first."""
        f, shape = self.f, self.shape
        stride, width = shape.strides[1], shape.kernel[1]
        base = f.mul(first, stride)
        span = (count - 1) * stride + width
        for x in range(max(width - stride, 0), span):
            self._fill(source, f.add(base, x))
        slots = [self._slot(f.add(base, x)) for x in range(span)]
        sums = self._sums(slots, count)
        there = f.at(out, f.mul(first, shape.out_pixel))
        parameters = f.at(self.parameters, shape.bias_offset(self.isa, GROUP))
        for row in range(shape.paired):
            for x in range(count):
                packed = shape.epilogue.emit(f, self.isa, [sums[row, x, q] for q in range(GROUP)], parameters)
                f.store(packed, there, row * shape.out_row + x * shape.out_pixel)

    def _sums(self, slots: list[Value], count: int) -> dict[tuple[int, int, int], Value]:
        f, isa, stride = self.f, self.isa, self.shape.strides[1]

        def taps(kx: int, g: int, q: int) -> list[Value]:
            begin = (g * GROUP + q) * isa.bytes
            return [f.load(isa.i8, slots[x * stride + kx], begin, align=isa.bytes) for x in range(count)]

        return self.shape.summed(f, isa, self.parameters, count, taps)

    def _slot(self, x: Value) -> Value:
        """The address of input column x in the ring buffer."""
        f = self.f
        return f.at(self.ring, f.mul(f.binary("and", x, i64(self.slots - 1)), self.slot_bytes))

    def _fill(self, source: Value, x: Value) -> None:
        """Interleave column x of the input rows of this pass, in groups of four, into the ring buffer."""
        f, shape = self.f, self.shape
        here = f.at(source, f.mul(x, shape.in_pixel))
        loaded = [f.load(self.isa.i8, here, y * shape.in_row) for y in range(shape.input_rows)]
        slot = self._slot(x)
        for n, value in enumerate(shape.interleaved(f, self.isa, loaded)):
            f.store(value, slot, n * self.isa.bytes, align=self.isa.bytes)


def ring_slots(shape: Depthwise) -> int:
    """The number of columns that two outputs read, rounded up to a power of two."""
    # With a power of two, the slot of a column is a mask of x and not a remainder.
    return 1 << (shape.strides[1] + shape.kernel[1] - 1).bit_length()
