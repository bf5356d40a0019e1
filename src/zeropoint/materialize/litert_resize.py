"""Linear resizes of stored integers, as LiteRT and XNNPACK compute them (`numerics/litert_resize.py`).

Along each dimension: the first neighbours times their weights plus the second ones times theirs. Then one division by
2^bits for each dimension. A dimension that keeps its size would be multiplied by 2^bits, which changes no result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir.linear_resizes import resize_matrices
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvertOp,
    DivideOp,
    GatherOp,
    MultiplyOp,
    ShiftRightArithmeticOp,
)
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import away_from_zero, expressed, is_plain, repeated, stored_input
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.litert_resize import (
    LITERT_BITS,
    XNNPACK_BITS,
    PixelPlacement,
    StoredNeighbours,
    litert_neighbours,
    placement_of,
    xnnpack_neighbours,
)

SUMS = 30
"""The bits of sums in i32, without that of the sign and one for the constant that rounds."""


def litert(kernel: MaterializedKernel) -> SSAValue:
    """LiteRT's own kernel."""
    return _resized(kernel, LITERT_BITS, litert_neighbours, _halves_away)


def xnnpack(kernel: MaterializedKernel) -> SSAValue:
    """XNNPACK's kernel."""
    return _resized(kernel, XNNPACK_BITS, xnnpack_neighbours, _halves_up)


def _halves_away(kernel: MaterializedKernel, total: SSAValue, shift: int) -> SSAValue:
    """total / 2^shift, a middle of two integers rounded away from zero."""
    nudged = away_from_zero(kernel, total, repeated(kernel, 1 << (shift - 1), total))
    return kernel.insert(DivideOp(nudged, repeated(kernel, 1 << shift, total)), kernel.region).result


def _halves_up(kernel: MaterializedKernel, total: SSAValue, shift: int) -> SSAValue:
    """total / 2^shift, a middle of two integers rounded up."""
    nudged = kernel.insert(AddOp(total, repeated(kernel, 1 << (shift - 1), total)), kernel.region).result
    return kernel.insert(ShiftRightArithmeticOp(nudged, repeated(kernel, shift, total)), kernel.region).result


def _resized(
    kernel: MaterializedKernel,
    bits: int,
    neighbours: Callable[[int, int, PixelPlacement], StoredNeighbours],
    divided: Callable[[MaterializedKernel, SSAValue, int], SSAValue],
) -> SSAValue:
    matrices = resize_matrices(kernel.body, kernel.weights)
    placement = placement_of(list(matrices.values()))
    wanted = kernel.output_type
    if placement is None or not is_plain(kernel) or element_of(kernel.values[kernel.arguments[0]]) != wanted:
        return encased(kernel)
    stored = stored_input(kernel)
    width = wanted.storage.type.width
    # Range analysis does not know that weights add up to 2^bits, so it sees sums that may need more than 32 bits.
    wide = width + 2 * (bits + 1) > SUMS
    total = kernel.insert(ConvertOp(stored, with_element(stored, i64 if wide else i32)), kernel.region).result
    for axis, matrix in matrices.items():
        total = _weighted(kernel, total, axis, neighbours(matrix.shape[0], matrix.shape[1], placement))
    value = divided(kernel, total, bits * len(matrices))
    low, high = (repeated(kernel, bound, total) for bound in wanted.storage.range)
    value = kernel.insert(ClampOp(low, value, high), kernel.region).result
    narrow = ConvertOp(value, with_element(value, IntegerType(width)))
    return expressed(kernel, kernel.insert(narrow, kernel.region).result)


def _weighted(kernel: MaterializedKernel, value: SSAValue, axis: int, found: StoredNeighbours) -> SSAValue:
    terms: list[SSAValue] = []
    for places, weights in zip((found.first, found.second), found.weights, strict=True):
        taken = _taken(kernel, value, axis, places)
        factors = kernel.constant(weights.astype(element_dtype(element_of(value))))
        repeated_type = with_element(taken, element_of(taken))
        spread = kernel.insert(BroadcastInDimOp(factors, repeated_type, [axis]), kernel.region).result
        terms.append(kernel.insert(MultiplyOp(taken, spread), kernel.region).result)
    first, second = terms
    return kernel.insert(AddOp(first, second), kernel.region).result


def _taken(kernel: MaterializedKernel, value: SSAValue, axis: int, places: IntArray) -> SSAValue:
    """The elements at some places along a dimension."""
    shape = shape_of(value)
    kept = tuple(other for other in range(len(shape)) if other != axis)
    dimensions = GatherDimensions(kept, (axis,), start_index_map=(axis,), index_vector_dim=1)
    sizes = [1 if other == axis else size for other, size in enumerate(shape)]
    made = GatherOp(value, kernel.constant(places.astype(np.int64)), dimensions, sizes)
    return kernel.insert(made, kernel.region).result
