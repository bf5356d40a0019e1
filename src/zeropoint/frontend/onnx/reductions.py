"""Reductions over whole dimensions.

Source: the ONNX operator specification. `axes` is an attribute in older opsets and an input in newer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axes_of
from zeropoint.ir.stablehlo import AddOp, AndOp, DivideOp, MaximumOp, MinimumOp, MultiplyOp, OrOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

Convert = Callable[[OnnxNode, Builder], SSAValue]


def lowest(value: SSAValue) -> float:
    """The least number of the value's element type: -inf, the least integer, or false."""
    if element_of(value) == i1:
        return 0
    return -np.inf if isinstance(element_of(value), AnyFloat) else int(_integers(value).min)


def highest(value: SSAValue) -> float:
    """The greatest number of the value's element type: inf, the greatest integer, or true."""
    if element_of(value) == i1:
        return 1
    return np.inf if isinstance(element_of(value), AnyFloat) else int(_integers(value).max)


def _integers(value: SSAValue) -> np.iinfo[Any]:
    dtype = element_dtype(element_of(value))
    if dtype.kind not in "iu":
        raise NodeError(f"found elements of type {element_of(value)}, expected numbers")
    return np.iinfo(dtype)


def demand_floats(value: SSAValue) -> None:
    """Raise NodeError if the elements are not floats: a mean of integers would be rounded."""
    if not isinstance(element_of(value), AnyFloat):
        raise NodeError(f"found elements of type {element_of(value)}, expected floats")


def _zero(value: SSAValue) -> float:
    return 0.0


def _one(value: SSAValue) -> float:
    return 1.0


def kept_shape(value: SSAValue, axes: Sequence[int]) -> list[int]:
    """The shape after a reduction of `axes` that keeps them with size 1."""
    return [1 if axis in axes else size for axis, size in enumerate(shape_of(value))]


def mean_of(value: SSAValue, axes: Sequence[int], keep: bool, build: Builder) -> SSAValue:
    """The mean over `axes`: `reduce` with `add`, `reshape` if they are kept with size 1, `divide` by the count.

    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2, 3]
    %1 = stablehlo.reshape %0
    %2 = stablehlo.broadcast_in_dim %count, dims = []
    %3 = stablehlo.divide %1, %2
    """
    demand_floats(value)
    total = build.reduce(value, axes, 0.0)
    if keep:
        total = build.reshape(total, kept_shape(value, axes))
    count = prod(shape_of(value)[axis] for axis in axes)
    if not count:
        raise NodeError(f"found a mean of no elements, expected sizes of 1 or more in {list(shape_of(value))}")
    return build.insert(DivideOp(total, build.splat(float(count), total)))


def _axes(node: OnnxNode, value: SSAValue, input_since: int) -> tuple[int, ...]:
    """The dimensions to reduce. Without axes, all dimensions are reduced, unless the node's `noop_with_empty_axes` is
    set."""
    rank = len(shape_of(value))
    axes, none_means_none = node.axes(input_since), node.integer("noop_with_empty_axes", 0)
    if not axes:
        return () if none_means_none else tuple(range(rank))
    return axes_of(axes, rank)


def reduce_mean(node: OnnxNode, build: Builder) -> SSAValue:
    """`ReduceMean`: see `mean_of`."""
    value = node.operand(0)
    axes = _axes(node, value, 18)
    return mean_of(value, axes, bool(node.integer("keepdims", 1)), build) if axes else value


def either_boolean(
    numbers: Callable[[SSAValue, SSAValue], Operation], booleans: Callable[[SSAValue, SSAValue], Operation]
) -> Callable[[SSAValue, SSAValue], Operation]:
    """`numbers` if the elements are numbers, `booleans` if they are i1."""

    def op(lhs: SSAValue, rhs: SSAValue) -> Operation:
        return (booleans if element_of(lhs) == i1 else numbers)(lhs, rhs)

    return op


def reduction(
    op: Callable[[SSAValue, SSAValue], Operation], initial: Callable[[SSAValue], float], input_since: int
) -> Convert:
    """A converter to `reduce` with `op`, then `reshape` if the dimensions are kept with size 1."""

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        value = node.operand(0)
        axes = _axes(node, value, input_since)
        if not axes:
            return value
        result = build.reduce(value, axes, initial(value), op)
        return build.reshape(result, kept_shape(value, axes)) if node.integer("keepdims", 1) else result

    return convert


reduce_sum = reduction(AddOp, _zero, 13)
reduce_max = reduction(either_boolean(MaximumOp, OrOp), lowest, 18)
reduce_min = reduction(either_boolean(MinimumOp, AndOp), highest, 18)
reduce_prod = reduction(MultiplyOp, _one, 18)
