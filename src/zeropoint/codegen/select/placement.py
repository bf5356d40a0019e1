"""`dynamic_update_slice` and `scatter`: the operand is copied, then updates are written over it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.placement import Index, Placement
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.copies import copy, memory_form
from zeropoint.codegen.select.regions import region_of
from zeropoint.codegen.select.selection import Selection
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import DynamicUpdateSliceOp, ScatterOp
from zeropoint.ir.tensors import element_of


def _access(view: View, strides: tuple[int, ...]) -> Access:
    type_, form = memory_form(view)
    return Access(type_, strides, form)


def _copied(selection: Selection, op: Operation, operand: SSAValue, result: SSAValue, target: View | None) -> View:
    target = target or selection.target(op, result)
    copy(selection.graph, op, selection.view(operand), target)
    return target


def make_dynamic_update_slice(selection: Selection, op: DynamicUpdateSliceOp, target: View | None) -> View:
    """The operand with `update` in it, kept inside."""
    update, starts = selection.view(op.update), [selection.view(start) for start in op.start_indices]
    target = _copied(selection, op, op.operand, op.result, target)
    loops = (1, *update.shape)
    indices = tuple(
        Index(
            _access(start, (0,) * len(loops)),
            start.dtype.kind != "u",
            -1,
            size,
            stride,
            size - extent,
        )
        for start, size, extent, stride in zip(starts, target.shape, update.shape, target.strides, strict=True)
    )
    kernel = Placement(
        loops, len(loops), _access(update, (0, *update.strides)), indices, _access(target, (0, *target.strides)), None
    )
    if kernel.tasks(selection.isa):
        # A row at a time: the loops over single elements are inside of a task.
        kernel = replace(kernel, apart=max(1, len(loops) - 1))
        selection.graph.call(describe(op), kernel, [update, *starts], [target])
    return target


def make_scatter(selection: Selection, op: ScatterOp, target: View | None) -> View:
    """The operand with updates in it, one after the other where they may meet."""
    if len(op.inputs) != 1:
        raise CodegenError(f"{describe(op)}: found {len(op.inputs)} inputs, expected 1; run it with the interpreter")
    dims = op.scatter_dimension_numbers.data
    elements = [element_of(op.inputs[0]), element_of(op.updates[0])]
    region = region_of(selection, op, op.update_computation.block, elements)
    update, positions = selection.view(op.updates[0]), selection.view(op.scatter_indices)
    target = _copied(selection, op, op.inputs[0], op.results_[0], target)
    rank = len(update.shape)
    batches = [d for d in range(rank) if d not in dims.update_window_dims]
    windowed = [d for d in range(len(target.shape)) if d not in (*dims.inserted_window_dims, *dims.input_batching_dims)]
    window = dict(zip(windowed, dims.update_window_dims, strict=True))
    # The loops of the update's batch dimensions, in the order of the dimensions of the indices.
    along = iter(batches)
    axes = [None if d == dims.index_vector_dim else next(along) for d in range(len(positions.shape))]
    steps = [0] * rank
    for d, axis in enumerate(axes):
        if axis is not None:
            steps[axis] = positions.strides[d]
    vector = positions.strides[dims.index_vector_dim] if dims.index_vector_dim < len(positions.shape) else 0
    writes = [0] * rank
    for d, axis in window.items():
        if d not in dims.scatter_dims_to_operand_dims:
            writes[axis] = target.strides[d]
    for d, of in zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True):
        axis = axes[of]
        assert axis is not None
        writes[axis] = target.strides[d]
    # First the loops that choose dimensions of the result alone: whatever else happens, they never meet.
    order = sorted(range(rank), key=lambda d: not writes[d])
    apart = sum(1 for step in writes if step)
    reads: list[View] = []
    indices: list[Index] = []
    for n, d in enumerate(dims.scatter_dims_to_operand_dims):
        reads.append(positions.moved(n * vector))
        loop = -1 if d not in window else 1 + order.index(window[d])
        read = _access(positions, (0, *(steps[axis] for axis in order)))
        indices.append(Index(read, positions.dtype.kind != "u", loop, target.shape[d], target.strides[d], -1))
    kernel = Placement(
        (1, *(update.shape[d] for d in order)),
        1 + apart,
        _access(update, (0, *(update.strides[d] for d in order))),
        tuple(indices),
        _access(target, (0, *(writes[d] for d in order))),
        region,
    )
    if np.prod(update.shape):
        selection.graph.call(describe(op), kernel, [update, *reads], [target])
    return target
