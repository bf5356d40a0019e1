"""The elements of values that a file computes from constants and shapes: RESHAPE's operand behind SHAPE and PACK.

Shapes are static in a program, so SHAPE is a constant. What moves and adds its elements can be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConvertOp,
    MultiplyOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

ELEMENTS = 8192
"""The greatest number of elements that are evaluated."""


def _sliced(op: Operation, operands: tuple[Array, ...]) -> Array:
    assert isinstance(op, SliceOp)
    bounds = (array_values(each) for each in (op.start_indices, op.limit_indices, op.strides))
    return operands[0][tuple(slice(*each) for each in zip(*bounds, strict=True))]


def _joined(op: Operation, operands: tuple[Array, ...]) -> Array:
    assert isinstance(op, ConcatenateOp)
    return np.concatenate(operands, op.dimension.value.data)


def _spread(op: Operation, operands: tuple[Array, ...]) -> Array:
    assert isinstance(op, BroadcastInDimOp)
    return np.broadcast_to(op.aligned(operands[0]), shape_of(op.result))


_RULES: Mapping[type[Operation], Callable[[Operation, tuple[Array, ...]], Array]] = {
    AddOp: lambda _, operands: operands[0] + operands[1],
    BroadcastInDimOp: _spread,
    ConcatenateOp: _joined,
    ConvertOp: lambda op, operands: operands[0].astype(element_dtype(element_of(op.results[0]))),
    MultiplyOp: lambda _, operands: operands[0] * operands[1],
    ReshapeOp: lambda op, operands: operands[0].reshape(shape_of(op.results[0])),
    SliceOp: _sliced,
    SubtractOp: lambda _, operands: operands[0] - operands[1],
}


def evaluated(value: SSAValue, weights: Weights) -> Array | None:
    """The elements of a value of integers; None if it depends on an input, or is computed otherwise."""
    op = value.owner
    if not isinstance(op, Operation) or np.prod(shape_of(value), dtype=np.int64) > ELEMENTS:
        return None
    known = constant_array(value, weights)
    if known is not None:
        return known if known.dtype.kind in "iu" else None
    rule = _RULES.get(type(op))
    operands = [evaluated(operand, weights) for operand in op.operands] if rule else [None]
    arrays = tuple(array for array in operands if array is not None)
    return rule(op, arrays) if rule and len(arrays) == len(operands) else None
