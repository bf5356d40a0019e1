"""The shape of a depthwise convolution on the four-way dot product, which both row emitters use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zeropoint.codegen.kernels.computed import AnyEpilogue
from zeropoint.codegen.kernels.requantize import GROUP
from zeropoint.codegen.kernels.unpack import interleaved
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value

Taps = Callable[[int, int, int], list[Value]]
"""Loads the taps of some columns, given a kernel column, a group of rows and a vector."""


@dataclass(frozen=True)
class WindowShape:
    """The windows of a depthwise convolution in bytes, for any arithmetic: everything that its code depends on.

    `channels` is a multiple of 16. Output (y, x) is at y * out_row + x * out_pixel. Its window begins at
    y * stride_y * in_row + x * stride_x * in_pixel, and has rows `in_row` and pixels `in_pixel` apart.
    """

    rows: int
    width: int
    channels: int
    in_row: int
    in_pixel: int
    out_row: int
    out_pixel: int
    kernel: tuple[int, int]
    strides: tuple[int, int]

    @property
    def is_flat(self) -> bool:
        """Whether groups of four rows have more zero products than groups of four columns would have."""
        rows, columns = self.kernel
        return -(-rows // 4) * columns > -(-columns // 4) * rows

    def turned(self) -> WindowShape:
        """The shape with rows and columns exchanged."""
        return WindowShape(
            self.width,
            self.rows,
            self.channels,
            self.in_pixel,
            self.in_row,
            self.out_pixel,
            self.out_row,
            (self.kernel[1], self.kernel[0]),
            (self.strides[1], self.strides[0]),
        )


@dataclass(frozen=True)
class DepthwiseShape(WindowShape):
    """The shape of an 8-bit depthwise convolution whose results are requantized."""

    halves: int
    epilogue: AnyEpilogue

    @property
    def paired(self) -> int:
        """How many output rows share interleaved columns: 2 if they need as many groups of input rows as 1, else 1."""
        taller = self.kernel[0] + self.strides[0]
        return 2 if self.rows > 1 and -(-taller // 4) == -(-self.kernel[0] // 4) else 1

    @property
    def input_rows(self) -> int:
        """Input rows under the output rows of one pass."""
        return self.kernel[0] + (self.paired - 1) * self.strides[0]

    @property
    def groups(self) -> int:
        """Groups of four input rows under the output rows of one pass."""
        return -(-self.input_rows // 4)

    @property
    def passes(self) -> int:
        """The number of passes over the rows. With an odd number of rows, the last pass recomputes one."""
        return -(-self.rows // self.paired)

    def weight_offset(self, isa: InstructionSet, row: int, kx: int, g: int, half: int, q: int) -> int:
        """Offset of a vector of weights in the parameters of a block."""
        return ((((row * self.kernel[1] + kx) * self.groups + g) * self.halves + half) * GROUP + q) * isa.bytes

    def summed(
        self, f: Function, isa: InstructionSet, parameters: Value, count: int, taps: Taps
    ) -> dict[tuple[int, int, int], Value]:
        """The accumulators of (output row, column, vector). Their chains of dot products alternate to hide latency.

        `taps` loads the taps of `count` columns.
        """
        rows, columns, weights = range(self.paired), range(count), f.fresh(parameters)
        biases = [f.load(isa.i32, parameters, self.bias_offset(isa, q), align=isa.bytes) for q in range(GROUP)]
        sums = {(row, x, q): biases[q] for row in rows for x in columns for q in range(GROUP)}
        for kx, g, q in itertools.product(range(self.kernel[1]), range(self.groups), range(GROUP)):
            loaded = taps(kx, g, q)
            for row, half in itertools.product(rows, range(self.halves)):
                weight = f.load(isa.i8, weights, self.weight_offset(isa, row, kx, g, half, q), align=isa.bytes)
                for x, tap in enumerate(loaded):
                    sums[row, x, q] = isa.dot(f, sums[row, x, q], tap, weight)
        return sums

    def interleaved(self, f: Function, isa: InstructionSet, rows: list[Value]) -> Iterator[Value]:
        """Vectors of the input rows of a pass, whose 32-bit elements are four rows: GROUP vectors a group of rows."""
        # The last group is filled up with zeros. Its weights are 0 as well.
        rows = rows + [Value(rows[0].type, "zeroinitializer")] * (4 * self.groups - len(rows))
        return (part for g in range(self.groups) for part in interleaved(f, isa, rows[4 * g : 4 * g + 4]))

    def bias_offset(self, isa: InstructionSet, q: int) -> int:
        """The offset of vector `q` of the biases; q = 4 gives the end of the biases."""
        return self.weight_offset(isa, self.paired, 0, 0, 0, q)
