"""The ops of kernels without weights, in f32 and with gradients: sums, means, clamps and data movement.

A row of `RULES` computes the result of an op from its operands and returns a function from the gradient of the result
to those of the operands, in their order. An op without a row has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of

Pullback = Callable[[Array], Sequence[Array]]
GradientRule = Callable[[Any, Sequence[Array]], tuple[Array, Pullback]]


def _add(op: AddOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    return given[0] + given[1], lambda error: (error, error)


def _subtract(op: SubtractOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    return given[0] - given[1], lambda error: (error, -error)


def _multiply(op: MultiplyOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    return given[0] * given[1], lambda error: (error * given[1], error * given[0])


def _divide(op: DivideOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    made = given[0] / given[1]
    return made, lambda error: (error / given[1], -error * made / given[1])


def _maximum(op: MaximumOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    first = given[0] > given[1]
    return np.maximum(*given), lambda error: (error * first, error * ~first)


def _minimum(op: MinimumOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    first = given[0] < given[1]
    return np.minimum(*given), lambda error: (error * first, error * ~first)


def _clamp(op: ClampOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    low, value, high = given
    under, over = value < low, value > high

    def back(error: Array) -> tuple[Array, Array, Array]:
        # A bound may be a scalar next to a tensor.
        parts = error * under, error * ~(under | over), error * over
        return tuple(part if part.shape == one.shape else part.sum() for part, one in zip(parts, given, strict=True))  # pyright: ignore[reportReturnType] (three operands)

    return np.clip(value, low, high), back


def _reshape(op: ReshapeOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    (value,) = given
    return value.reshape(shape_of(op.result)), lambda error: (error.reshape(value.shape),)


def _transpose(op: TransposeOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    order = tuple(op.permutation.get_values())
    return given[0].transpose(order), lambda error: (error.transpose(np.argsort(order)),)


def _broadcast(op: BroadcastInDimOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    (value,) = given
    shape, dims = shape_of(op.result), tuple(op.broadcast_dimensions.get_values())
    sizes = [1] * len(shape)
    for dim, size in zip(dims, value.shape, strict=True):
        sizes[dim] = size
    # Dimensions may change their order.
    turned = value.transpose(np.argsort(dims)).reshape(sizes)
    repeated = tuple(dim for dim, size in enumerate(sizes) if size != shape[dim])

    def back(error: Array) -> tuple[Array]:
        total = error.sum(axis=repeated, keepdims=True)
        return (total.reshape([sizes[dim] for dim in sorted(dims)]).transpose(np.argsort(np.argsort(dims))),)

    return np.broadcast_to(turned, shape), back


def _sum(op: ReduceOp, given: Sequence[Array]) -> tuple[Array, Pullback]:
    value, start = given
    dims = tuple(op.dimensions.get_values())

    def back(error: Array) -> tuple[Array, Array]:
        return np.broadcast_to(np.expand_dims(error, dims), value.shape), error.sum()

    return value.sum(axis=dims) + start, back


RULES: Mapping[type[Operation], GradientRule] = {
    AddOp: _add,
    SubtractOp: _subtract,
    MultiplyOp: _multiply,
    DivideOp: _divide,
    MaximumOp: _maximum,
    MinimumOp: _minimum,
    ClampOp: _clamp,
    ReshapeOp: _reshape,
    TransposeOp: _transpose,
    BroadcastInDimOp: _broadcast,
    ReduceOp: _sum,
}


def has_gradient(op: Operation) -> bool:
    """Whether there is a rule for an op. Reductions have one only for sums of one value."""
    if isinstance(op, ReduceOp):
        return len(op.inputs) == 1 and [type(inner) for inner in op.body.block.ops][:-1] == [AddOp]
    return type(op) in RULES
