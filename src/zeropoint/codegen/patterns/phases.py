"""Convolutions with a dilated input or kernel, split into ordinary convolutions of parts of the output.

By tap k, output o reads position o * stride + k * dilation - low of an input whose elements are `factor` apart. The
positions between elements all have the same number, so they need no multiplication. Outputs that are equal modulo
`period` read elements by the same taps. They form a *phase*. Within a phase, reads are regular: by its j-th tap, output
start + q * period reads

    element q * step + origin + j * pitch, for q = 0, 1, ..., count - 1.

A transposed convolution of stride 2 becomes four convolutions with a quarter of the taps each. Kernels that need
adjacent taps split phases further (`even`). Every pitch-th element is then part of an ordinary image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from zeropoint.codegen.graph import Halo
from zeropoint.ir.stablehlo import ConvolutionOp, PadOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


@dataclass(frozen=True)
class Phase:
    """Outputs along one dimension that read by the same taps. `kernel` has the positions of the taps in the weights."""

    start: int
    period: int
    count: int
    origin: int
    step: int
    pitch: int
    kernel: tuple[int, ...]

    @property
    def taps(self) -> slice:
        """The positions of the taps, which are evenly spaced, as a slice."""
        first, *rest = self.kernel
        apart = rest[0] - first if rest else 1
        return slice(first, first + apart * len(self.kernel), apart)

    @property
    def elements(self) -> tuple[int, int]:
        """The first and the last element read, possibly outside the input; (0, 0) if none is read."""
        if not self.kernel:
            return 0, 0
        last = self.origin + (self.count - 1) * self.step + (len(self.kernel) - 1) * self.pitch
        return self.origin, last

    def even(self) -> list[Phase]:
        """Split into phases whose step is a multiple of their pitch."""
        period = self.pitch // math.gcd(self.pitch, self.step)
        return [
            Phase(
                self.start + at * self.period,
                self.period * period,
                -(-(self.count - at) // period),
                self.origin + at * self.step,
                self.step * period,
                self.pitch,
                self.kernel,
            )
            for at in range(min(period, self.count))
        ]


def phases_of(count: int, stride: int, factor: int, taps: int, dilation: int, low: int) -> list[Phase]:
    """The phases of one dimension with `count` outputs."""
    common, apart = math.gcd(stride, factor), math.gcd(dilation, factor)
    phases: list[Phase] = []
    for start in range(min(factor // common, count)):
        kernel = [k for k in range(taps) if (start * stride + k * dilation - low) % factor == 0]
        outputs = -(-(count - start) * common // factor)
        origin = (start * stride + kernel[0] * dilation - low) // factor if kernel else 0
        step, pitch = (stride // common, dilation // apart) if kernel else (1, 1)
        phases.append(Phase(start, factor // common, outputs, origin, step, pitch, tuple(kernel)))
    return phases


@dataclass(frozen=True)
class Dilated:
    """A dilated convolution input: elements of `source`, `factors` apart, with `fill` between and around them."""

    source: SSAValue
    factors: tuple[int, int]
    low: tuple[int, int]
    fill: float

    @staticmethod
    def of(op: ConvolutionOp, splat: Callable[[SSAValue], float | None]) -> Dilated | None:
        """The dilated input of a convolution, from its own dilation or a `pad` before it; None without dilation."""
        spatial = op.dimension_numbers.data.input_spatial_dimensions
        if len(spatial) != 2:
            return None
        first, second = array_values(op.lhs_dilation, (1, 1))
        pairs = padding_values(op.padding, 2)
        if first > 1 or second > 1:
            return Dilated(op.lhs, (first, second), (pairs[0][0], pairs[1][0]), 0)
        pad = op.lhs.op if isinstance(op.lhs, OpResult) else None
        if not isinstance(pad, PadOp) or any(map(any, pairs)):
            return None
        fill = splat(pad.padding_value)
        low, high, between = (
            array_values(a) for a in (pad.edge_padding_low, pad.edge_padding_high, pad.interior_padding)
        )
        others = [d for d in range(len(low)) if d not in spatial]
        floats = element_dtype(element_of(pad.operand)).kind != "i"
        if (
            fill is None
            or (floats and fill != 0)
            or not any(between)
            or any(low[d] or high[d] or between[d] for d in others)
        ):
            return None
        y, x = spatial
        return Dilated(pad.operand, (between[y] + 1, between[x] + 1), (low[y], low[x]), fill)

    def phases(self, op: ConvolutionOp) -> tuple[list[Phase], list[Phase]]:
        """The phases of rows and of columns."""
        layout = op.dimension_numbers.data
        strides, dilations = array_values(op.window_strides, (1, 1)), array_values(op.rhs_dilation, (1, 1))
        y, x = (
            phases_of(
                shape_of(op.result)[layout.output_spatial_dimensions[n]],
                strides[n],
                self.factors[n],
                shape_of(op.rhs)[layout.kernel_spatial_dimensions[n]],
                dilations[n],
                self.low[n],
            )
            for n in range(2)
        )
        return y, x

    def padding(self, op: ConvolutionOp, phases: tuple[list[Phase], list[Phase]]) -> Halo | None:
        """The padding around the source that phases read; None if they read none."""
        sides = [
            _outside(some, shape_of(self.source)[d])
            for some, d in zip(phases, op.dimension_numbers.data.input_spatial_dimensions, strict=True)
        ]
        (top, bottom), (left, right) = sides
        return Halo(top, left, bottom, right, int(self.fill)) if any(map(any, sides)) else None


def _outside(phases: Sequence[Phase], size: int) -> tuple[int, int]:
    ends = [phase.elements for phase in phases]
    return max(0, -min(first for first, _ in ends)), max(0, max(last for _, last in ends) + 1 - size)
