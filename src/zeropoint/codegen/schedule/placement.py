"""Schedules `dynamic_update_slice` and `scatter`: the operand is copied, and updates are written into the copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.placement import Placement, UpdateIndex
from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.regions import scatter_body
from zeropoint.codegen.views import access_of, copy
from zeropoint.ir.stablehlo import DynamicUpdateSliceOp, ScatterOp


def schedule_update(body: Body) -> None:
    """Append the copy of the operand and the step that writes the updates."""
    # Elements without an update keep the values of the operand.
    copy(body.graph, body.name, body.view(body.root.operands[0]), body.outputs[0])
    if isinstance(body.root, ScatterOp):
        return _scatter(body, body.root)
    assert isinstance(body.root, DynamicUpdateSliceOp)
    return _slice(body, body.root)


def _slice(body: Body, op: DynamicUpdateSliceOp) -> None:
    """Append the step that writes `update` at the start indices, clamped so that it stays in bounds."""
    update, starts, (target,) = body.view(op.update), [body.view(start) for start in op.start_indices], body.outputs
    loops = (1, *update.shape)
    indices = tuple(
        UpdateIndex(access_of(start, (0,) * len(loops)), start.dtype.kind != "u", -1, size, stride, size - extent)
        for start, size, extent, stride in zip(starts, target.shape, update.shape, target.strides, strict=True)
    )
    kernel = Placement(
        loops,
        len(loops),
        access_of(update, (0, *update.strides)),
        indices,
        access_of(target, (0, *target.strides)),
        None,
    )
    if kernel.tasks(body.isa):
        # Each task writes one row. The loop over elements runs inside a task.
        kernel = replace(kernel, apart=max(1, len(loops) - 1))
        body.graph.call(body.name, kernel, [update, *starts], [target])


def _scatter(body: Body, op: ScatterOp) -> None:
    """Append the step that combines updates with the operand, sequentially if they may write the same element."""
    dims = op.scatter_dimension_numbers.data
    update, positions, (target,) = body.view(op.updates[0]), body.view(op.scatter_indices), body.outputs
    rank = len(update.shape)
    batches = [d for d in range(rank) if d not in dims.update_window_dims]
    windowed = [d for d in range(len(target.shape)) if d not in (*dims.inserted_window_dims, *dims.input_batching_dims)]
    window = dict(zip(windowed, dims.update_window_dims, strict=True))
    # The update's batch dimension for each dimension of the indices.
    along = iter(batches)
    axes = [None if d == dims.index_vector_dim else next(along) for d in range(len(positions.shape))]
    steps = [0] * rank
    for d, axis in enumerate(axes):
        if axis is not None:
            steps[axis] = positions.strides[d]
    vector = positions.strides[dims.index_vector_dim] if dims.index_vector_dim < len(positions.shape) else 0
    writes = [0] * rank
    for d, axis in window.items():
        # In the other dimensions, the scatter indices determine the position.
        if d not in dims.scatter_dims_to_operand_dims:
            writes[axis] = target.strides[d]
    for d, of in zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True):
        axis = axes[of]
        assert axis is not None
        writes[axis] = target.strides[d]
    # Loops with a stride in the result come first. Their iterations write different elements, so they can be tasks.
    order = sorted(range(rank), key=lambda d: not writes[d])
    apart = sum(1 for step in writes if step)
    reads: list[View] = []
    indices: list[UpdateIndex] = []
    for n, d in enumerate(dims.scatter_dims_to_operand_dims):
        reads.append(positions.moved(n * vector))
        loop = -1 if d not in window else 1 + order.index(window[d])
        read = access_of(positions, (0, *(steps[axis] for axis in order)))
        indices.append(UpdateIndex(read, positions.dtype.kind != "u", loop, target.shape[d], target.strides[d], -1))
    kernel = Placement(
        (1, *(update.shape[d] for d in order)),
        1 + apart,
        access_of(update, (0, *(update.strides[d] for d in order))),
        tuple(indices),
        access_of(target, (0, *(writes[d] for d in order))),
        scatter_body(body, op),
    )
    if np.prod(update.shape):
        body.graph.call(body.name, kernel, [update, *reads], [target])
