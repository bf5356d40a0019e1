"""Ops whose indices are values. They only move elements, so quantized values are moved as storage integers.

Source: the StableHLO specification. Positions are clamped so that slices are in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeropoint.interp import elementwise
from zeropoint.interp.affine import quantization
from zeropoint.interp.binding import ArrayFunction, Binary, Scope
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import DynamicSliceOp, DynamicUpdateSliceOp, GatherDimensions, GatherOp, IotaOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def clamped(positions: Array, limit: int) -> Array:
    """Positions of any integer dtype as NumPy indices, clamped to [0, limit]."""
    # Clamped before the conversion to i64, in which the largest u64 would be -1.
    if positions.dtype.kind == "u":
        return np.minimum(positions, np.uint64(limit)).astype(np.intp)
    return np.clip(positions.astype(np.int64, copy=False), 0, limit).astype(np.intp, copy=False)


def gather(op: GatherOp, scope: Scope) -> Binary:
    """result[result_index] = operand[full_start_index + full_batching_index + full_offset_index], where
    full_start_index[start_index_map] = start_indices[batch_index, :], clamped into [0, dim(operand, d) -
    slice_sizes[d]]; full_batching_index[operand_batching_dims] = batch_index[start_indices_batching_dims]; and the full
    offset index has offset_index in the dimensions that are neither collapsed nor batching (C22).
    """
    dims, slices = op.dimension_numbers.data, array_values(op.slice_sizes)
    sizes, indices = shape_of(op.operand), shape_of(op.start_indices)
    vector_dim = dims.index_vector_dim
    # Dimensions that are taken in full start at 0 and need no index, so that NumPy copies contiguous runs.
    dropped = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    whole = [d for d in range(len(sizes)) if d not in dropped and slices[d] == sizes[d]]
    indexed = [d for d in range(len(sizes)) if d not in whole]
    windows = [d for d in indexed if d not in dropped]
    batch_rank = len(indices) - (vector_dim < len(indices))
    order = _result_order(dims, batch_rank, [*windows, *whole])

    def run(operand: Array, start_indices: Array) -> Array:
        if vector_dim == start_indices.ndim:
            start_indices = start_indices[..., np.newaxis]
        vectors = np.moveaxis(start_indices, vector_dim, -1)
        batch_shape = vectors.shape[:-1]
        positions: list[Array] = []
        for d in indexed:
            position: Array = np.zeros((1,) * batch_rank, np.intp)
            if d in dims.start_index_map:
                position = clamped(vectors[..., dims.start_index_map.index(d)], operand.shape[d] - slices[d])
            if d in dims.operand_batching_dims:
                axis = dims.start_indices_batching_dims[dims.operand_batching_dims.index(d)]
                position = position + counting(batch_shape, axis - (axis > vector_dim))
            positions.append(_with_window(position, windows, d, slices[d]))
        # If they are adjacent, NumPy's advanced indexing puts the indexed dimensions first, in that order.
        lifted = operand.transpose(*indexed, *whole)
        found = lifted[tuple(positions)] if positions else lifted
        shape = (*batch_shape, *(slices[d] for d in windows), *(slices[d] for d in whole))
        return np.broadcast_to(found, shape).transpose(order)

    return run


def _result_order(dims: GatherDimensions, batch_rank: int, found: Sequence[int]) -> list[int]:
    """The permutation from [batches, operand dimensions in the order `found`] to the dimensions of the result."""
    at_offset = dict(zip(dims.offset_dims, sorted(found), strict=True))
    batches = iter(range(batch_rank))
    rank = batch_rank + len(found)
    return [batch_rank + found.index(at_offset[d]) if d in at_offset else next(batches) for d in range(rank)]


def counting(shape: Sequence[int], axis: int) -> Array:
    """0, 1, ... along `axis`, shaped to broadcast with `shape`."""
    return np.arange(shape[axis]).reshape([-1 if dim == axis else 1 for dim in range(len(shape))])


def _with_window(position: Array, windows: Sequence[int], dim: int, size: int) -> Array:
    """Positions with a dimension appended for each window dimension. Along that of `dim`, 0 .. size - 1 are added."""
    behind = position.reshape(position.shape + (1,) * len(windows))
    if dim not in windows:
        return behind
    return behind + counting([size if other == dim else 1 for other in windows], windows.index(dim))


def dynamic_slice(op: DynamicSliceOp, scope: Scope) -> ArrayFunction:
    """result = slice(operand, start, start + slice_sizes), start = clamp(0, start_indices, shape(operand) -
    slice_sizes); a view (C5).
    """
    slices = array_values(op.slice_sizes)

    def run(operand: Array, *start_indices: Array) -> Array:
        return operand[_region(start_indices, operand.shape, slices)]

    return run


def dynamic_update_slice(op: DynamicUpdateSliceOp, scope: Scope) -> ArrayFunction:
    """result = the operand with update written at clamp(0, start_indices, shape(operand) - shape(update)) (C1)."""

    def run(operand: Array, update: Array, *start_indices: Array) -> Array:
        # A copy, because the operand may be a constant or have other readers.
        result = operand.copy()
        result[_region(start_indices, operand.shape, update.shape)] = update
        return result

    return run


def _region(starts: Sequence[Array], sizes: Sequence[int], slices: Sequence[int]) -> tuple[slice, ...]:
    # StableHLO moves a slice that would leave the operand back into it.
    first = [int(clamped(start, size - extent)) for start, size, extent in zip(starts, sizes, slices, strict=True)]
    return tuple(slice(start, start + extent) for start, extent in zip(first, slices, strict=True))


def iota(op: IotaOp, scope: Scope) -> ArrayFunction:
    """output[output_index] = output_index[iota_dimension], quantized if the element type is; read-only."""
    shape, element, axis = shape_of(op.output), element_of(op.output), int(op.iota_dimension.value.data)
    counted = np.arange(shape[axis])
    if isinstance(element, UniformQuantizedType):
        along = quantization(element, scope.profile)(counted.astype(element_dtype(element.expressed_type)))
    else:
        along = elementwise.conversion(element)(counted)
    result = np.broadcast_to(along.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)
    return lambda: result
