"""Contractions of integers: 8- or 16-bit activations times weights, requantized or dequantized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zeropoint.codegen.kernels.arithmetic import ChannelGroups, Residual, TileSums, TileTarget
from zeropoint.codegen.kernels.computed import AnyEpilogue, ComputedEpilogue, Output, parameters_of, rounding_of
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.kernels.requantize import channel_order, channels_stored, of_channels, side_by_side
from zeropoint.codegen.kernels.sum import summed, summed_words
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, lanes, vector
from zeropoint.numerics import CommonScaleSum
from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray


@dataclass(frozen=True)
class _IntegerSums:
    """Products of 8-bit activations and i8 weights, accumulated in i32. Parameters begin with the biases.

    With `pairs`, activations and weights have 16 bits, and a step has two products instead of four. If products could
    saturate, or weights have nine bits, weights are split into several `halves`, whose sum they are. With `wide`, the
    first half has products 0 and 2 of a step, and the second 1 and 3, of activations and weights extended to 16 bits.
    """

    halves: int
    packed = 1
    in_order = False
    pairs: bool = field(default=False, kw_only=True)
    wide: bool = field(default=False, kw_only=True)

    @property
    def of_bytes(self) -> bool:
        """Whether a step adds four products of bytes to i32."""
        return not self.pairs

    def offset(self, isa: InstructionSet) -> int:
        """The difference between the activations that the kernel reads and storage integers."""
        return 0 if self.pairs else isa.offset

    def starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """The biases."""
        return f.vectors(isa.i32, parameters, count)

    def operands(self, f: Function, word: Value) -> Sequence[Value]:
        """The word for each half; with `wide`, bytes 0 and 2 for the first and 1 and 3 for the second, as u16."""
        if not self.wide:
            return [word] * self.halves
        shorts = f.bits(word, vector(2 * lanes(word.type), "i16"))
        return [f.binary("and", shorts, 255), f.binary("lshr", shorts, 8)]

    def step(self, f: Function, isa: InstructionSet, acc: Value, word: Value, weight: Value) -> Value:
        """acc plus four products, or two of 16-bit numbers."""
        if self.pairs or self.wide:
            return isa.pairs(f, acc, f.bits(word, isa.i16), f.bits(weight, isa.i16))
        return isa.dot(f, acc, f.bits(word, isa.i8), weight)

    def words(self, weights: AnyArray) -> AnyArray:
        """Weights (steps, taps, channels) as words (steps, channels + 1) of the taps of a step. The last channel is 0.

        A step has four taps of i8, or two of i16.
        """
        steps, taps, channels = weights.shape
        # Padding (index -1) reads the last channel, which has zeros.
        laid = np.zeros((steps, channels + 1, taps), np.int16 if self.pairs else np.int8)
        laid[:, :-1] = weights.transpose(0, 2, 1)
        # As a word, the taps of a step stay together when channels are reordered.
        return laid.view(np.uint32)[:, :, 0]

    def laid(self, words: AnyArray, channels: IntArray) -> AnyArray:
        """The words of groups with `channels` (groups, vectors, elements), as [group][step][half][vector][element]."""
        laid = words[:, channels].swapaxes(0, 1)
        if self.halves == 1:
            return laid
        taps = np.ascontiguousarray(laid).view(np.int8)
        if self.wide:
            shorts = taps.astype(np.int16)
            return np.stack([_pairs_from(shorts, first) for first in range(2)], axis=2)
        rest = [np.zeros_like(taps)] * (self.halves - 2)
        return np.stack([taps >> 1, taps - (taps >> 1), *rest], axis=2)

    def order(self, isa: InstructionSet, count: int) -> IntArray:
        """(count, width): the channel, inside its group, of every element of `count` vectors."""
        return np.arange(count * isa.width).reshape(count, isa.width)

    def pack_with(
        self,
        isa: InstructionSet,
        groups: ChannelGroups,
        weights: AnyArray,
        bias: IntArray,
        own: Callable[[int, IntArray], AnyArray],
        *,
        apart: bool = False,
    ) -> list[bytes]:
        """Pack weights (steps, 4 or 2, channels), biases (channels,) and `own` parameters for groups, in a block.

        With `apart`, the weights are a block, and the rest is another one. `bias` is for activations as in the program
        (i8 or i16).
        """
        # The kernel reads x + 128, so 128 times the sum of the weights is subtracted from the bias.
        start = bias - self.offset(isa) * weights.sum((0, 1), dtype=np.int64)
        words, blocks = self.words(weights), list[list[bytes]]()
        for count, covered in groups:
            channels = covered[:, self.order(isa, count)]
            laid, rest = self.laid(words, channels), [of_channels(start, channels, np.int32), own(count, covered)]
            parts = [[laid], rest] if apart else [[laid, *rest]]
            blocks.append([side_by_side(*part).tobytes() for part in parts])
        return [b"".join(block) for block in zip(*blocks, strict=True)]


def _pairs_from(taps: AnyArray, first: int) -> AnyArray:
    """Every other tap along the last axis, side by side."""
    return np.ascontiguousarray(taps[..., first::2])


@dataclass(frozen=True)
class Integers(_IntegerSums):
    """Activations times weights, accumulated in i32 and requantized. Biases include zero-point corrections.

    Parameters are the biases (i32) and the parameters of the epilogue.
    """

    epilogue: AnyEpilogue
    residual: Residual | None = None

    @property
    def channel_bytes(self) -> int:
        """Bytes of one output channel. A sum of 16-bit results has 8 bits."""
        return 1 if self._total is not None else self.epilogue.itemsize

    @property
    def _total(self) -> CommonScaleSum | None:
        """The weighted sum with the residual."""
        return None if self.residual is None else self.residual.total

    def order(self, isa: InstructionSet, count: int) -> IntArray:
        """(count, width): the channel, inside its group, of every element of `count` vectors."""
        return channel_order(count, isa.width)

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of parameters of a group of `count` vectors."""
        return count * isa.bytes + self.epilogue.size(isa, count)

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Requantize, add the residual, store."""
        count = len(pixels[0])
        stored, rest = channels_stored(count, isa), f.at(parameters, count * isa.bytes)
        for pixel, sums in enumerate(pixels):
            added = None
            if to.other is not None and self.residual is not None:
                added = f.load_first(isa.i8, stored, to.other, pixel * self.residual.pixel)
            packed = self._packed(f, isa, sums, rest, added)
            f.store_first(packed, stored, to.out, pixel * to.step)

    def _packed(
        self, f: Function, isa: InstructionSet, sums: Sequence[Value], parameters: Value, added: Value | None
    ) -> Value:
        """The results of a pixel."""
        if isinstance(self.epilogue, ComputedEpilogue):
            return self.epilogue.emit(f, isa, sums, parameters, added)
        total = self._total
        if added is None or self.residual is None or total is None:
            return self.epilogue.emit(f, isa, sums, parameters)
        # The weighted sum has a multiplier for each operand, in the order of the program.
        if self.epilogue.itemsize == 2:
            words = self.epilogue.emit_words(f, isa, sums, parameters)
            return summed_words(f, isa, total, words, len(sums), added, 1 if self.residual.first else 0)
        packed = self.epilogue.emit(f, isa, sums, parameters)
        return summed(f, isa, total, [added, packed] if self.residual.first else [packed, added])

    def pack(
        self, isa: InstructionSet, groups: ChannelGroups, weights: AnyArray, bias: IntArray, output: Output
    ) -> bytes:
        """`pack_with` the parameters of the epilogue, in one block."""
        (block,) = self.blocks(isa, groups, weights, bias, output)
        return block

    def blocks(
        self,
        isa: InstructionSet,
        groups: ChannelGroups,
        weights: AnyArray,
        bias: IntArray,
        output: Output,
        *,
        apart: bool = False,
    ) -> list[bytes]:
        """`pack_with` the parameters of the epilogue, whose rounding term the biases include."""
        start = bias + rounding_of(self.epilogue, output)

        def own(count: int, covered: IntArray) -> AnyArray:
            return parameters_of(self.epilogue, isa, output, covered, count)

        return self.pack_with(isa, groups, weights, start, own, apart=apart)


@dataclass(frozen=True)
class Expressed(_IntegerSums):
    """Activations times weights, accumulated in i32 and dequantized to f32 with one scale per channel.

    Parameters are the biases (i32), which include zero-point corrections, and the scales (f32). `floats` has the clamp
    and the residual, which follow.
    """

    channel_bytes = 4
    floats: Floats

    @property
    def residual(self) -> Residual | None:
        """The term that is added at the end."""
        return self.floats.residual

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of biases and scales."""
        return 2 * count * isa.bytes

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Compute float(accumulator) * scale, then clamp, add the residual and store."""
        count, type_ = len(pixels[0]), vector(isa.width, "float")
        scales = f.vectors(type_, parameters, count, count)
        reals = [
            [f.binary("fmul", f.cast("sitofp", acc, type_), scale) for acc, scale in zip(sums, scales, strict=True)]
            for sums in pixels
        ]
        self.floats.store(f, isa, reals, to)

    def pack(
        self, isa: InstructionSet, groups: ChannelGroups, weights: AnyArray, bias: IntArray, scales: FloatArray
    ) -> bytes:
        """`pack_with` the scales (channels,)."""

        def own(_: int, covered: IntArray) -> AnyArray:
            return of_channels(scales, covered, np.float32)

        return b"".join(self.pack_with(isa, groups, weights, bias, own))
