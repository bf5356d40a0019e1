"""The tail of a contraction: ops that join its kernel, if no other op uses the intermediate value.

%z = weighted_sum %y, %other            for i8
%z = clamp(add(add(multiply(%y, factor), bias), %other))  for floats; each op is optional, and the clamp may come
                                                           before %other
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.values import Values
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ClampOp, MaximumOp, MinimumOp, MultiplyOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import CommonScaleSum


@dataclass(frozen=True)
class Tail:
    """The tail of a contraction. `result` is its last value, and `other` is an added value.

    `factor` and `bias` have one number per channel. `bounds_last` is set if the clamp comes after the addition of
    `other`. `sum` is the addition of stored integers. `first` is set if `other` is the first operand of `sum`.
    """

    result: SSAValue
    factor: Array | None = None
    bias: Array | None = None
    bounds: tuple[float, float] | None = None
    bounds_last: bool = False
    other: SSAValue | None = None
    sum: CommonScaleSum | None = None
    first: bool = False


def summed(values: Values, op: RequantizeOp) -> Tail:
    """The tail with a weighted sum of two operands, if it is the only user and the other operand is computed."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, WeightedSumOp) or len(user.inputs) != 2:
        return Tail(op.result)
    other: SSAValue = user.inputs[1 - uses[0].index]
    bytes_ = all(element_dtype(element_of(value)) == np.int8 for value in (other, user.result))
    # The result of the contraction may have 16 bits, which are never stored.
    if not bytes_ or user.sum.accumulator_width > 32 or not values.has(other) or shape_of(other) != shape_of(op.result):
        return Tail(op.result)
    return Tail(user.result, other=other, sum=user.sum, first=uses[0].index == 1)


def followed(values: Values, value: SSAValue, *, residual: bool) -> Tail:
    """The longest tail of a float value. Without `residual`, the tail adds no other value."""
    tail = Tail(value)
    while (longer := _longer(values, tail)) is not None and (residual or longer.other is None):
        tail = longer
    return tail


def _longer(values: Values, tail: Tail) -> Tail | None:
    """The tail extended by the next op; None if that op cannot join."""
    uses = list(tail.result.uses)
    op = uses[0].operation if len(uses) == 1 else None
    if isinstance(op, AddOp):
        return _added(values, tail, op, op.operands[1 - uses[0].index])
    if isinstance(op, MultiplyOp):
        return _multiplied(values, tail, op, op.operands[1 - uses[0].index])
    if op is None or tail.bounds is not None:
        return None
    bounds = _bounds(values, op, uses[0].index)
    if bounds is None:
        return None
    return replace(tail, result=op.results[0], bounds=bounds, bounds_last=tail.other is not None)


def _added(values: Values, tail: Tail, op: AddOp, other: SSAValue) -> Tail | None:
    bias = _per_channel(values, other)
    if bias is not None and tail.bias is None and tail.bounds is None and tail.other is None:
        return replace(tail, result=op.result, bias=bias)
    if tail.other is None and values.has(other) and values.constant(other) is None:
        return replace(tail, result=op.result, other=other)
    return None


def _multiplied(values: Values, tail: Tail, op: MultiplyOp, other: SSAValue) -> Tail | None:
    factor = _per_channel(values, other)
    if factor is None or any(part is not None for part in (tail.factor, tail.bias, tail.bounds, tail.other)):
        return None
    return replace(tail, result=op.result, factor=factor)


def _per_channel(values: Values, value: SSAValue) -> Array | None:
    """The numbers of a constant that is broadcast along the channels; None for other values."""
    op = defining_op(value)
    if not isinstance(op, BroadcastInDimOp):
        return None
    along = array_values(op.broadcast_dimensions) == (values.innermost(value),)
    return values.constant(op.operand) if along else None


def _bounds(values: Values, op: Operation, index: int) -> tuple[float, float] | None:
    """The constant bounds to which an op clamps its operand `index`; None if it does not clamp."""
    if isinstance(op, ClampOp) and index == 1:
        low, high = values.splat(op.min), values.splat(op.max)
        return None if low is None or high is None else (low, high)
    if isinstance(op, MaximumOp | MinimumOp):
        bound = values.splat(op.operands[1 - index])
        if bound is not None:
            return (bound, math.inf) if isinstance(op, MaximumOp) else (-math.inf, bound)
    return None
