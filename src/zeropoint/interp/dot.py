"""The sum of products of `dot_general`, on arrays; `chlo.ragged_dot`.

Source: the StableHLO specification, "dot_general".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zeropoint.interp.binding import ArrayFunction, Scope
from zeropoint.interp.convolution import ProductFunction
from zeropoint.interp.errors import UnsupportedError
from zeropoint.interp.exactness import FLOAT32
from zeropoint.ir.chlo import RaggedDotOp
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.products import sums_of_products


@dataclass(frozen=True)
class Dot:
    """The dimension numbers and result shape of a dot. A `ContractionFunction` (see `zeropoint.interp.contraction`)."""

    weights_first: ClassVar[bool] = False
    dimensions: DotDimensions
    shape: tuple[int, ...]

    @staticmethod
    def of(op: DotGeneralOp) -> Dot:
        """The attributes of `op`."""
        return Dot(op.dot_dimension_numbers.data, shape_of(op.result))

    def weights(self, rhs: Array) -> Array:
        """The right operand as w[batch, free, contracting]."""
        dims = self.dimensions
        return _three_dimensional(rhs, dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions)

    def apply(self, lhs: Array, weights: Array, product: ProductFunction = np.matmul) -> Array:
        """result[batch, lhs free, rhs free] (C12), in the common dtype of the arrays."""
        dims = self.dimensions
        x = _three_dimensional(lhs, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions)
        # A dynamic dimension of `shape` takes its size from the operand.
        free = _free(lhs, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions)
        rows = [lhs.shape[dim] for dim in (*dims.lhs_batching_dimensions, *free)]
        return product(x, weights.swapaxes(1, 2)).reshape([*rows, *self.shape[len(rows) :]])


def _free(operand: Array, batching: tuple[int, ...], contracting: tuple[int, ...]) -> list[int]:
    """The dimensions that are neither batching nor contracting."""
    return [dim for dim in range(operand.ndim) if dim not in batching and dim not in contracting]


def _three_dimensional(operand: Array, batching: tuple[int, ...], contracting: tuple[int, ...]) -> Array:
    free = _free(operand, batching, contracting)
    shape = (math.prod(operand.shape[dim] for dim in dims) for dims in (batching, free, contracting))
    return operand.transpose(*batching, *free, *contracting).reshape(*shape)


def ragged_dot(op: RaggedDotOp, scope: Scope) -> ArrayFunction:
    """result[rows of group g] = dot_general(lhs[rows of group g], rhs[g]); rows outside of all groups are zeros."""
    if not op.has_groups_of_rows():
        raise UnsupportedError(
            "found a ragged dimension that is summed or a batch, or sizes for each batch; expected groups of rows"
        )
    dims, result = op.ragged_dot_dimension_numbers.data, element_dtype(element_of(op.result))
    (ragged,), (group,) = dims.lhs_ragged_dimensions, dims.rhs_group_dimensions
    taken = {*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions}
    free = len(dims.lhs_batching_dimensions) + sum(axis not in taken for axis in range(ragged))
    one = DotDimensions(
        dims.lhs_batching_dimensions,
        tuple(axis - (axis > group) for axis in dims.rhs_batching_dimensions),
        dims.lhs_contracting_dimensions,
        tuple(axis - (axis > group) for axis in dims.rhs_contracting_dimensions),
    )
    dtype = FLOAT32 if result.kind not in "iubc" and result.itemsize < FLOAT32.itemsize else result
    product = np.matmul if dtype.kind in "iubc" else sums_of_products

    def run(lhs: Array, rhs: Array, group_sizes: Array) -> Array:
        shape = [
            *(lhs.shape[dim] for dim in dims.lhs_batching_dimensions),
            *(lhs.shape[dim] for dim in _free(lhs, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions)),
            *(
                rhs.shape[dim]
                for dim in _free(rhs, (group, *dims.rhs_batching_dimensions), dims.rhs_contracting_dimensions)
            ),
        ]
        found, start = np.zeros(shape, dtype), 0
        lhs, rhs = lhs.astype(dtype, copy=False), rhs.astype(dtype, copy=False)
        for index, size in enumerate(group_sizes.tolist()):
            rows = np.moveaxis(np.moveaxis(lhs, ragged, 0)[start : start + size], 0, ragged)
            dot = Dot(one, (*shape[:free], rows.shape[ragged], *shape[free + 1 :]))
            np.moveaxis(found, free, 0)[start : start + size] = np.moveaxis(
                dot.apply(rows, dot.weights(np.moveaxis(rhs, group, 0)[index]), product), free, 0
            )
            # Rows after the last group stay 0.
            start += size
        return found.astype(result, copy=False)

    return run
