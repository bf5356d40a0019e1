"""The sum of products of `dot_general`, on arrays.

Source: the StableHLO specification, "dot_general".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of


@dataclass(frozen=True)
class Dot:
    """The dimension numbers and result shape of a dot. A `Contraction` (see `zeropoint.interp.contraction`)."""

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

    def apply(self, lhs: Array, weights: Array) -> Array:
        """result[batch, lhs free, rhs free] (C12), in the dtype of the arrays, which are of one dtype."""
        dims = self.dimensions
        x = _three_dimensional(lhs, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions)
        return np.matmul(x, weights.swapaxes(1, 2)).reshape(self.shape)


def _three_dimensional(operand: Array, batching: tuple[int, ...], contracting: tuple[int, ...]) -> Array:
    free = [dim for dim in range(operand.ndim) if dim not in batching and dim not in contracting]
    shape = (math.prod(operand.shape[dim] for dim in dims) for dims in (batching, free, contracting))
    return operand.transpose(*batching, *free, *contracting).reshape(*shape)
