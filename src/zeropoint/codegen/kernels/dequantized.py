"""Float activations times weights of 2, 4 or 8 bits: the arithmetic of `Floats`, with weights packed in memory.

A word of 32 bits has the weights of one channel for adjacent terms, the first term in the low bits. A vector of words
has as many channels as a vector of floats. Weights are dequantized in registers, once for all pixels of a tile:

    weight = (f32(word << left >> right) [- f32(point)]) * scale

The difference is exact and the product is rounded once, as in `uniform_dequantize`. Sums are those of floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.arithmetic import ChannelGroups, Extended, Residual
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.kernels.requantize import of_channels, side_by_side
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, vector
from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray

WORD = 32
"""The width in bits of a word of packed weights."""
PANEL = 16 << 10
"""The size in bytes of dequantized weights that stay in the L1 cache beside the tiles."""


@dataclass(frozen=True)
class PackedFloats(Extended[Floats]):
    """Arithmetic on `count` blocks with equal numbers of terms, whose weights have `bits` bits.

    Parameters are those of `inner`, then the scales of each block and, with `points`, its zero points (both f32).
    """

    bits: int
    count: int
    points: bool

    @property
    def packed(self) -> int:
        """The number of terms in a word."""
        return WORD // self.bits

    @property
    def residual(self) -> Residual | None:
        """The term that is added at the end."""
        return self.inner.residual

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of parameters of a group of `count` vectors."""
        return self.inner.size(isa, count) + self.count * self._block_bytes(isa, count)

    def _block_bytes(self, isa: InstructionSet, count: int) -> int:
        return (2 if self.points else 1) * count * isa.bytes

    def block(
        self, f: Function, isa: InstructionSet, parameters: Value, count: int, index: Value
    ) -> list[tuple[Value, Value | None]]:
        """The scales and zero points of a block, for each of `count` vectors."""
        offset = f.add(f.mul(index, self._block_bytes(isa, count)), self.inner.size(isa, count))
        here, type_ = f.at(parameters, offset), vector(isa.width, "float")
        scales = f.vectors(type_, here, count)
        points = f.vectors(type_, here, count, count) if self.points else [None] * count
        return list(zip(scales, points, strict=True))

    def panel(self, terms: int, vector_bytes: int) -> tuple[int, int]:
        """The numbers of terms in a panel, of `vector_bytes` each, and of terms in it that share their scales."""
        each, most = terms // self.count, max(PANEL // vector_bytes, self.packed)
        if each <= most:
            return each * max(n for n in range(1, most // each + 1) if self.count % n == 0), each
        words = each // self.packed
        scaled = self.packed * max(n for n in range(1, most // self.packed + 1) if words % n == 0)
        return scaled, scaled

    def weights(
        self, f: Function, isa: InstructionSet, words: Value, term: int, scale: Value, point: Value | None
    ) -> Value:
        """The weights of term `term` of a vector of words."""
        left = WORD - self.bits * (term + 1)
        shifted = words if left == 0 else f.binary("shl", words, constant(isa.i32, left))
        real = f.cast("sitofp", f.binary("ashr", shifted, constant(isa.i32, WORD - self.bits)), scale.type)
        return f.binary("fmul", real if point is None else f.binary("fsub", real, point), scale)

    def pack(
        self,
        groups: ChannelGroups,
        stored: IntArray,
        bias: FloatArray,
        factor: FloatArray | None,
        scales: FloatArray,
        points: IntArray,
    ) -> bytes:
        """Pack weights (terms, channels), biases and factors (channels,), scales and points (blocks, channels)."""
        words = self._words(stored)
        pairs = zip(scales, points, strict=True)
        numbers = self.inner.numbers(bias, factor)
        numbers += [row for scale, point in pairs for row in ((scale, point) if self.points else (scale,))]
        parts: list[bytes] = []
        for _, covered in groups:
            laid = np.ascontiguousarray(words[:, covered].swapaxes(0, 1))
            given = [of_channels(row, covered, np.float32) for row in numbers]
            parts.append(side_by_side(laid, *given).tobytes())
        return b"".join(parts)

    def _words(self, stored: IntArray) -> AnyArray:
        """The words (terms / packed, channels), u32. Channel -1, which is padding, reads any channel."""
        terms, channels = stored.shape
        parts = (stored & ((1 << self.bits) - 1)).astype(np.uint32).reshape(-1, self.packed, channels)
        shifts = (np.arange(self.packed, dtype=np.uint32) * np.uint32(self.bits))[:, None]
        return np.bitwise_or.reduce(parts << shifts, axis=1).reshape(terms // self.packed, channels)
