"""Convolutions over images [batch, height, width, channels], with weights [output, height, width, input]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, shape_of


@dataclass(frozen=True)
class ConvolutionForm:
    """A convolution over two spatial dimensions; 1-D ones get a leading dimension of size 1."""

    kernel: ExportKernel
    op: ConvolutionOp

    @property
    def rank(self) -> int:
        """The number of spatial dimensions of the model."""
        return len(self.op.dimension_numbers.data.input_spatial_dimensions)

    @property
    def size(self) -> tuple[int, ...]:
        """The input: [batch, height, width, channels]."""
        return self._image(shape_of(self.op.lhs))

    @property
    def result(self) -> tuple[int, ...]:
        """The output: [batch, height, width, channels]."""
        return self._image(shape_of(self.op.result))

    def _image(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        # LiteRT and TOSA have two spatial dimensions; one becomes an image of height 1.
        return shape if self.rank == 2 else (shape[0], 1, *shape[1:])

    def pair(self, attribute: Any, default: int = 1) -> tuple[int, int]:
        """One entry per spatial dimension."""
        values = array_values(attribute, (default,) * self.rank)
        return (values[0], values[1]) if self.rank == 2 else (default, values[0])

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Low and high, per spatial dimension."""
        pairs = padding_values(self.op.padding, self.rank)
        return (pairs[0], pairs[1]) if self.rank == 2 else ((0, 0), pairs[0])

    def weights(self, array: Array) -> Array:
        """The weights as [output, height, width, input], reversed along dimensions with window reversal."""
        layout = self.op.dimension_numbers.data
        found = array.transpose(
            layout.kernel_output_feature_dimension,
            *layout.kernel_spatial_dimensions,
            layout.kernel_input_feature_dimension,
        )
        reversal = array_values(self.op.window_reversal)
        found = np.flip(found, tuple(1 + axis for axis, turned in enumerate(reversal) if turned))
        return found if self.rank == 2 else found[:, None]

    def cuts(self, extents: Sequence[int]) -> list[tuple[int, int]]:
        """The numbers of elements, low and high per spatial dimension, that padding crops from the full result."""
        return [(n - 1 - low, n - 1 - high) for n, (low, high) in zip(extents, self.padding, strict=True)]

    @property
    def is_transposed(self) -> bool:
        """Whether it is a transposed convolution with one group, without padding beyond its window."""
        spatial = self.op.dimension_numbers.data.kernel_spatial_dimensions
        sizes = [shape_of(self.op.rhs)[axis] for axis in spatial]
        cuts = self.cuts(sizes if self.rank == 2 else [1, *sizes])
        single = {*self.pair(self.op.window_strides), *self.pair(self.op.rhs_dilation)} == {1}
        return single and self.op.feature_group_count.value.data == 1 and min(map(min, cuts)) >= 0

    def check(self) -> None:
        """Raise ExportError for channels in front of the spatial dimensions, or more than two spatial dimensions."""
        layout = self.op.dimension_numbers.data
        inside = tuple(range(1, 1 + self.rank))
        if self.rank not in (1, 2):
            raise ExportError(
                f"found a convolution over {self.rank} dimensions, expected one over one or two, which the format has "
                "integer kernels for; run the program with --target cpu, or export to .onnx",
                self.kernel.region,
            )
        if not inside == layout.input_spatial_dimensions == layout.output_spatial_dimensions:
            raise ExportError(
                f"found channels at dimensions {layout.input_feature_dimension} (input) and "
                f"{layout.output_feature_dimension} (output), expected them behind the spatial dimensions",
                self.kernel.region,
            )
