"""Ops that select elements: `Gather`, `Where`, and comparisons, which give conditions.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_operands, broadcast_together
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, ValueConverter, axis_of
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ConvertOp,
    GatherDimensions,
    GatherOp,
    MaximumOp,
    MinimumOp,
    ReshapeOp,
    SelectOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_shape


def gather(node: OnnxNode, build: Builder) -> SSAValue:
    """`Gather`: a `slice` if the indices are constant and equally spaced, else a `gather`.

        %0 = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}>

    Negative indices count from the end. Computed indices are adjusted by a `select`.
    """
    value = node.operand(0)
    axis = axis_of(node.integer("axis", 0), len(shape_of(value)))
    size = shape_of(value)[axis]
    array = node.constant(1)
    if array is None:
        indices = node.operand(1)
        inside = _clamped(indices, size, build)
        return gathered(value, from_start(indices, size, build) if inside is None else inside, axis, build)
    positions = np.where(array < 0, array + size, array)
    if positions.size and not (positions.min() >= 0 and positions.max() < size):
        raise NodeError(f"found indices from {array.min()} to {array.max()}, expected {-size} to {size - 1}")
    if positions.ndim > 1 or positions.size == 0:
        return gathered(value, build.constant(positions.astype(np.int64)), axis, build)
    taken = taken_along(value, axis, positions.reshape(-1), build)
    shape = shape_of(value)
    return taken if positions.ndim else build.reshape(taken, shape[:axis] + shape[axis + 1 :])


def _clamped(indices: SSAValue, size: int, build: Builder) -> SSAValue | None:
    """What is clamped to the indices of a dimension, which `gather` does again; None if indices are not clamped.

    Our exported files have such clamps.
    """
    ends = 0, size - 1
    if isinstance(op := indices.owner, ClampOp):
        found = tuple(splat_value(end, build.weights) for end in (op.min, op.max))
        return op.operand if found == ends else None
    for kind, end in ((MinimumOp, ends[1]), (MaximumOp, ends[0])):
        op = indices.owner
        if not isinstance(op, kind) or splat_value(op.rhs, build.weights) != end:
            return None
        indices = op.lhs
    return indices


def taken_along(value: SSAValue, axis: int, positions: Array, build: Builder) -> SSAValue:
    """The elements at constant positions along a dimension.

    Equally spaced positions become a `slice`. Positions that repeat each element n times become `reshape`,
    `broadcast_in_dim`, `reshape`. All others become a `gather`.
    """
    shape = shape_of(value)
    size, numbers = shape[axis], np.asarray(positions, np.int64)
    if not len(numbers) or not size:
        return part_of(value, axis, range(0), build)
    first, last = int(numbers[0]), int(numbers[-1])
    step = int(numbers[1]) - first if len(numbers) > 1 else 1
    if step and np.array_equal(numbers, first + step * np.arange(len(numbers))):
        return part_of(value, axis, range(first, last + (1 if step > 0 else -1), step), build)
    times = len(numbers) // size
    if np.array_equal(numbers, np.repeat(np.arange(size), times)):
        apart = build.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
        repeated = [*shape[: axis + 1], times, *shape[axis + 1 :]]
        whole = build.broadcast(apart, with_shape(apart, repeated), list(range(len(repeated))))
        return build.reshape(whole, [*shape[:axis], size * times, *shape[axis + 1 :]])
    return gathered(value, build.constant(numbers), axis, build)


def gathered(value: SSAValue, indices: SSAValue, axis: int, build: Builder) -> SSAValue:
    """`gather` along one dimension, which the dimensions of the indices replace.

    Raises NodeError if the dimension is empty.
    """
    shape, rank = shape_of(value), len(shape_of(indices))
    selected = (*shape[:axis], *shape_of(indices), *shape[axis + 1 :])
    if 0 in selected:
        return build.constant(np.zeros(selected, element_dtype(element_of(value))))
    if not shape[axis]:
        raise NodeError(f"found no elements along axis {axis} to select from, expected 1 or more")
    offsets = [*range(axis), *range(axis + rank, rank + len(shape) - 1)]
    dimensions = GatherDimensions(
        offset_dims=tuple(offsets),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=rank,
    )
    sizes = [1 if dimension == axis else size for dimension, size in enumerate(shape)]
    return build.insert(GatherOp(value, indices, dimensions, sizes))


def bound_input(indices: SSAValue, size: int, build: Builder) -> None:
    """Declare the bounds of an input that is used as indices into a dimension of a given size.

    Between the input and the op, indices may be moved, converted, or increased by a number.
    """
    origin, moved = indices, 0
    while (step := _step_back(origin, build)) is not None:
        origin, number = step
        moved += number
    if isinstance(origin, BlockArgument):
        least, greatest = build.index_bounds.get(origin, (-size - moved, size - 1 - moved))
        build.index_bounds[origin] = max(least, -size - moved), min(greatest, size - 1 - moved)


def _step_back(value: SSAValue, build: Builder) -> tuple[SSAValue, int] | None:
    """The operand of an op that only moves or converts elements or adds a number, and this number; None for others."""
    op = value.owner
    if isinstance(op, ReshapeOp | ConvertOp | BroadcastInDimOp | TransposeOp):
        return op.operands[0], 0
    if not isinstance(op, AddOp | SubtractOp):
        return None
    numbers = [splat_value(operand, build.weights) for operand in op.operands]
    if numbers[1] is not None:
        return op.operands[0], int(numbers[1] if isinstance(op, AddOp) else -numbers[1])
    return (op.operands[1], int(numbers[0])) if isinstance(op, AddOp) and numbers[0] is not None else None


def from_start(indices: SSAValue, size: int, build: Builder) -> SSAValue:
    """Indices counted from the start: a `select` adds the size to negative indices, unless they are constant."""
    array = constant_array(indices, build.weights)
    if array is not None:
        return build.constant(np.where(array < 0, array + size, array).astype(array.dtype))
    bound_input(indices, size, build)
    negative = build.insert(CompareOp(indices, build.splat(0, indices), ComparisonDirection.LT))
    moved = build.insert(AddOp(indices, build.splat(size, indices)))
    return build.insert(SelectOp(negative, moved, indices))


def where(node: OnnxNode, build: Builder) -> SSAValue:
    """`Where`: `select`, with all three inputs broadcast to their common shape."""
    condition, on_true, on_false = broadcast_together(node.operands(), build)
    return build.insert(SelectOp(condition, on_true, on_false))


def comparison(direction: ComparisonDirection) -> ValueConverter:
    """A converter to `compare`."""

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        lhs, rhs = broadcast_operands(node, node.operands(), build)
        return build.insert(CompareOp(lhs, rhs, direction))

    return convert
