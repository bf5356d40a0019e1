"""Reductions over whole dimensions.

Source: the ONNX operator specification. `axes` is an attribute in older opsets and an input in newer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f64, i1
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, ValueConverter, axes_of
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    AndOp,
    ConvertOp,
    DivideOp,
    ExponentialOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OrOp,
    SqrtOp,
    SubtractOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element


def lowest(value: SSAValue) -> float:
    """The smallest number of the value's element type: -inf, the smallest integer, or false."""
    if element_of(value) == i1:
        return 0
    return -np.inf if isinstance(element_of(value), AnyFloat) else int(_integers(value).min)


def highest(value: SSAValue) -> float:
    """The largest number of the value's element type: inf, the largest integer, or true."""
    if element_of(value) == i1:
        return 1
    return np.inf if isinstance(element_of(value), AnyFloat) else int(_integers(value).max)


def _integers(value: SSAValue) -> np.iinfo[Any]:
    dtype = element_dtype(element_of(value))
    if dtype.kind not in "iu":
        raise NodeError(f"found elements of type {element_of(value)}, expected numbers")
    return np.iinfo(dtype)


def demand_floats(value: SSAValue) -> None:
    """Raise NodeError if the elements are not floats, because a mean of integers would be rounded."""
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
        raise NodeError(
            f"found a mean of no elements, expected sizes of 1 or more in {list(shape_of(value))}; ONNX's reference "
            f"gives NaN for it, onnxruntime 0"
        )
    return build.insert(DivideOp(total, build.splat(float(count), total)))


def _axes(node: OnnxNode, value: SSAValue, input_since: int) -> tuple[int, ...]:
    """The dimensions to reduce. Without axes, these are all dimensions, or none if `noop_with_empty_axes` is set."""
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
) -> ValueConverter:
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


def transformed_sum(
    before: Callable[[SSAValue, Builder], SSAValue], after: Callable[[SSAValue, Builder], SSAValue]
) -> ValueConverter:
    """A converter to a sum of transformed elements; the sum is transformed, too.

    Without axes and with `noop_with_empty_axes`, the elements are transformed but not summed.
    """

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        value = node.operand(0)
        axes = _axes(node, value, 18)
        return after(_summed(before(value, build), axes, node, build), build)

    return convert


def _summed(value: SSAValue, axes: Sequence[int], node: OnnxNode, build: Builder) -> SSAValue:
    """The sum over `axes`, which are kept with size 1 unless the node drops them."""
    if not axes:
        return value
    total = build.reduce(value, axes, 0)
    return build.reshape(total, kept_shape(value, axes)) if node.integer("keepdims", 1) else total


def _same(value: SSAValue, build: Builder) -> SSAValue:
    return value


def _square(value: SSAValue, build: Builder) -> SSAValue:
    return build.insert(MultiplyOp(value, value))


def _in_floats(op: Callable[[SSAValue], Operation]) -> Callable[[SSAValue, Builder], SSAValue]:
    """A function of floats, applied to integers by conversions to f64 and back."""

    def apply(value: SSAValue, build: Builder) -> SSAValue:
        element = element_of(value)
        if isinstance(element, AnyFloat):
            return build.insert(op(value))
        wide = build.insert(ConvertOp(value, with_element(value, f64)))
        return build.insert(ConvertOp(build.insert(op(wide)), value.type))

    return apply


def reduce_log_sum_exp(node: OnnxNode, build: Builder) -> SSAValue:
    """`ReduceLogSumExp`: m + log(sum(exp(x - m))) with the maximum m.

    If all elements are -inf, or there are none, the result is -inf. Without axes and with `noop_with_empty_axes`, the
    elements are returned unchanged.
    """
    value = node.operand(0)
    demand_floats(value)
    axes = _axes(node, value, 18)
    if not axes:
        return value
    greatest = build.reduce(value, axes, -np.inf, MaximumOp)
    if 0 in (shape_of(value)[axis] for axis in axes):
        return build.reshape(greatest, kept_shape(value, axes)) if node.integer("keepdims", 1) else greatest
    # The maximum is made finite, because -inf - -inf would be NaN.
    least = build.splat(float(np.finfo(element_dtype(element_of(value))).min), greatest)
    greatest = build.reshape(build.insert(MaximumOp(greatest, least)), kept_shape(value, axes))
    spread = build.broadcast(greatest, value.type, list(range(len(shape_of(value)))))
    powers = build.insert(ExponentialOp(build.insert(SubtractOp(value, spread))))
    total = _summed(powers, axes, node, build)
    return build.insert(AddOp(build.insert(LogOp(total)), build.reshape(greatest, list(shape_of(total)))))


reduce_l1 = transformed_sum(lambda value, build: build.insert(AbsOp(value)), _same)
reduce_l2 = transformed_sum(_square, _in_floats(SqrtOp))
reduce_sum_square = transformed_sum(_square, _same)
reduce_log_sum = transformed_sum(_same, _in_floats(LogOp))
