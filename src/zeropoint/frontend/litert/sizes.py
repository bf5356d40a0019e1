"""The elements of values that a file computes from constants and shapes: RESHAPE's operand behind SHAPE and PACK.

Shapes are static in a program, so SHAPE is a constant. What moves its elements and computes with them can be evaluated.
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
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
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


def _divided(_: Operation, operands: tuple[Array, ...]) -> Array | None:
    """The quotient, rounded toward 0 as LiteRT's DIV; None for a division by 0."""
    value, divisor = operands
    if not divisor.all():
        return None
    quotient = value // divisor
    return quotient + ((quotient < 0) & (quotient * divisor != value))


_FOLDS: Mapping[type[Operation] | None, np.ufunc] = {
    AddOp: np.add,
    MaximumOp: np.maximum,
    MinimumOp: np.minimum,
    MultiplyOp: np.multiply,
}


def _reduced(op: Operation, operands: tuple[Array, ...]) -> Array | None:
    assert isinstance(op, ReduceOp)
    fold = _FOLDS.get(body_op(op.body))
    if fold is None or len(operands) != 2:
        return None
    value, first = operands
    return fold.reduce(value, tuple(array_values(op.dimensions)), value.dtype, initial=first.item())


_RULES: Mapping[type[Operation], Callable[[Operation, tuple[Array, ...]], Array | None]] = {
    AddOp: lambda _, operands: operands[0] + operands[1],
    BroadcastInDimOp: _spread,
    ConcatenateOp: _joined,
    ConvertOp: lambda op, operands: operands[0].astype(element_dtype(element_of(op.results[0]))),
    DivideOp: _divided,
    MaximumOp: lambda _, operands: np.maximum(*operands),
    MinimumOp: lambda _, operands: np.minimum(*operands),
    MultiplyOp: lambda _, operands: operands[0] * operands[1],
    ReduceOp: _reduced,
    ReshapeOp: lambda op, operands: operands[0].reshape(shape_of(op.results[0])),
    SliceOp: _sliced,
    SubtractOp: lambda _, operands: operands[0] - operands[1],
}


def evaluated(value: SSAValue, weights: Weights) -> Array | None:
    """The elements of a value of integers; None if it depends on an input, or is computed otherwise."""
    return _evaluated(value, weights, {})


def _evaluated(value: SSAValue, weights: Weights, found: dict[SSAValue, Array | None]) -> Array | None:
    """Like `evaluated`. `found` has the values that were evaluated before, of which each is read many times."""
    if value not in found:
        found[value] = _computed(value, weights, found)
    return found[value]


def _computed(value: SSAValue, weights: Weights, found: dict[SSAValue, Array | None]) -> Array | None:
    op = value.owner
    if not isinstance(op, Operation) or np.prod(shape_of(value), dtype=np.int64) > ELEMENTS:
        return None
    known = constant_array(value, weights)
    if known is not None:
        return known if known.dtype.kind in "iu" else None
    rule = _RULES.get(type(op))
    operands = [_evaluated(operand, weights, found) for operand in op.operands] if rule else [None]
    arrays = tuple(array for array in operands if array is not None)
    return rule(op, arrays) if rule and len(arrays) == len(operands) else None
