"""Depthwise convolution with so few channels that a vector holds several pixels.

The interleaved columns of a whole row are stored in a buffer on the stack, pixel by pixel, so that a load at any pixel
gives a vector of this pixel and the following ones. With a stride in x, pixels whose indices have equal remainders are
stored together, because these are the pixels that adjacent outputs read by one tap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from zeropoint.codegen.kernels.depthwise_shape import DepthwiseShape
from zeropoint.codegen.kernels.requantize import GROUP
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, i64, vector
from zeropoint.codegen.parameters import ALIGNMENT

BUFFER = 16 << 10
"""The maximum size in bytes of the columns of a row that stay in L1 beside other data."""


def buffer_size(shape: DepthwiseShape, channels: int) -> int:
    """Bytes of the buffer for `channels` of a row."""
    return shape.groups * GROUP * _classes(shape) * _plane(shape, channels)


def fits(shape: DepthwiseShape, isa: InstructionSet, channels: int) -> bool:
    """Whether a row has pixels for at least one vector, and its columns stay in L1."""
    # The pixels of a narrower row do not fill a vector.
    return shape.width >= isa.bytes // channels and buffer_size(shape, channels) <= BUFFER


def _classes(shape: DepthwiseShape) -> int:
    """The remainders, by the stride, of the indices of pixels that a tap reads."""
    # Columns with a remainder beyond the width of the kernel are never read.
    return min(shape.strides[1], shape.kernel[1])


def _plane(shape: DepthwiseShape, channels: int) -> int:
    """The size in bytes of the pixels of one remainder."""
    pixels = shape.width + (shape.kernel[1] - 1) // shape.strides[1]
    return -(-pixels * channels // ALIGNMENT) * ALIGNMENT


class LaneRow:
    """Emits one or two output rows of `channels` channels: first all columns to the buffer, then all outputs."""

    def __init__(
        self, shape: DepthwiseShape, isa: InstructionSet, f: Function, channels: int, parameters: Value, buffer: Value
    ):
        self.shape, self.isa, self.f, self.channels = shape, isa, f, channels
        self.parameters, self.buffer = parameters, buffer
        self.pixels = isa.bytes // channels
        self.plane = _plane(shape, channels)

    def emit(self, source: Value, out: Value) -> None:
        """Emit all columns, then all outputs."""
        f, shape, stride = self.f, self.shape, self.shape.strides[1]
        for kept in range(_classes(shape)):
            here = f.at(source, kept * shape.in_pixel)
            count = shape.width + (shape.kernel[1] - 1 - kept) // stride
            self._tiles(count, 1, lambda x, kept=kept, here=here: self._fill(here, kept, x))
        together = 2 if shape.width >= 2 * self.pixels else 1
        self._tiles(shape.width, together, lambda x: self._outputs(out, x, together))

    def _tiles(self, count: int, together: int, work: Callable[[Value], None]) -> None:
        """Emit `work` at the first pixel of every tile. The last tile ends with the row and recomputes some pixels."""
        size = together * self.pixels
        last = count - size
        f = self.f
        f.loop(0, count, size, lambda x, _: work(f.minimum(x, i64(last)) if count % size else x), entered=True)

    def _fill(self, source: Value, kept: int, first: Value) -> None:
        """Interleave a vector of the pixels with remainder `kept`, from `first` on."""
        f, shape = self.f, self.shape
        here = f.at(source, f.mul(first, shape.strides[1] * shape.in_pixel))
        rows = [self._pixels(here, y * shape.in_row) for y in range(shape.input_rows)]
        there = f.at(self.buffer, f.add(f.mul(first, self.channels), kept * self.plane))
        for n, value in enumerate(shape.interleaved(f, self.isa, rows)):
            f.store(value, there, n * _classes(shape) * self.plane)

    def _pixels(self, source: Value, offset: int) -> Value:
        """A vector of the pixels that adjacent outputs read."""
        f, step = self.f, self.shape.strides[1] * self.shape.in_pixel
        if step == self.channels:
            return f.load(self.isa.i8, source, offset)
        read = [f.load(vector(self.channels, "i8"), source, offset + n * step) for n in range(self.pixels)]
        return f.concatenated(read)

    def _outputs(self, out: Value, first: Value, together: int) -> None:
        """The requantized sums of the pixels of `together` vectors, from `first` on."""
        f, shape = self.f, self.shape
        sums = self._sums(f.at(self.buffer, f.mul(first, self.channels)), together)
        there = f.at(out, f.mul(first, shape.out_pixel))
        parameters = f.at(self.parameters, shape.bias_offset(self.isa, GROUP))
        for row, tile in itertools.product(range(shape.paired), range(together)):
            packed = shape.epilogue.emit(f, self.isa, [sums[row, tile, q] for q in range(GROUP)], parameters)
            self._store(packed, there, row * shape.out_row + tile * self.pixels * shape.out_pixel)

    def _sums(self, columns: Value, together: int) -> dict[tuple[int, int, int], Value]:
        f, isa, shape = self.f, self.isa, self.shape

        def taps(kx: int, g: int, q: int) -> list[Value]:
            moved, kept = divmod(kx, shape.strides[1])
            begin = ((g * GROUP + q) * _classes(shape) + kept) * self.plane
            tiles = range(together)
            return [f.load(isa.i8, columns, begin + (tile * self.pixels + moved) * self.channels) for tile in tiles]

        return shape.summed(f, isa, self.parameters, together, taps)

    def _store(self, packed: Value, out: Value, offset: int) -> None:
        f, size = self.f, self.channels
        if self.shape.out_pixel == size:
            return f.store(packed, out, offset)
        for n in range(self.pixels):
            pixel = f.shuffle(packed, None, range(n * size, (n + 1) * size))
            f.store(pixel, out, offset + n * self.shape.out_pixel)
        return None
