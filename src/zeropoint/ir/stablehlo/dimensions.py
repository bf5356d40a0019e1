"""Dimension numbers of convolutions, dot products, gathers and scatters as plain values.

Source: the StableHLO specification, "convolution", "dot_general", "gather" and "scatter".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvolutionLayout:
    """The batch, feature and spatial dimensions of each tensor; names as in the StableHLO specification."""

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

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True)
class GatherDimensions:
    """The slice, index and batch dimensions of `gather`; names as in the StableHLO specification."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0


@dataclass(frozen=True)
class ScatterDimensions:
    """The window, index and batch dimensions of `scatter`; names as in the StableHLO specification."""

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
