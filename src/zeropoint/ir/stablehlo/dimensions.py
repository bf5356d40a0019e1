"""The dimensions that convolutions and products name, as plain values.

Source: the StableHLO specification, "convolution" and "dot_general".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvolutionLayout:
    """Which dimension of each tensor is batch, feature or a spatial one; names as in the StableHLO specification."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    @staticmethod
    def channels_first(spatial_rank: int) -> ConvolutionLayout:
        """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]` for two spatial dimensions: the layout of ONNX."""
        spatial = tuple(range(2, 2 + spatial_rank))
        return ConvolutionLayout(0, 1, spatial, 1, 0, spatial, 0, 1, spatial)


@dataclass(frozen=True)
class DotDimensions:
    """The batching and contracting dimensions of the two operands of `dot_general`."""

    lhs_batching_dimensions: tuple[int, ...]
    rhs_batching_dimensions: tuple[int, ...]
    lhs_contracting_dimensions: tuple[int, ...]
    rhs_contracting_dimensions: tuple[int, ...]
