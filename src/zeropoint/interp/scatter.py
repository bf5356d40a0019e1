"""`scatter`.

Source: the StableHLO specification, which leaves the order of updates open. Here they are applied in the order of their
indices, the last dimension fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block

from zeropoint.interp.binding import Arrays, BodyFunction, Kernel, Scope
from zeropoint.interp.elementwise import PREFIX
from zeropoint.interp.indexing import counting
from zeropoint.interp.quantized import implicit_conversion
from zeropoint.ir.stablehlo import BinaryOp, MaximumOp, MinimumOp, ScatterDimensions, ScatterOp
from zeropoint.ir.tensors import Array, element_dtype, element_of

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def scatter(op: ScatterOp, scope: Scope) -> Kernel:
    """results[result_index] = update_computation(results[result_index], updates[update_index]), where result_index =
    full_start_index + full_batching_index + full_window_index, for each update_index whose result_index is in bounds.
    """
    dims, block, count = op.scatter_dimension_numbers.data, op.update_computation.block, len(op.inputs)
    elements = [element_of(value) for value in (*op.inputs, *op.updates)]
    conversions = [
        implicit_conversion(element, element_of(argument), scope.profile)
        for element, argument in zip(elements, block.args, strict=True)
    ]
    body, ufunc = scope.body(block), _plain_ufunc(block)

    def run(*operands: Array) -> Array | Arrays:
        given = [*operands[:count], *operands[count + 1 :]]
        converted = [convert(array) for convert, array in zip(conversions, given, strict=True)]
        shape = operands[0].shape
        targets, inside = target_indices(dims, shape, operands[count], operands[count + 1].shape)
        # Copies, because the operands may have other readers.
        totals: Arrays = tuple(np.array(array).reshape(-1) for array in converted[:count])
        updates = tuple(array[inside] for array in converted[count:])
        if ufunc is not None:
            ufunc.at(totals[0], targets, updates[0])
        else:
            totals = _in_rounds(totals, targets, updates, body)
        results = tuple(total.reshape(shape) for total in totals)
        return results[0] if count == 1 else results

    return run


def target_indices(
    dims: ScatterDimensions, shape: Sequence[int], indices: Array, update_shape: Sequence[int]
) -> tuple[Array, Array]:
    """The targets of updates: flat indices into a result of `shape`, and a mask of `update_shape`.

    The mask says which updates are in bounds. The indices are those of these updates.
    """
    if dims.index_vector_dim == indices.ndim:
        indices = indices[..., np.newaxis]
    vectors = np.moveaxis(indices, dims.index_vector_dim, -1)
    rank = len(update_shape)
    batches = [dim for dim in range(rank) if dim not in dims.update_window_dims]
    windowed = [dim for dim in range(len(shape)) if dim not in (*dims.inserted_window_dims, *dims.input_batching_dims)]
    flat: Array = np.zeros((1,) * rank, np.intp)
    inside = np.ones(update_shape, np.bool_)
    for dim, size in enumerate(shape):
        position: Array = np.zeros((1,) * rank, np.intp)
        if dim in dims.scatter_dims_to_operand_dims:
            starts = _bounded(vectors[..., dims.scatter_dims_to_operand_dims.index(dim)], size)
            position = np.expand_dims(starts, dims.update_window_dims)
        if dim in dims.input_batching_dims:
            axis = dims.scatter_indices_batching_dims[dims.input_batching_dims.index(dim)]
            position = position + counting(update_shape, batches[axis - (axis > dims.index_vector_dim)])
        if dim in windowed:
            position = position + counting(update_shape, dims.update_window_dims[windowed.index(dim)])
        inside &= (position >= 0) & (position < size)
        flat = flat + position * math.prod(shape[dim + 1 :])
    return np.broadcast_to(flat, update_shape)[inside], inside


def _bounded(positions: Array, size: int) -> Array:
    """Positions of any integer dtype as NumPy indices.

    Positions far outside of [0, size) are clamped to positions that are out of bounds with every window offset.
    """
    if positions.dtype.kind in "ub":
        # Clamped before the conversion to signed integers, in which the largest unsigned ones would be negative.
        return np.minimum(positions, np.uint64(size)).astype(np.intp)
    return np.clip(positions.astype(np.int64, copy=False), -size - 1, size).astype(np.intp, copy=False)


def _in_rounds(totals: Arrays, targets: Array, updates: Arrays, body: BodyFunction) -> Arrays:
    """Apply the first update of every target at once, then the second, and so on."""
    # The sort is stable, so that updates of one element are combined in their order.
    order = np.argsort(targets, kind="stable")
    grouped = targets[order]
    firsts = np.flatnonzero(np.diff(grouped, prepend=-1))
    counts = np.diff(firsts, append=len(grouped))
    for turn in range(int(counts.max(initial=0))):
        chosen = order[firsts[counts > turn] + turn]
        where = targets[chosen]
        combined = body(*(total[where] for total in totals), *(update[chosen] for update in updates))
        for total, value in zip(totals, combined, strict=True):
            total[where] = value
    return totals


def _plain_ufunc(block: Block) -> np.ufunc | None:
    """The ufunc of a body that is a single op on both arguments. `ufunc.at` applies it in the order of the updates.

    None for quantized elements; for integers narrower than their dtype, because results must wrap; and for the maximum
    and minimum of floats, because NumPy does not order -0 and +0.
    """
    op, terminator = block.first_op, block.last_op
    if not isinstance(op, BinaryOp) or terminator is None or op.next_op is not terminator:
        return None
    if len(block.args) != 2 or {op.lhs, op.rhs} != set(block.args) or tuple(terminator.operands) != (op.result,):
        return None
    element = element_of(op.result)
    dtype = element_dtype(element)
    if isinstance(element, IntegerType):
        width: int = element.bitwidth
        if width not in (1, dtype.itemsize * 8):
            return None
    elif dtype.kind != "f" or isinstance(op, MaximumOp | MinimumOp) or element_of(block.args[0]) != element:
        return None
    return _UFUNCS.get(op.name.removeprefix(PREFIX))
