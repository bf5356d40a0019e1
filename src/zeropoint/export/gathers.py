"""Gathers in the forms that runtimes implement.

Runtimes take whole slices along one dimension (`Gather`), or whole slices at vectors of indices of the first dimensions
(`GatherND`).
"""

from __future__ import annotations

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.ir.stablehlo import GatherOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of


def taken_axis(op: GatherOp) -> int:
    """The dimension along which a gather takes whole slices. Raises ExportError for a gather of another form."""
    numbers = op.dimension_numbers.data
    shape, rank = shape_of(op.operand), len(shape_of(op.start_indices))
    axes = numbers.start_index_map
    if len(axes) == 1 and numbers.collapsed_slice_dims == axes and not numbers.operand_batching_dims:
        (axis,) = axes
        counted = rank - 1 if has_vector(op) else rank
        kept = tuple(i if i < axis else i + counted - 1 for i in range(len(shape)) if i != axis)
        whole = tuple(1 if i == axis else size for i, size in enumerate(shape))
        last = not has_vector(op) or numbers.index_vector_dim == rank - 1
        if array_values(op.slice_sizes) == whole and numbers.offset_dims == kept and last:
            return axis
    raise ExportError(
        "found a gather of partial slices, expected whole slices along one dimension, or at indices of the first ones",
        op,
    )


def leading_indices(op: GatherOp) -> int:
    """The number of first dimensions that the index vectors of a `GatherND` select from; 0 for another form."""
    numbers = op.dimension_numbers.data
    shape, rank = shape_of(op.operand), len(shape_of(op.start_indices))
    count = len(numbers.start_index_map)
    first = tuple(range(count))
    whole = tuple(1 if i < count else size for i, size in enumerate(shape))
    last = tuple(range(rank - 1, rank - 1 + len(shape) - count))
    selects = numbers.start_index_map == first == numbers.collapsed_slice_dims and not numbers.operand_batching_dims
    fits = array_values(op.slice_sizes) == whole and numbers.offset_dims == last
    return count if count > 1 and selects and fits and numbers.index_vector_dim == rank - 1 else 0


def last_indices(op: GatherOp) -> Array:
    """The largest valid index: a scalar for slices along one dimension, an array for those at index vectors."""
    count = leading_indices(op)
    shape = shape_of(op.operand)
    return np.array(shape[:count] if count else shape[taken_axis(op)]) - 1


def clamped_indices(op: GatherOp, indices: Array) -> Array:
    """Constant indices, clamped to the size of their dimension, as StableHLO's gather does.

    A trailing index-vector dimension of size 1 is dropped.
    """
    # Some runtimes reject indices out of range, others read memory beyond the operand.
    clamped = np.clip(indices, 0, last_indices(op)).astype(indices.dtype)
    return clamped.reshape(indices.shape[:-1]) if has_vector(op) else clamped


def has_vector(op: GatherOp) -> bool:
    """Whether the indices have a trailing index-vector dimension of size 1."""
    return not leading_indices(op) and op.dimension_numbers.data.index_vector_dim < len(shape_of(op.start_indices))
