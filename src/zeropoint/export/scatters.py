"""Scatters with constant indices: whole slices at index vectors of the first dimensions, as in `ScatterND`.

A scatter that replaces slices is a gather of rows: of the operand's, followed by those of the updates. So it rounds
nothing and works in every runtime. One that adds them is a sum for every update that the same row gets: each round adds
a gather of rows, of the updates' and one that changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation

from zeropoint.export.errors import ExportError
from zeropoint.ir.stablehlo import ReturnOp, ScatterOp
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, shape_of


@dataclass(frozen=True)
class ScatteredRows:
    """The operand as `count` rows of `width` elements. `source` has, for every row of the result, the position of its
    row among those of the operand and of the updates; `updated` the row that each update writes."""

    count: int
    width: int
    source: Array
    updated: Array

    @property
    def rounds(self) -> list[Array]:
        """For every row, the position of its first, second, ... update; the number of updates where it gets none."""
        place = np.zeros(len(self.updated), np.int64)
        for row in np.unique(self.updated):
            same = self.updated == row
            place[same] = np.arange(same.sum())
        found: list[Array] = []
        for number in range(int(place.max(initial=-1)) + 1):
            taken = np.full(self.count, len(self.updated), np.int32)
            chosen = np.flatnonzero(place == number)
            taken[self.updated[chosen]] = chosen
            found.append(taken)
        return found


def combination(op: ScatterOp) -> type[Operation] | None:
    """The op that combines an update with the present element; None if the update replaces it."""
    block = op.update_computation.block
    returned = block.last_op
    if isinstance(returned, ReturnOp) and [*returned.operands] == [block.args[-1]]:
        return None
    kind = body_op(op.update_computation)
    if kind is None:
        raise ExportError("found a scatter with another body, expected one that replaces or combines elements", op)
    return kind


def scattered_rows(op: ScatterOp, indices: Array | None) -> ScatteredRows:
    """The rows of a scatter. Raises ExportError for computed indices and scatters of another form."""
    numbers, shape = op.scatter_dimension_numbers.data, shape_of(op.inputs[0])
    rank, count = len(shape_of(op.scatter_indices)), len(numbers.scatter_dims_to_operand_dims)
    first, last = tuple(range(count)), tuple(range(rank - 1, rank - 1 + len(shape) - count))
    selects = numbers.scatter_dims_to_operand_dims == first == numbers.inserted_window_dims
    fits = numbers.update_window_dims == last and numbers.index_vector_dim == rank - 1
    if len(op.inputs) != 1 or not selects or not fits or numbers.input_batching_dims:
        raise ExportError("found a scatter of partial slices, expected whole slices at indices of the first ones", op)
    if indices is None:
        raise ExportError("found a scatter at computed indices, expected constant ones", op)
    vectors = indices.reshape(-1, count)
    if ((vectors < 0) | (vectors >= np.array(shape[:count]))).any():
        raise ExportError("found a scatter with indices out of range, expected indices of the operand", op)
    updated = np.ravel_multi_index(tuple(vectors.T), shape[:count]) if count else np.zeros(len(vectors), np.int64)
    rows = prod(shape[:count])
    source = np.arange(rows)
    source[updated] = rows + np.arange(len(updated))  # of several updates of a row, NumPy keeps the last one
    return ScatteredRows(rows, prod(shape[count:]), source.astype(np.int32), updated.astype(np.int32))


def replaced_rows(op: ScatterOp, indices: Array | None, format_name: str) -> ScatteredRows:
    """The rows of a scatter that replaces elements. Raises ExportError for one that combines them."""
    kind = combination(op)
    if kind is not None:
        found = f"found a scatter that combines elements by {kind.name}, which {format_name} lacks"
        raise ExportError(f"{found}, expected one that replaces them; export to .onnx", op)
    return scattered_rows(op, indices)
