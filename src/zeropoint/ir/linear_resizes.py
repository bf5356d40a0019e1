"""Linear resizes: products with a constant matrix [size, result], one for each dimension that changes."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from zeropoint.ir.annotations import RESIZED
from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights


def resized_dimension(op: Operation) -> int | None:
    """The dimension that an op resizes; None for any other op."""
    axis = op.attributes.get(RESIZED)
    return axis.value.data if isinstance(axis, IntegerAttr) else None


def resize_matrices(ops: Iterable[Operation], weights: Weights) -> dict[int, Array]:
    """The matrix of each dimension that the ops resize, outer dimensions first."""
    found: dict[int, Array] = {}
    for op in ops:
        if isinstance(op, DotGeneralOp) and (axis := resized_dimension(op)) is not None:
            matrix = constant_array(op.rhs, weights)
            if matrix is not None:
                found[axis] = matrix
    return dict(sorted(found.items()))
