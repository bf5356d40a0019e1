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
    """A convolution over two spatial dimensions. A 1-D convolution gets a first spatial dimension of size 1."""

    kernel: ExportKernel
    op: ConvolutionOp

    @property
    def rank(self) -> int:
        """The number of spatial dimensions in the model."""
        return len(self.op.dimension_numbers.data.input_spatial_dimensions)

    @property
    def size(self) -> tuple[int, ...]:
        """The shape of the input: [batch, height, width, channels]."""
        return self._image(shape_of(self.op.lhs))

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result: [batch, height, width, channels]."""
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
        """The padding, low and high, of each spatial dimension."""
        pairs = padding_values(self.op.padding, self.rank)
        return (pairs[0], pairs[1]) if self.rank == 2 else ((0, 0), pairs[0])

    def weights(self, array: Array) -> Array:
        """The weights as [output, height, width, input]. Dimensions with window reversal are reversed."""
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
        """How many elements the padding crops from the full result, low and high in each spatial dimension."""
        return [(n - 1 - low, n - 1 - high) for n, (low, high) in zip(extents, self.padding, strict=True)]

    @property
    def is_transposed(self) -> bool:
        """Whether this is a transposed convolution with one group and no padding beyond the window."""
        spatial = self.op.dimension_numbers.data.kernel_spatial_dimensions
        sizes = [shape_of(self.op.rhs)[axis] for axis in spatial]
        cuts = self.cuts(sizes if self.rank == 2 else [1, *sizes])
        single = {*self.pair(self.op.window_strides), *self.pair(self.op.rhs_dilation)} == {1}
        return single and self.op.feature_group_count.value.data == 1 and min(map(min, cuts)) >= 0

    def check(self) -> None:
        """Raise ExportError for channels before the spatial dimensions, or for more than two spatial dimensions."""
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
                f"{layout.output_feature_dimension} (output), expected them after the spatial dimensions",
                self.kernel.region,
            )
