"""Sums of products of activations that were rounded to 8 bits by rows (`numerics.row_scales`).

The accumulators s start at their biases, with the rounding term of the first shift. With A, the number of the row,

    t = (((s >> N) A + 2^(6-N)) >> (7 - N)) + m W + bias

are the accumulators of the inner arithmetic, with m another number of the row and W one of the channel. These biases
include the rounding of the epilogue. If m and W have 16 bits, m W + bias is one sum of products of i16, where there is
an instruction for those. A product of 32 bits is two on Intel's processors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.arithmetic import ChannelGroups, Extended, Residual, TileSums, TileTarget
from zeropoint.codegen.kernels.computed import Output, parameters_of, rounding_of
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.requantize import of_channels, side_by_side
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value
from zeropoint.numerics.arrays import AnyArray, IntArray


@dataclass(frozen=True)
class ScaledRows(Extended[Integers]):
    """Arithmetic whose sums are multiplied by a number of the pixel, which is where `residual` says.

    The number is limited to `greatest`, and m is clamped to `bounds`. `shifts` are N and 7 - N. Parameters are the
    biases of the sums, W, the biases after the multiplication, and the parameters of the epilogue of `inner`. `short`
    says whether m and W have 16 bits.
    """

    residual: Residual
    shifts: tuple[int, int]
    greatest: int
    bounds: tuple[int, int]
    short: bool = False

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of parameters of a group of `count` vectors."""
        return self.inner.size(isa, count) + 2 * count * isa.bytes

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Multiply the accumulators of each pixel by its number, and convert and store them."""
        assert to.other is not None
        assert to.another is not None
        count = len(pixels[0])
        totals = self.inner.starts(f, isa, f.at(parameters, count * isa.bytes), count)
        # The inner arithmetic finds its epilogue behind `count` vectors of biases.
        parameters = f.at(parameters, 2 * count * isa.bytes)
        biases = self.inner.starts(f, isa, parameters, count)
        scaled: list[list[Value]] = []
        for number, sums in enumerate(pixels):
            at = number * self.residual.pixel
            factor, middle = (f.broadcast(f.load("i32", part, at), isa.width) for part in (to.other, to.another))
            factor, middle = f.intrinsic("smin", factor, self.greatest), f.clamp(middle, *self.bounds)
            rest = [self._of_middle(f, isa, middle, *own) for own in zip(totals, biases, strict=True)]
            scaled.append([f.add(self._scaled(f, acc, factor), of) for acc, of in zip(sums, rest, strict=True)])
        self.inner.finish(f, isa, scaled, parameters, TileTarget(to.out, to.step))

    def _in_pairs(self, isa: InstructionSet) -> bool:
        """Whether the product of m and W is a sum of two products of i16, of which the second one is 0."""
        return self.short and isa.multiply_add is not None

    def _of_middle(self, f: Function, isa: InstructionSet, middle: Value, total: Value, bias: Value) -> Value:
        """m W + bias."""
        if self._in_pairs(isa):
            return isa.pairs(f, bias, f.bits(middle, isa.i16), f.bits(total, isa.i16))
        return f.add(f.binary("mul", middle, total), bias)

    def _scaled(self, f: Function, acc: Value, factor: Value) -> Value:
        first, last = self.shifts
        product = f.binary("mul", f.binary("ashr", acc, first) if first else acc, factor)
        return f.binary("ashr", f.add(product, 1 << (last - 1)), last) if last else product

    def pack(
        self,
        isa: InstructionSet,
        groups: ChannelGroups,
        weights: AnyArray,
        starts: IntArray,
        totals: IntArray,
        bias: IntArray,
        output: Output,
    ) -> bytes:
        """Pack weights (steps, 4, channels) and, for each channel, the bias of the sums, W, and the bias at the end."""
        rounded = bias + rounding_of(self.inner.epilogue, output)
        # In pairs, the second i16 is 0: the upper half of m is its sign.
        totals = totals & 0xFFFF if self._in_pairs(isa) else totals

        def own(count: int, covered: IntArray) -> AnyArray:
            channels = covered[:, self.inner.order(isa, count)]
            numbers = (of_channels(array, channels, np.int32) for array in (totals, rounded))
            return side_by_side(*numbers, parameters_of(self.inner.epilogue, isa, output, covered, count))

        return b"".join(self.inner.pack_with(isa, groups, weights, starts, own))
