"""What ops compute, as functions of arrays: movement, elementwise functions and plain reductions.

A function does not refer to its op, so it may outlive the program. Movement is the interpreter's, too; for quantized
values, it moves storage integers. Source: the StableHLO specification. (C1) and so on are the constraints of an op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.ir import Operation

from zeropoint.ir.functions import function_name
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConvertOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.functions import BINARY, UNARY

ArrayRule = Callable[..., Array]
"""Maps the arrays of all operands to the result."""


def _broadcast_in_dim(op: BroadcastInDimOp) -> Callable[[Array], Array]:
    """result[result_index] = operand[operand_index], operand_index[d] = 0 if dim(operand, d) = 1, else
    result_index[broadcast_dimensions[d]] (C5). The result is a read-only view.
    """
    dims, order, shape = array_values(op.broadcast_dimensions), op.ascending_order, shape_of(op.result)

    def run(operand: Array) -> Array:
        sizes = dict(zip(dims, operand.shape, strict=True))
        aligned = [sizes.get(dimension, 1) for dimension in range(len(shape))]
        return np.broadcast_to(operand.transpose(order).reshape(aligned), shape)

    return run


def _reshape(op: ReshapeOp) -> Callable[[Array], Array]:
    """result[result_index] = operand[operand_index], with both indices at the same position in row-major order (C2)."""
    shape = shape_of(op.result)
    return lambda operand: operand.reshape(shape)


def _transpose(op: TransposeOp) -> Callable[[Array], Array]:
    """result[result_index] = operand[operand_index], result_index[d] = operand_index[permutation[d]] (C3)."""
    permutation = array_values(op.permutation)
    return lambda operand: operand.transpose(permutation)


def _reverse(op: ReverseOp) -> Callable[[Array], Array]:
    """result[result_index] = operand[operand_index], operand_index[d] = dim(result, d) - result_index[d] - 1 for d in
    dimensions; a view.
    """
    dimensions = array_values(op.dimensions)
    return lambda operand: np.flip(operand, dimensions)


def _concatenate(op: ConcatenateOp) -> ArrayRule:
    """result = the inputs concatenated along `dimension` (C6)."""
    dimension = int(op.dimension.value.data)
    return lambda *inputs: np.concatenate(inputs, axis=dimension)


def _slice(op: SliceOp) -> Callable[[Array], Array]:
    """result[result_index] = operand[start_indices + result_index * strides], within limit_indices (C5); a view."""
    bounds = zip(array_values(op.start_indices), array_values(op.limit_indices), array_values(op.strides), strict=True)
    index = tuple(slice(start, limit, stride) for start, limit, stride in bounds)
    return lambda operand: operand[index]


MOVEMENT: Mapping[type[Operation], Callable[[Any], ArrayRule]] = {
    BroadcastInDimOp: _broadcast_in_dim,
    ConcatenateOp: _concatenate,
    ReshapeOp: _reshape,
    ReverseOp: _reverse,
    SliceOp: _slice,
    TransposeOp: _transpose,
}

REDUCED: Mapping[type[Operation] | None, np.ufunc] = {
    AddOp: np.add,
    MaximumOp: np.maximum,
    MinimumOp: np.minimum,
    MultiplyOp: np.multiply,
}

ELEMENTWISE: Mapping[str, ArrayRule] = {**UNARY, **BINARY}


def _reduce(op: ReduceOp) -> ArrayRule | None:
    """A sum, product, maximum or minimum along dimensions; floats in f64, then rounded. None for other bodies."""
    rule, dimensions = REDUCED.get(body_op(op.body)), tuple(array_values(op.dimensions))
    if rule is None or len(op.operands) != 2:
        return None

    def run(array: Array, start: Array) -> Array:
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        return np.asarray(rule.reduce(wide, dimensions, wide.dtype, initial=start.item())).astype(array.dtype)

    return run


def _convert(op: ConvertOp) -> Callable[[Array], Array]:
    dtype = element_dtype(element_of(op.result))
    return lambda operand: operand.astype(dtype)


def function_of(op: Operation) -> ArrayRule | None:
    """What an op computes of the arrays of its operands, real or integer; None for ops that have no rule."""
    if (move := MOVEMENT.get(type(op))) is not None:
        return move(op)
    if isinstance(op, ReduceOp):
        return _reduce(op)
    if isinstance(op, ConvertOp):
        return _convert(op)
    return ELEMENTWISE.get(function_name(op)) if isinstance(op, UnaryOp | BinaryOp) else None
