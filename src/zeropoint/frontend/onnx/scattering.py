"""Ops that read and write elements and slices at computed positions.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.indexing import bound_input, from_start, taken_along
from zeropoint.frontend.onnx.movement import concatenated
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import (
    AddOp,
    ComparisonDirection,
    GatherDimensions,
    GatherOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    RemainderOp,
    ReturnOp,
    ScatterDimensions,
    ScatterOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_shape

REDUCTIONS: dict[str, Callable[[SSAValue, SSAValue], Operation] | None] = {
    "none": None,
    "add": AddOp,
    "max": MaximumOp,
    "min": MinimumOp,
    "mul": MultiplyOp,
}
"""The ops that combine an update with the present element in a scatter. None: the update replaces the element."""

MOST_POSITIONS = 1 << 16
"""The number of elements up to which constant positions are stored with all of their coordinates."""


def update_body(element: Attribute, reduction: str) -> Region:
    """The body of a `scatter` with a reduction of `REDUCTIONS`."""
    op = REDUCTIONS[reduction]
    if op is not None:
        return binary_body(op, element)
    block = Block(arg_types=[TensorType(element, [])] * 2)
    block.add_op(ReturnOp([block.args[1]]))
    return Region(block)


def _positions(indices: SSAValue, axis: int, size: int, build: Builder) -> SSAValue:
    """The full position of each index: its own position, with the index as the coordinate along `axis`."""
    array, shape = constant_array(indices, build.weights), shape_of(indices)
    if array is not None and array.size <= MOST_POSITIONS:
        grid = np.indices(shape)
        grid[axis] = np.where(array < 0, array + size, array)
        return build.constant(np.moveaxis(grid, 0, -1).astype(np.int64))
    indices = from_start(converted(indices, i64, build), size, build)
    parts = [indices if dimension == axis else build.iota(shape, dimension, i64) for dimension in range(len(shape))]
    return concatenated([build.reshape(part, [*shape, 1]) for part in parts], len(shape), build)


def gather_elements(node: OnnxNode, build: Builder) -> SSAValue:
    """`GatherElements`: a `gather` of single elements at full positions. Without positions, the result is empty."""
    value, indices = node.operand(0), node.operand(1)
    rank = len(shape_of(value))
    axis = axis_of(node.integer("axis", 0), rank)
    if not all(shape_of(indices)):
        return build.constant(np.zeros(shape_of(indices), element_dtype(element_of(value))))
    positions = _positions(indices, axis, shape_of(value)[axis], build)
    every = tuple(range(rank))
    dimensions = GatherDimensions(collapsed_slice_dims=every, start_index_map=every, index_vector_dim=rank)
    return build.insert(GatherOp(value, positions, dimensions, [1] * rank))


def scatter_elements(node: OnnxNode, build: Builder) -> SSAValue:
    """`ScatterElements` and `Scatter`: a `scatter` of single elements at full positions."""
    value, indices, updates = node.operand(0), node.operand(1), node.operand(2)
    rank = len(shape_of(value))
    axis = axis_of(node.integer("axis", 0), rank)
    positions = _positions(indices, axis, shape_of(value)[axis], build)
    every = tuple(range(rank))
    dimensions = ScatterDimensions(
        inserted_window_dims=every, scatter_dims_to_operand_dims=every, index_vector_dim=rank
    )
    body = update_body(element_of(value), node.choice("reduction", "none", REDUCTIONS))
    return build.insert(ScatterOp([value], positions, [updates], dimensions, body))


def _nd_indices(indices: SSAValue, sizes: Sequence[int], build: Builder) -> SSAValue:
    """Index vectors with negative indices counted from the end of their dimension."""
    indices = converted(indices, i64, build)
    array = constant_array(indices, build.weights)
    if array is not None:
        return build.constant(np.where(array < 0, array + np.array(sizes), array).astype(array.dtype))
    # The elements of longer vectors have different bounds, and an input has only one.
    if len(set(sizes)) == 1:
        bound_input(indices, sizes[0], build)
    row = build.constant(np.array(sizes, np.int64))
    ends = build.broadcast(row, indices.type, [len(shape_of(indices)) - 1])
    negative = build.compare(ComparisonDirection.LT, indices, 0)
    return build.apply(SelectOp, negative, build.apply(AddOp, indices, ends), indices)


def gather_nd(node: OnnxNode, build: Builder) -> SSAValue:
    """`GatherND`: a `gather` at index vectors. The first `batch_dims` dimensions are batch dimensions."""
    value, indices = node.operand(0), node.operand(1)
    shape, batches = shape_of(value), node.integer("batch_dims", 0)
    depth, rank = shape_of(indices)[-1], len(shape_of(indices)) - 1
    if not 0 <= batches <= len(shape) - depth:
        raise NodeError(f"found batch_dims {batches}, expected 0 to {len(shape) - depth}")
    mapped = tuple(range(batches, batches + depth))
    rest = len(shape) - batches - depth
    dimensions = GatherDimensions(
        offset_dims=tuple(range(rank, rank + rest)),
        collapsed_slice_dims=mapped,
        operand_batching_dims=tuple(range(batches)),
        start_indices_batching_dims=tuple(range(batches)),
        start_index_map=mapped,
        index_vector_dim=rank,
    )
    positions = _nd_indices(indices, [shape[dimension] for dimension in mapped], build)
    sizes = [size if dimension >= batches + depth else 1 for dimension, size in enumerate(shape)]
    return build.insert(GatherOp(value, positions, dimensions, sizes))


def scatter_nd(node: OnnxNode, build: Builder) -> SSAValue:
    """`ScatterND`: a `scatter` of slices at index vectors."""
    value, indices, updates = node.operand(0), node.operand(1), node.operand(2)
    shape, depth, rank = shape_of(value), shape_of(indices)[-1], len(shape_of(indices)) - 1
    mapped = tuple(range(depth))
    dimensions = ScatterDimensions(
        update_window_dims=tuple(range(rank, rank + len(shape) - depth)),
        inserted_window_dims=mapped,
        scatter_dims_to_operand_dims=mapped,
        index_vector_dim=rank,
    )
    body = update_body(element_of(value), node.choice("reduction", "none", REDUCTIONS))
    positions = _nd_indices(indices, shape[:depth], build)
    return build.insert(ScatterOp([value], positions, [updates], dimensions, body))


def tensor_scatter(node: OnnxNode, build: Builder) -> SSAValue:
    """`TensorScatter`: write the update along `axis`, from the index of each batch on. Mode circular wraps around."""
    value, update = node.operand(0), node.operand(1)
    shape = shape_of(update)
    axis = axis_of(node.integer("axis", -2), len(shape))
    circular = node.choice("mode", "linear", ("linear", "circular")) == "circular"
    starts = converted(node.operand(2), i64, build) if node.has(2) else None
    return written_from(value, update, axis, starts, build, circular=circular)


def written_from(
    value: SSAValue, update: SSAValue, axis: int, starts: SSAValue | None, build: Builder, *, circular: bool = False
) -> SSAValue:
    """The value with the update from the index of each batch on, along a dimension; from 0 on without indices."""
    shape = shape_of(update)
    along = build.iota(shape, axis, i64)
    if starts is not None:
        along = build.apply(AddOp, along, build.broadcast(starts, along.type, [0]))
    if circular:
        along = build.apply(RemainderOp, along, build.splat(shape_of(value)[axis], along))
    positions = _positions(along, axis, shape_of(value)[axis], build)
    every = tuple(range(len(shape)))
    dimensions = ScatterDimensions(
        inserted_window_dims=every, scatter_dims_to_operand_dims=every, index_vector_dim=len(shape)
    )
    return build.insert(ScatterOp([value], positions, [update], dimensions, update_body(element_of(value), "none")))


def compress(node: OnnxNode, build: Builder) -> SSAValue:
    """`Compress` with a constant condition: the elements where it is true."""
    value, condition = node.operand(0), node.parameter(1, "condition")
    assert condition is not None  # required by the schema
    axis = 0
    if node.has_attribute("axis"):
        axis = axis_of(node.integer("axis", 0), len(shape_of(value)))
    else:
        value = build.reshape(value, [prod(shape_of(value))])
    return taken_along(value, axis, np.flatnonzero(condition.reshape(-1)), build)


def reverse_sequence(node: OnnxNode, build: Builder) -> SSAValue:
    """`ReverseSequence`: a `gather` whose positions are reversed up to the length of each batch."""
    value, lengths = node.operand(0), converted(node.operand(1), i64, build)
    shape = shape_of(value)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise NodeError(f"found batch_axis {batch} and time_axis {time}, expected 0 and 1")
    if 0 in shape:
        return value
    steps = build.iota(shape, time, i64)
    ends = build.broadcast(lengths, with_shape(lengths, shape), [batch])
    turned = build.apply(SubtractOp, build.apply(SubtractOp, ends, build.splat(1, ends)), steps)
    inside = build.compare(ComparisonDirection.LT, steps, ends)
    along = build.apply(SelectOp, inside, turned, steps)
    every = tuple(range(len(shape)))
    positions = _positions(along, time, shape[time], build)
    dimensions = GatherDimensions(collapsed_slice_dims=every, start_index_map=every, index_vector_dim=len(shape))
    return build.insert(GatherOp(value, positions, dimensions, [1] * len(shape)))
