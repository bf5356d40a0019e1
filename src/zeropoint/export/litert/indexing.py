"""GATHER: rows of a tensor by their numbers, as embeddings and `take` have it."""

from __future__ import annotations

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.litert.emission import Emission
from zeropoint.ir.stablehlo import GatherOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def taken_axis(op: GatherOp) -> int:
    """The dimension along which whole slices are taken. Raises ExportError for a gather of another kind."""
    numbers = op.dimension_numbers.data
    shape, rank = shape_of(op.operand), len(shape_of(op.start_indices))
    axes = numbers.start_index_map
    if len(axes) == 1 and numbers.collapsed_slice_dims == axes and not numbers.operand_batching_dims:
        (axis,) = axes
        counted = rank - 1 if _has_vector(op) else rank
        places = tuple(i if i < axis else i + counted - 1 for i in range(len(shape)) if i != axis)
        whole = tuple(1 if i == axis else size for i, size in enumerate(shape))
        last = not _has_vector(op) or numbers.index_vector_dim == rank - 1
        if array_values(op.slice_sizes) == whole and numbers.offset_dims == places and last:
            return axis
    raise ExportError("found a gather of parts, expected one of whole slices along one dimension", op)


def _has_vector(op: GatherOp) -> bool:
    """Whether the indices have a last dimension of size 1, in which each is a vector of one number."""
    return op.dimension_numbers.data.index_vector_dim < len(shape_of(op.start_indices))


def gather(op: GatherOp, source: int, indices: int, result: int, emit: Emission) -> None:
    """GATHER along a dimension. It refuses indices past the ends, which StableHLO clamps."""
    axis, shape = taken_axis(op), shape_of(op.start_indices)
    kind = element_of(op.start_indices)
    dtype = element_dtype(kind)
    if dtype.name not in ("int32", "int64"):
        raise ExportError(f"found indices of {kind}, expected i32 or i64", op)
    for name, bound in (("MAXIMUM", 0), ("MINIMUM", shape_of(op.operand)[axis] - 1)):
        limit = emit.builder.constant("bound", np.array(bound, dtype))
        clamped = emit.temporary(emit.builder.tensors[indices].name.decode(), shape, kind)
        emit.operator(name, [indices, limit], [clamped], ("MaximumMinimumOptions", {}), 2)
        indices = clamped
    if _has_vector(op):
        indices = emit.reshaped(indices, shape[:-1], kind)
    emit.operator("GATHER", [source, indices], [result], ("GatherOptions", {"axis": axis}), 2)
