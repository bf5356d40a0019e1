"""Sums of products with weights in blocks of terms, each with a scale. The inner arithmetic has one scale per channel.

The products of a block are added in i32, as usual. The sum is then multiplied by the block's factors and added in i64.
Even and odd elements of a vector are in separate vectors of i64, because the instruction (VPMULDQ) multiplies every
second element:

    wide[e] += sext(acc[e]) * F[block, e]

At the end, (wide >> 15) mod 2^32 are the accumulators, to which the inner arithmetic adds its bias and which it
requantizes. `wide` starts at the sum of F * correction over the blocks, plus 2^14. The corrections are those of both
zero points.

Source: `numerics/blockwise.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.arithmetic import ChannelGroups, Extended, Residual, TileSums
from zeropoint.codegen.kernels.computed import Output
from zeropoint.codegen.kernels.integer_arithmetic import Expressed, Integers
from zeropoint.codegen.kernels.integers import lower_halves
from zeropoint.codegen.kernels.requantize import of_channels, side_by_side
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, vector
from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray
from zeropoint.numerics.blockwise import FRACTION


@dataclass(frozen=True)
class Blocks(Extended[Integers | Expressed]):
    """Arithmetic on `count` blocks with equal numbers of steps. `inner` converts the sums.

    Parameters are those of `inner`, the starts (i64, even and odd elements of each vector), and the factors of each
    block in the same form.
    """

    count: int

    @property
    def of_bytes(self) -> bool:
        """False, because the sums start at 0 in every block."""
        return False

    @property
    def residual(self) -> Residual | None:
        """The term that is added at the end."""
        return self.inner.residual

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of parameters of a group of `count` vectors."""
        return self.inner.size(isa, count) + (1 + self.count) * 2 * count * isa.bytes

    def starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """Zeros, at the beginning of every block."""
        return [Value(isa.i32, "zeroinitializer")] * count

    def wide_starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """The initial sums over the blocks of a pixel: two vectors for each vector of accumulators."""
        return self._wide(f, isa, f.at(parameters, self.inner.size(isa, count)), count)

    def added(
        self, f: Function, isa: InstructionSet, wide: Sequence[Value], pixels: TileSums, parameters: Value, block: Value
    ) -> list[Value]:
        """The sums over the blocks, with one more block added."""
        count = len(pixels[0])
        # The factors of all blocks follow the starts.
        begin = f.add(f.mul(block, 2 * count * isa.bytes), self.inner.size(isa, count) + 2 * count * isa.bytes)
        # The sign extension tells LLVM that the factor fits the low 32 bits, so that it multiplies only these.
        factors = [lower_halves(f, factor) for factor in self._wide(f, isa, f.at(parameters, begin), count)]
        results: list[Value] = []
        for sums in pixels:
            for n, acc in enumerate(sums):
                even, odd = _halves(f, isa, acc)
                for part, factor in ((even, factors[2 * n]), (odd, factors[2 * n + 1])):
                    results.append(f.add(wide[len(results)], f.binary("mul", part, factor)))
        return results

    def narrowed(
        self, f: Function, isa: InstructionSet, wide: Sequence[Value], parameters: Value, count: int
    ) -> TileSums:
        """The accumulators of every pixel: (wide >> 15) modulo 2^32, plus the biases."""
        biases = self.inner.starts(f, isa, parameters, count)
        sums: list[Value] = []
        for even, odd in zip(wide[::2], wide[1::2], strict=True):
            low = f.bits(f.binary("lshr", even, FRACTION), isa.i32)
            # Odd elements are shifted up instead of down, so that the result is in the upper half, where it belongs.
            high = f.bits(f.binary("shl", odd, 32 - FRACTION), isa.i32)
            # Even elements are taken from one vector and odd elements from the other, all in their places.
            order = [n if n % 2 == 0 else isa.width + n for n in range(isa.width)]
            sums.append(f.add(f.shuffle(low, high, order), biases[len(sums) % count]))
        return [sums[n : n + count] for n in range(0, len(sums), count)]

    def _wide(self, f: Function, isa: InstructionSet, begin: Value, count: int) -> list[Value]:
        """Two vectors of i64 for each vector of accumulators."""
        return f.vectors(vector(isa.width // 2, "i64"), begin, 2 * count)

    def pack(
        self,
        isa: InstructionSet,
        groups: ChannelGroups,
        weights: AnyArray,
        bias: IntArray,
        output: Output | FloatArray,
        factors: IntArray,
        corrections: IntArray,
    ) -> bytes:
        """Pack weights (steps, 4, channels), biases (channels,), factors and corrections (blocks, channels) for groups.

        `bias` and `corrections` are for activations as in the program (i8).
        """
        offset = self.inner.offset(isa)
        stored = offset * weights.reshape(self.count, -1, weights.shape[2]).sum(axis=1, dtype=np.int64)
        # The rounding term is added once to the sum over all blocks.
        start = (factors * (corrections - stored)).sum(axis=0) + (1 << (FRACTION - 1))
        # The starts include the correction for the offset, so the inner arithmetic must not subtract it again.
        without = bias + stored.sum(axis=0)
        pack: Callable[..., bytes] = self.inner.pack  # each has another type of `output`
        parts: list[bytes] = []
        for count, covered in groups:
            inner = np.frombuffer(pack(isa, [(count, covered)], weights, without, output), np.uint8)
            channels = covered[:, self.inner.order(isa, count)]
            wide = [_apart(numbers, channels) for numbers in (start, *factors)]
            parts.append(side_by_side(inner.reshape(len(covered), -1), *wide).tobytes())
        return b"".join(parts)


def _halves(f: Function, isa: InstructionSet, acc: Value) -> tuple[Value, Value]:
    """The even and the odd elements of a vector of i32 as i64, with their signs."""
    pairs = f.bits(acc, vector(isa.width // 2, "i64"))
    return lower_halves(f, pairs), f.binary("ashr", pairs, 32)


def _apart(numbers: IntArray, channels: IntArray) -> IntArray:
    """Numbers for channels (groups, vectors, elements). Each vector has its even elements first, then the odd ones."""
    laid = of_channels(numbers, channels, np.int64)
    return np.stack([laid[:, :, ::2], laid[:, :, 1::2]], axis=2)
