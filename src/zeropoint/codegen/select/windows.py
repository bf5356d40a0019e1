"""The attributes of a convolution, as kernels want them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.graph import Halo
from zeropoint.codegen.select.selection import NoKernel, Selection, padding_of
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution; weights are (kernel rows, kernel columns, inputs of a group, outputs)."""

    weights: Array
    strides: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    padding: Halo | None

    @staticmethod
    def of(selection: Selection, op: ConvolutionOp) -> Windows:
        layout = op.dimension_numbers.data
        weights = selection.constant(op.rhs)
        rank = len(layout.input_spatial_dimensions)
        ones = (1,) * rank
        plain = (
            rank == 2
            and selection.channel == layout.input_feature_dimension == layout.output_feature_dimension
            and layout.input_batch_dimension == layout.output_batch_dimension == 0
            and layout.input_spatial_dimensions == layout.output_spatial_dimensions == tuple(
                sorted(layout.input_spatial_dimensions)
            )
            and array_values(op.lhs_dilation, ones) == ones
            and min((side for pair in padding_values(op.padding, rank) for side in pair), default=0) >= 0
            and int(op.batch_group_count.value.data) == 1
        )  # fmt: skip
        if weights is None or not plain:
            raise NoKernel
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
        return Windows(arranged, (sy, sx), (dy, dx), int(op.feature_group_count.value.data), padding_of(op))

    @property
    def depthwise(self) -> bool:
        """One input and one output channel a group, adjacent taps."""
        return self.groups > 1 and self.weights.shape[2:] == (1, self.groups) and self.dilation == (1, 1)

    def dense(self) -> Array:
        """The weights for all input channels: zero outside of an output channel's group."""
        if self.groups == 1:
            return self.weights
        rows, columns, inputs, outputs = self.weights.shape
        each = outputs // self.groups
        full = np.zeros((rows, columns, inputs * self.groups, outputs), self.weights.dtype)
        for group in range(self.groups):
            mine = slice(group * each, (group + 1) * each)
            full[:, :, group * inputs : (group + 1) * inputs, mine] = self.weights[..., mine]
        return full
