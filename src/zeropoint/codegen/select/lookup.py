"""`gather` of whole rows of a table, as embeddings are looked up."""

from __future__ import annotations

import math

import numpy as np

from zeropoint.codegen.graph import row_major
from zeropoint.codegen.kernels.lookup import Lookup
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import GatherOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of


def select_gather(selection: Selection, op: GatherOp) -> None:
    """Rows (of the first dimension) of a constant or computed table. Raises NoKernel for any other gather."""
    dimensions = op.dimension_numbers.data
    table_shape, index_shape, result_shape = (shape_of(value) for value in (op.operand, op.start_indices, op.result))
    batch = len(index_shape) - (dimensions.index_vector_dim < len(index_shape))
    rows = (
        dimensions.collapsed_slice_dims == dimensions.start_index_map == (0,)
        and not dimensions.operand_batching_dims
        and (dimensions.index_vector_dim == len(index_shape) or index_shape[-1:] == (1,))
        and dimensions.index_vector_dim >= len(index_shape) - 1
        and dimensions.offset_dims == tuple(range(batch, len(result_shape)))
        and array_values(op.slice_sizes) == (1, *table_shape[1:])
    )
    numbers = selection.view(op.start_indices) if rows else None
    if numbers is None or not numbers.dense() or numbers.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise NoKernel
    table = selection.view(op.operand)
    target = selection.target(op, op.result)
    length = math.prod(table_shape[1:]) * table.itemsize
    plain = (
        table.strides[1:] == row_major(table_shape[1:], table.itemsize)
        and table.activations == target.activations
        and target.strides[batch:] == row_major(result_shape[batch:], target.itemsize)
        and batch > 0
        and target.strides[:batch] == row_major(result_shape[:batch], target.strides[batch - 1])
    )
    if not plain:
        raise NoKernel
    count = math.prod(result_shape[:batch])
    index = f"i{8 * numbers.itemsize}"
    kernel = Lookup(count, length, table_shape[0], table.strides[0], target.strides[batch - 1], index)
    selection.graph.call(describe(op), kernel, [table, numbers], [target])
    selection.bind(op.result, target)
