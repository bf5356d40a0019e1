"""Contractions of floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.arithmetic import ChannelGroups, Residual, TileSums, TileTarget
from zeropoint.codegen.kernels.requantize import of_channels, side_by_side
from zeropoint.codegen.kernels.scalars import plus_product
from zeropoint.codegen.kernels.signed_zeros import SignedZeros
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, vector
from zeropoint.numerics.arrays import FloatArray
from zeropoint.numerics.rounding import INT32_MIN


@dataclass(frozen=True)
class Floats(SignedZeros):
    """f32 times f32. Each multiply-add is rounded once, in order.

    Parameters are the biases. They are added last, and are never -0, so that a sum of -0 becomes +0. With `scaled`,
    parameters are biases and factors, by which sums are multiplied before the biases are added. `bounds` clamp the sum
    after the bias is added; with `bounds_last`, after the residual is added. With `sparse`, weights of -0 are skipped
    for every input.
    """

    halves = 1
    wide = False
    packed = 1
    channel_bytes = 4
    in_order = True  # every sum of floats is rounded
    of_bytes = False
    bounds: tuple[float, float] | None = None
    bounds_last: bool = False
    residual: Residual | None = None
    sparse: bool = False
    scaled: bool = False

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of the biases and factors."""
        return (2 if self.scaled else 1) * count * isa.bytes

    def starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """Zeros, because the biases are added last."""
        # In the specified order of a float sum, the products come first, then the bias.
        return [Value(vector(isa.width, "float"), "zeroinitializer")] * count

    def operands(self, f: Function, word: Value) -> Sequence[Value]:
        """The word."""
        del f
        return [word]

    def step(self, f: Function, isa: InstructionSet, acc: Value, word: Value, weight: Value) -> Value:
        """acc plus one product."""
        if self.sparse:
            bits = f.bits(weight, isa.i32)
            # For a weight of -0, the input is masked to 0, so that a NaN or infinity has no effect.
            word = f.binary("and", f.bits(word, isa.i32), f.cast("sext", f.compare("ne", bits, INT32_MIN), isa.i32))
        return plus_product(f, isa, f.bits(word, acc.type), f.bits(weight, acc.type), acc)

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Multiply by the factor, add the bias, clamp, add the residual, store."""
        count, type_ = len(pixels[0]), pixels[0][0].type
        biases = f.vectors(type_, parameters, count)
        factors = f.vectors(type_, parameters, count, count) if self.scaled else [None] * count
        own = list(zip(factors, biases, strict=True))
        sums = [[self.affine(f, acc, *numbers) for acc, numbers in zip(each, own, strict=True)] for each in pixels]
        self.store(f, isa, sums, to)

    def affine(self, f: Function, value: Value, factor: Value | None, bias: Value) -> Value:
        """A sum of products, times the factor if there is one, plus the bias."""
        if factor is not None:
            # As without a factor, a sum of -0 becomes +0 first.
            value = f.binary("fmul", f.binary("fadd", value, constant(value.type, 0.0)), factor)
        return f.binary("fadd", value, bias)

    def store(self, f: Function, isa: InstructionSet, pixels: TileSums, to: TileTarget) -> None:
        """Clamp, add the residual, store."""
        for pixel, sums in enumerate(pixels):
            for n, value in enumerate(sums):
                if not self.bounds_last:
                    value = self.clamped(f, isa, value)
                if to.other is not None and self.residual is not None:
                    added = f.load(value.type, to.other, pixel * self.residual.pixel + n * isa.bytes)
                    value = f.binary("fadd", value, added)
                if self.bounds_last:
                    value = self.clamped(f, isa, value)
                f.store(value, to.out, pixel * to.step + n * isa.bytes)

    def clamped(self, f: Function, isa: InstructionSet, value: Value) -> Value:
        """Clamp to the bounds. NaN stays NaN, as in StableHLO's clamp."""
        if self.bounds is None:
            return value
        low, high = self.bounds
        return f.intrinsic("minimum", f.intrinsic("maximum", value, low), high)

    def numbers(self, bias: FloatArray, factor: FloatArray | None) -> list[FloatArray]:
        """The parameters (channels,) in the order of the kernel. Without factors, a bias of -0 becomes +0."""
        return [bias + np.float32(0)] if factor is None else [bias, factor]

    def pack(
        self,
        groups: ChannelGroups,
        weights: FloatArray,
        bias: FloatArray,
        factor: FloatArray | None,
    ) -> bytes:
        """Pack weights (steps, channels) f32, biases (channels,) and factors (channels,) for groups."""
        parts: list[bytes] = []
        for _, covered in groups:
            laid = of_channels(weights, covered, np.float32).swapaxes(0, 1)
            numbers = [of_channels(row, covered, np.float32) for row in self.numbers(bias, factor)]
            parts.append(side_by_side(laid, *numbers).tobytes())
        return b"".join(parts)
