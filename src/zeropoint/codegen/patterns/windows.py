"""The attributes of a convolution in the form that kernels need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.graph import Halo, View
from zeropoint.codegen.patterns.match import Declined
from zeropoint.codegen.patterns.phases import Dilated, Phase
from zeropoint.codegen.values import Values
from zeropoint.codegen.views import part
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.stablehlo import ConvertOp, ConvolutionOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of


def constant_weights(values: Values, value: SSAValue) -> Array | None:
    """The array of constant weights; None if they are computed. i8 weights that are converted to i16 stay i8."""
    op = defining_op(value)
    if isinstance(op, ConvertOp) and element_dtype(element_of(op.result)) == np.int16:
        stored = values.constant(op.operand)
        return stored if stored is not None and stored.dtype == np.int8 else None
    return values.constant(value)


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution. `weights` has shape (kernel rows, kernel columns, inputs per group, outputs)."""

    weights: Array
    strides: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    padding: Halo | None
    """The padding around the source."""
    fill: float
    """The number between and around elements of the source."""
    phases: tuple[list[Phase], list[Phase]]
    """The phases of rows and of columns."""

    @staticmethod
    def of(values: Values, op: ConvolutionOp) -> tuple[SSAValue, Windows] | Declined:
        """The source and the windows of a convolution of images with constant weights."""
        layout = op.dimension_numbers.data
        weights = constant_weights(values, op.rhs)
        rank = len(layout.input_spatial_dimensions)
        ones = (1,) * rank
        plain = (
            values.channel == layout.input_feature_dimension == layout.output_feature_dimension
            and layout.input_batch_dimension == layout.output_batch_dimension == 0
            and layout.input_spatial_dimensions == layout.output_spatial_dimensions == tuple(
                sorted(layout.input_spatial_dimensions)
            )
        )  # fmt: skip
        if weights is None:
            return Declined("found weights that are computed, expected a constant")
        if rank != 2:
            return Declined(f"found {rank} spatial dimensions, expected 1 or 2")
        if (batch_groups := int(op.batch_group_count.value.data)) != 1:
            return Declined(f"found batch_group_count = {batch_groups}, expected 1")
        if not plain:
            return Declined(f"found {op.dimension_numbers}, expected images of one dimension order")
        pairs = padding_values(op.padding, 2)
        dilated = Dilated.of(op, values.splat)
        if dilated is None and min(map(min, pairs)) < 0:
            return Declined("found negative padding")
        arranged = weights.transpose(
            *layout.kernel_spatial_dimensions,
            layout.kernel_input_feature_dimension,
            layout.kernel_output_feature_dimension,
        )
        if op.window_reversal is not None:
            flags = [bool(flag) for flag in op.window_reversal.get_values()]
            arranged = np.flip(arranged, tuple(axis for axis, flag in enumerate(flags) if flag))
        sy, sx = array_values(op.window_strides, ones)
        dy, dx = array_values(op.rhs_dilation, ones)
        groups = int(op.feature_group_count.value.data)
        (top, bottom), (left, right) = pairs
        padding = Halo(top, left, bottom, right, 0) if any(map(any, pairs)) else None
        source = dilated or Dilated(op.lhs, (1, 1), (top, left), 0)
        phases = source.phases(op)
        if dilated is not None:
            padding = dilated.padding(op, phases)
        found = Windows(arranged, (sy, sx), (dy, dx), groups, padding, source.fill, phases)
        return source.source, found

    @property
    def depthwise(self) -> bool:
        """Whether each of several groups has one input and one output channel."""
        return self.groups > 1 and self.weights.shape[2:] == (1, self.groups)

    @property
    def takes_residual(self) -> bool:
        """Whether a single dense kernel computes the convolution, so that it can also add another value."""
        return not self.depthwise and len(self.pieces) == 1

    @property
    def reads_rows(self) -> bool:
        """Whether a kernel can read the taps of a row of bytes as if they were channels of one pixel."""
        one = self.groups == 1 and self.weights.shape[2] == 1 and self.weights.shape[1] > 1
        return one and self.dilation[1] == 1 and len(self.pieces) == 1 and self.pieces[0].taps > 0

    @property
    def leaves_out(self) -> bool:
        """Whether the kernels skip products with zeros between elements."""
        every = zip(self.phases, self.weights.shape[:2], strict=True)
        return any(len(phase.kernel) < taps for phases, taps in every for phase in phases)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The ordinary convolutions into which this one is split; one if neither input nor kernel is dilated.

        For depthwise convolutions, the step of each piece is a multiple of the distance between taps.
        """
        y, x = self.phases
        if self.depthwise:
            y, x = ([even for phase in phases for even in phase.even()] for phases in (y, x))
        return [Piece(self, row, column) for row in y for column in x]

    def parts(self, inputs: int, outputs: int) -> list[WindowPart]:
        """Split into convolutions of consecutive groups.

        Each has the smallest number of groups whose channels are multiples of `inputs` and `outputs`. If there is no
        such number, one convolution has all groups.
        """
        taken, made = self.weights.shape[2], self.weights.shape[3] // self.groups
        numbers = (n for n in range(1, self.groups) if self.groups % n == 0)
        each = next((n for n in numbers if n * taken % inputs == 0 and n * made % outputs == 0), self.groups)
        found: list[WindowPart] = []
        for first in range(0, self.groups, each):
            channels = slice(first * made, (first + each) * made)
            found.append(
                WindowPart(first * taken, channels, replace(self, weights=self.weights[..., channels], groups=each))
            )
        return found

    def dense(self, outside: float = 0) -> Array:
        """The weights for all input channels. Outside the group of an output channel they are `outside`, +0 or -0."""
        if self.groups == 1:
            return self.weights
        rows, columns, inputs, outputs = self.weights.shape
        each = outputs // self.groups
        full = np.full((rows, columns, inputs * self.groups, outputs), outside, self.weights.dtype)
        for group in range(self.groups):
            mine = slice(group * each, (group + 1) * each)
            full[:, :, group * inputs : (group + 1) * inputs, mine] = self.weights[..., mine]
        return full


@dataclass(frozen=True)
class WindowPart:
    """Some groups of a convolution: the first input channel that they read, and their output channels."""

    first: int
    channels: slice
    windows: Windows


@dataclass(frozen=True)
class Piece:
    """The outputs of one phase of rows and one phase of columns."""

    whole: Windows
    y: Phase
    x: Phase

    @property
    def taps(self) -> int:
        """The number of elements that an output reads."""
        return len(self.y.kernel) * len(self.x.kernel)

    @cached_property
    def windows(self) -> Windows:
        """The ordinary convolution of this piece. Without taps, it has one tap of zero weights."""
        if not self.taps:
            weights = np.zeros((1, 1, *self.whole.weights.shape[2:]), self.whole.weights.dtype)
            return replace(self.whole, weights=weights, strides=(1, 1), dilation=(1, 1))
        weights = self.whole.weights[self.y.taps, self.x.taps]  # a view: large weights are not copied for the program
        steps, pitches = (self.y.step, self.x.step), (self.y.pitch, self.x.pitch)
        return replace(self.whole, weights=weights, strides=steps, dilation=pitches)

    @property
    def beside(self) -> Array:
        """The contribution of the numbers between elements to each output channel."""
        if not self.whole.fill:
            return np.zeros(self.whole.weights.shape[3], np.int64)
        every, own = (part.weights.sum((0, 1, 2), dtype=np.int64) for part in (self.whole, self.windows))
        return int(self.whole.fill) * (every - own)

    def source(self, values: Values, surrounded: View) -> View:
        """The view of the padded source from the first output's window on. Without taps, it repeats one element."""
        if not self.taps:
            spatial = values.spatial
            return replace(
                surrounded, strides=tuple(0 if d in spatial else step for d, step in enumerate(surrounded.strides))
            )
        _, _, row, pixel = values.image_strides(surrounded)
        top, left = self.whole.padding.sides[:2] if self.whole.padding else (0, 0)
        return surrounded.moved((top + self.y.origin) * row + (left + self.x.origin) * pixel)

    def target(self, values: Values, view: View) -> View:
        """The view of this piece's outputs, from the view of all outputs."""
        if self.y.period == self.x.period == 1:
            return view
        y, x = values.spatial
        starts, shape, steps = [0] * 4, list(view.shape), [1] * 4
        for d, phase in ((y, self.y), (x, self.x)):
            starts[d], shape[d], steps[d] = phase.start, phase.count, phase.period
        return part(view, starts, shape, steps)
