"""Constraints of the ops whose positions are values: gather, dynamic_slice, dynamic_update_slice.

Source: the StableHLO specification, the constraints of each op; the sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_sizes
from zeropoint.ir.tensors import element_of, shape_of

if TYPE_CHECKING:
    from zeropoint.ir.stablehlo.indexing import DynamicSliceOp, DynamicUpdateSliceOp, GatherOp


def check_gather(op: GatherOp) -> None:
    """Check a gather.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.result, names="operand, result")
    operand, indices = shape_of(op.operand), shape_of(op.start_indices)
    dims, slices = op.dimension_numbers.data, array_values(op.slice_sizes)
    _check_gather_dimensions(dims, operand, indices)
    if len(slices) != len(operand):  # (C20)
        raise VerifyException(f"slice_sizes size ({len(slices)}) not equal to operand rank ({len(operand)})")
    for name in ("collapsed_slice_dims", "operand_batching_dims"):  # (C9), (C12)
        for dim in getattr(dims, name):
            if slices[dim] > 1:
                raise VerifyException(
                    f"Expects that for each dim in {name}, slice_sizes[dim] should be <= 1, but got {slices[dim]}"
                )
    for index, (slice_size, size) in enumerate(zip(slices, operand, strict=True)):  # (C21)
        if slice_size < 0 or 0 <= size < slice_size:
            raise VerifyException(
                f"slice size ({slice_size}) is out of bounds for operand dimension ({size}) at index {index}"
            )
    check_inferred([(gather_shape(dims, slices, indices), element_of(op.operand))], op.result_types)


def _check_gather_dimensions(dims: GatherDimensions, operand: Sequence[int], indices: Sequence[int]) -> None:
    named = len(dims.offset_dims) + len(dims.collapsed_slice_dims) + len(dims.operand_batching_dims)
    if named != len(operand):  # (C1)
        raise VerifyException(
            f"offset_dims size ({len(dims.offset_dims)}) plus collapse_slice_dims size "
            f"({len(dims.collapsed_slice_dims)}) plus operand_batching_dims size ({len(dims.operand_batching_dims)}) "
            f"is not equal to operand rank ({len(operand)})"
        )
    vector_dim = dims.index_vector_dim
    check_in_bounds(vector_dim, len(indices), "index_vector_dim", "rank-of('start_indices')")  # (C2)
    vector_size = (*indices, 1)[vector_dim]
    if not compatible_sizes(vector_size, len(dims.start_index_map)):  # (C3)
        raise VerifyException(
            f"start_index_map size ({len(dims.start_index_map)}) is not equal to size of index dimension "
            f"({vector_dim}) of start_indices ({vector_size})"
        )
    _check_sorted(dims.offset_dims, "offset_dims")  # (C4)
    _check_unique(dims.offset_dims, "offset_dims")
    check_distinct(  # (C6)
        dims.collapsed_slice_dims, dims.operand_batching_dims, "collapsed_slice_dims", "operand_batching_dims"
    )
    for name in ("collapsed_slice_dims", "operand_batching_dims"):  # (C7), (C8), (C10), (C11)
        _check_sorted(getattr(dims, name), name)
        check_each_in_bounds(getattr(dims, name), len(operand), name, "rank-of('operand')")
    batching = dims.start_indices_batching_dims
    _check_unique(batching, "start_indices_batching_dims")  # (C13)
    check_each_in_bounds(  # (C14)
        batching, len(indices), "start_indices_batching_dims", "rank-of('start_indices')"
    )
    if vector_dim in batching:  # (C15)
        raise VerifyException(f"expects start_indices_batching_dims not to include index_vector_dim {vector_dim}")
    if len(dims.operand_batching_dims) != len(batching):  # (C16)
        raise VerifyException("operand_batching_dims and start_indices_batching_dims should have the same size")
    for index, (first, second) in enumerate(zip(dims.operand_batching_dims, batching, strict=True)):  # (C17)
        if not compatible_sizes(operand[first], indices[second]):
            raise VerifyException(
                f"operand_batching_dims[{index}] and start_indices_batching_dims[{index}] must have compatible sizes, "
                f"but got {operand[first]} and {indices[second]}"
            )
    check_distinct(  # (C18)
        dims.start_index_map, dims.operand_batching_dims, "start_index_map", "operand_batching_dims"
    )
    check_each_in_bounds(dims.start_index_map, len(operand), "start_index_map", "rank-of('operand')")  # (C19)


def gather_shape(dims: GatherDimensions, slices: Sequence[int], indices: Sequence[int]) -> list[int]:
    """The shape of a gather's result (C22): sizes of batches, with those of slices at `offset_dims`.

    Raises VerifyException for offset dimensions that the result does not have (C5).
    """
    batches = [size for dim, size in enumerate(indices) if dim != dims.index_vector_dim]
    rank = len(batches) + len(dims.offset_dims)
    check_each_in_bounds(dims.offset_dims, rank, "offset_dims", "implied-result-rank")
    left_out = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    offsets = [size for dim, size in enumerate(slices) if dim not in left_out]
    at_offset = dict(zip(dims.offset_dims, offsets, strict=True))
    remaining = iter(batches)
    return [at_offset[dim] if dim in at_offset else next(remaining) for dim in range(rank)]


def check_dynamic_slice(op: DynamicSliceOp) -> None:
    """Check a dynamic_slice.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.result, names="operand, result")
    sizes, slices, count = shape_of(op.operand), array_values(op.slice_sizes), len(op.start_indices)
    if count != len(slices):  # (C2)
        raise VerifyException(
            f"has mismatched number of slice sizes ({len(slices)}) and number of start indices ({count})"
        )
    if len(sizes) != count:
        raise VerifyException(
            f"has mismatched number of start indices ({count}) and the rank of operand ({len(sizes)})"
        )
    _check_start_indices(op.start_indices)  # (C3)
    for index, (slice_size, size) in enumerate(zip(slices, sizes, strict=True)):  # (C4)
        if slice_size < 0:
            raise VerifyException(f"has negative size index to dynamic slice: {slice_size}")
        if size != DYNAMIC_INDEX and slice_size > size:
            raise VerifyException(
                f"has slice size {slice_size} greater than dimension size {size} in dimension {index} of operand"
            )
    check_inferred([(slices, element_of(op.operand))], op.result_types)  # (C5)


def check_dynamic_update_slice(op: DynamicUpdateSliceOp) -> None:
    """Check a dynamic_update_slice.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.update, op.result, names="operand, update, result")
    sizes, updates, count = shape_of(op.operand), shape_of(op.update), len(op.start_indices)
    if len(updates) != len(sizes):  # (C3)
        raise VerifyException(f"update rank does not match operand rank: {len(updates)} vs {len(sizes)}.")
    if count != len(sizes):  # (C4)
        raise VerifyException(f"expects number of start_indices to match operand rank: {count} vs {len(sizes)}.")
    _check_start_indices(op.start_indices)  # (C5)
    for index, (update, size) in enumerate(zip(updates, sizes, strict=True)):  # (C6)
        if DYNAMIC_INDEX not in (update, size) and update > size:
            raise VerifyException(
                f"expects size at dimension {index} of update to be in range [0, {size}]. Got: {update}."
            )
    check_inferred([(sizes, element_of(op.operand))], op.result_types)  # (C1)


def _same_element_types(*values: SSAValue, names: str) -> None:
    first, *others = (element_of(value) for value in values)
    if any(other != first for other in others):
        raise VerifyException(f"failed to verify that all of {{{names}}} have same element type")


def _check_start_indices(values: Sequence[SSAValue]) -> None:
    if len({element_of(value) for value in values}) > 1:
        raise VerifyException("start indices must have same element type")


def check_in_bounds(dim: int, bound: int, name: str, bound_name: str) -> None:
    """Check that a dimension is in [0, bound].

    Raises VerifyException.
    """
    if not 0 <= dim <= bound:
        raise VerifyException(f"Expects {name} to be in range [0, {bound_name}] i.e. [0, {bound}]. got: {dim}.")


def check_each_in_bounds(dims: Sequence[int], bound: int, name: str, bound_name: str) -> None:
    """Check that dimensions are in [0, bound).

    Raises VerifyException.
    """
    for dim in dims:
        if not 0 <= dim < bound:
            raise VerifyException(
                f"Expects each element of {name} to be in range [0, {bound_name}) i.e. [0, {bound}). got: {dim}."
            )


def check_distinct(first: Sequence[int], second: Sequence[int], first_name: str, second_name: str) -> None:
    """Check that two lists of dimensions have nothing in common, and nothing twice.

    Raises VerifyException.
    """
    seen: set[int] = set()
    for dim in (*first, *second):
        if dim in seen:
            raise VerifyException(f"has duplicated dimension from {first_name} and {second_name}: {dim}")
        seen.add(dim)


def _check_sorted(dims: Sequence[int], name: str) -> None:
    if list(dims) != sorted(dims):
        raise VerifyException(f"expects {name} to be sorted, got: [{', '.join(map(str, dims))}]")


def _check_unique(dims: Sequence[int], name: str) -> None:
    if len(set(dims)) < len(dims):
        raise VerifyException(f"expects {name} to not repeat, got: [{', '.join(map(str, dims))}]")
