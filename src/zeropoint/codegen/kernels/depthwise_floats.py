"""Depthwise convolution of floats, vector by vector of channels: the taps of an output in order, then the bias.

The parameters of each vector of channels are the weights of all taps, the bias and, if sums are scaled, the factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.depthwise_shape import WindowShape
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64, vector
from zeropoint.numerics.arrays import FloatArray

TILE = 4
"""The number of output columns that are computed at once and share the input that they have in common."""
NEAR = 16 << 10
"""The size in bytes of input that stays in the L1 cache while all channels of a chunk are computed."""


@dataclass(frozen=True)
class FloatDepthwise(WindowShape):
    """A depthwise convolution of f32."""

    arithmetic: Floats

    def vectors(self, isa: InstructionSet) -> int:
        """Vectors of channels."""
        return self.channels // isa.width

    def tasks(self, isa: InstructionSet) -> int:
        """Chunks of all output rows."""
        return self.rows * self.chunks

    @property
    def chunk(self) -> int:
        """The number of adjacent output columns of a task. The last chunk of a row may overlap the previous one."""
        column = max(1, self.kernel[0] * self.strides[1] * self.in_pixel)  # 0: one element repeated
        return min(self.width, max(TILE, NEAR // column // TILE * TILE))

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.width // self.chunk)

    @property
    def parameters(self) -> int:
        """The number of vectors of parameters of each vector of channels."""
        return self.kernel[0] * self.kernel[1] + (2 if self.arithmetic.scaled else 1)

    def pack(self, isa: InstructionSet, weights: FloatArray, bias: FloatArray, factor: FloatArray | None) -> bytes:
        """Pack weights (kernel rows, kernel columns, channels), biases and factors (channels,) for the kernel."""
        channels = weights.shape[-1]
        given = np.concatenate([weights.reshape(-1, channels), self.arithmetic.numbers(bias, factor)])
        laid = np.zeros((self.parameters, self.channels), np.float32)
        laid[:, :channels] = given
        return laid.reshape(self.parameters, -1, isa.width).transpose(1, 0, 2).tobytes()

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, parameters, output, begin, end)`: tasks begin to end."""
        f = module.kernel(name, "noalias in", "noalias w", "noalias out")
        source, parameters, out, begin, end = f.arguments

        def task(index: Value, _: list[Value]) -> None:
            y, number = f.divided(index, self.chunks)
            # The last chunk may start earlier. It then computes some columns again, with the same bits.
            x = f.minimum(f.mul(number, self.chunk), i64(self.width - self.chunk))
            here = f.at(source, f.mul(y, self.strides[0] * self.in_row))
            here = f.at(here, f.mul(x, self.strides[1] * self.in_pixel))
            there = f.at(f.at(out, f.mul(y, self.out_row)), f.mul(x, self.out_pixel))

            def block(index: Value, _: list[Value]) -> None:
                offset = f.mul(index, isa.bytes)
                mine = f.at(parameters, f.mul(index, self.parameters * isa.bytes))
                self._columns(f, isa, f.at(here, offset), mine, f.at(there, offset))

            f.loop(0, self.vectors(isa), 1, block, entered=True)

        f.loop(begin, end, 1, task)
        f.ret()

    def _columns(self, f: Function, isa: InstructionSet, source: Value, parameters: Value, out: Value) -> None:
        step = self.strides[1] * self.in_pixel
        whole = self.chunk // TILE * TILE

        def some(x: Value, count: int) -> None:
            self._outputs(f, isa, f.at(source, f.mul(x, step)), parameters, f.at(out, f.mul(x, self.out_pixel)), count)

        f.loop(0, whole, TILE, lambda x, _: some(x, TILE))
        if self.chunk - whole:
            some(i64(whole), self.chunk - whole)

    def _outputs(
        self, f: Function, isa: InstructionSet, source: Value, parameters: Value, out: Value, count: int
    ) -> None:
        """Emit `count` output columns of one vector of channels."""
        type_ = vector(isa.width, "float")
        rows, columns = self.kernel
        bias = f.load(type_, parameters, rows * columns * isa.bytes, align=isa.bytes)
        factor = None
        if self.arithmetic.scaled:
            factor = f.load(type_, parameters, (rows * columns + 1) * isa.bytes, align=isa.bytes)
        sums = self.arithmetic.starts(f, isa, parameters, count)
        loaded: dict[int, Value] = {}
        for ky in range(rows):
            for kx in range(columns):
                weight = f.load(type_, parameters, (ky * columns + kx) * isa.bytes, align=isa.bytes)
                for x in range(count):
                    offset = ky * self.in_row + kx * self.in_pixel + x * self.strides[1] * self.in_pixel
                    # Neighbouring outputs share columns of input, each of which is loaded once.
                    if offset not in loaded:
                        loaded[offset] = f.load(type_, source, offset)
                    sums[x] = self.arithmetic.step(f, isa, sums[x], loaded[offset], weight)
        for x, value in enumerate(sums):
            result = self.arithmetic.clamped(f, isa, self.arithmetic.affine(f, value, factor, bias))
            f.store(result, out, x * self.out_pixel)
