"""Conversion between planes of floats (N, C, H, W) and stored integers by pixel (N, H, W, C).

These conversions are the edges of a convolutional network.

A tile has 16 channels of as many pixels as a vector has elements. Four channels of a pixel are a 32-bit word. Four
vectors of words are transposed inside 128-bit lanes, so that a lane holds 16 channels of one pixel. A pixel of up to
four channels may have a pitch of 4 bytes. Then a tile is one vector of words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from zeropoint.codegen.kernels.quantize import Dequantize, Quantize, quantized_bits
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, constant, i64, lanes, vector

AHEAD = 2048
"""The prefetch distance in bytes along the plane of an image, because inputs are usually not in the caches."""
PlaneWork = Callable[[Function, InstructionSet, Value, Value, int], None]
"""Emits the work on a tile of one group: (function, instruction set, source, target, channels of the group)."""


@dataclass(frozen=True)
class Planes:
    """The layouts of images of floats and of stored i8. Strides are in bytes; `plane` is that of float channels."""

    images: int
    rows: int
    width: int
    channels: int
    real_image: int
    plane: int
    real_row: int
    byte_image: int
    byte_row: int
    pitch: int

    @property
    def groups(self) -> int:
        """Groups of up to 16 channels."""
        return -(-self.channels // 16)

    @property
    def tasks(self) -> int:
        """The number of tasks: one per row and group of channels.

        The rows of a group are consecutive, because streaming more planes at once than the hardware prefetcher can
        follow takes twice as long.
        """
        return self.images * self.groups * self.rows

    def emit(self, f: Function, isa: InstructionSet, tile: PlaneWork, *, from_bytes: bool) -> None:
        """Emit the loops over tasks and tiles. The last tile of a row is aligned to the end of the row."""
        reals, bytes_, begin, end = f.arguments
        if from_bytes:
            reals, bytes_ = bytes_, reals

        def row(index: Value, _: list[Value]) -> None:
            group, y = f.divided(index, self.rows)
            image, group = f.divided(group, self.groups)
            real = f.at(f.at(reals, f.mul(image, self.real_image)), f.mul(y, self.real_row))
            byte = f.at(f.at(bytes_, f.mul(image, self.byte_image)), f.mul(y, self.byte_row))
            real, byte = f.at(real, f.mul(group, 16 * self.plane)), f.at(byte, f.mul(group, 16))
            whole, rest = divmod(self.channels, 16)
            if whole and rest:
                full = f.compare("ult", group, whole)
                f.branch(full, lambda: tiles(real, byte, 16), lambda: tiles(real, byte, rest))
            else:
                tiles(real, byte, 16 if whole else rest)

        def tiles(real: Value, byte: Value, channels: int) -> None:
            def some(x: Value, _: list[Value]) -> None:
                # The last tile overlaps the one before and writes the same bytes again.
                x = f.minimum(x, i64(self.width - isa.width)) if self.width % isa.width else x
                here, there = f.at(real, f.mul(x, 4)), f.at(byte, f.mul(x, self.pitch))
                if from_bytes:
                    here, there = there, here
                tile(f, isa, here, there, channels)

            f.loop(0, self.width, isa.width, some)

        f.loop(begin, end, 1, row)
        f.ret()


@dataclass(frozen=True)
class _OfPlanes(ABC):
    """A kernel between planes and pixels, in either direction."""

    planes: Planes

    def tasks(self, isa: InstructionSet) -> int:
        """One per row of a group."""
        return self.planes.tasks

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(source, target, begin, end)`."""
        f = module.kernel(name, "noalias in", "noalias out")
        self.planes.emit(f, isa, self._tile, from_bytes=isinstance(self, DequantizePlanes))

    @abstractmethod
    def _tile(self, f: Function, isa: InstructionSet, source: Value, out: Value, channels: int) -> None: ...


@dataclass(frozen=True)
class QuantizePlanes(_OfPlanes):
    """`uniform_quantize` from planes of f32 to pixels of 8-bit activations. The whole pitch of a pixel is written."""

    by: Quantize

    def _tile(self, f: Function, isa: InstructionSet, source: Value, out: Value, channels: int) -> None:
        if self.planes.pitch == 4:
            return f.store(self._word(f, isa, source, 0, channels), out, align=1)
        words = [self._word(f, isa, source, first, channels) for first in range(0, 16, 4)]
        for lane_of, pixels in enumerate(transposed(f, words)):
            for lane in range(isa.lanes):
                pixel = f.shuffle(pixels, None, range(4 * lane, 4 * lane + 4))
                f.store(pixel, out, (4 * lane + lane_of) * self.planes.pitch)
        return None

    def _word(self, f: Function, isa: InstructionSet, source: Value, first: int, channels: int) -> Value:
        """Four channels of every pixel of the tile as the bytes of a word. Missing channels are 0."""
        total = constant(vector(isa.width, "i32"), 0)
        for channel in range(first, min(first + 4, channels)):
            read = f.load(vector(isa.width, "float"), source, channel * self.planes.plane, align=4)
            f.prefetch(source, channel * self.planes.plane + AHEAD)
            stored = quantized_bits(f, isa, read, self.by, isa.offset)
            byte = f.binary("and", stored, 255)
            total = f.binary("or", total, f.binary("shl", byte, 8 * (channel - first)))
        return total


@dataclass(frozen=True)
class DequantizePlanes(_OfPlanes):
    """`uniform_dequantize` from pixels of 8-bit activations to planes of f32: (q - zp) * s in f32."""

    by: Dequantize

    def _tile(self, f: Function, isa: InstructionSet, source: Value, out: Value, channels: int) -> None:
        quads = [self._pixels(f, isa, source, first) for first in range(4)]
        for group, words in enumerate(transposed(f, quads)):
            for channel in range(4 * group, min(4 * group + 4, channels)):
                self._plane(f, isa, words, channel, out)

    def _pixels(self, f: Function, isa: InstructionSet, source: Value, first: int) -> Value:
        """16 bytes of every fourth pixel from `first` on, one pixel per lane."""
        four = vector(4, "i32")
        read = [f.load(four, source, (first + 4 * lane) * self.planes.pitch) for lane in range(isa.lanes)]
        return f.concatenated(read)

    def _plane(self, f: Function, isa: InstructionSet, words: Value, channel: int, out: Value) -> None:
        byte = constant(words.type, 24)
        shifted = f.binary("shl", words, 24 - 8 * (channel % 4))
        stored = f.binary("lshr" if isa.unsigned else "ashr", shifted, byte)
        reals = vector(isa.width, "float")
        real = f.cast("sitofp", f.add(stored, -(self.by.zero_point + isa.offset)), reals)
        f.store(f.binary("fmul", real, self.by.scale), out, channel * self.planes.plane, align=4)


def transposed(f: Function, rows: list[Value]) -> list[Value]:
    """Transpose a 4x4 matrix in every 128-bit lane. Its rows are the four vectors. Returns the columns."""
    count = lanes(rows[0].type)

    def interleaved(a: Value, b: Value, chosen: tuple[int, int, int, int]) -> Value:
        """Select four elements in every lane: 0 to 3 are those of a, 4 to 7 those of b."""
        order = [4 * lane + k % 4 + count * (k // 4) for lane in range(count // 4) for k in chosen]
        return f.shuffle(a, b, order)

    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    halves = [(interleaved(rows[0], rows[1], part), interleaved(rows[2], rows[3], part)) for part in (low, high)]
    return [interleaved(*half, part) for half in halves for part in ((0, 1, 4, 5), (2, 3, 6, 7))]
