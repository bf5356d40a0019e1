"""Ops that order elements: `ArgMax`, `ArgMin`, `TopK`, `Hardmax`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, ValueConverter, axis_of
from zeropoint.frontend.onnx.reductions import highest, lowest
from zeropoint.ir.stablehlo import (
    AndOp,
    CompareOp,
    ComparisonDirection,
    ComparisonType,
    ComparisonTypeAttr,
    MaximumOp,
    MinimumOp,
    ReturnOp,
    SelectOp,
    SortOp,
)
from zeropoint.ir.tensors import element_of, shape_of


def _extreme_position(value: SSAValue, axis: int, greatest: bool, last: bool, build: Builder) -> SSAValue:
    """The positions of the maxima or minima along a dimension, which is removed. Of equal elements, the first or last.

    %0 = stablehlo.reduce(%x) applies stablehlo.maximum, broadcast back
    %1 = stablehlo.compare EQ, %x, %0
    %2 = stablehlo.select %1, %iota, %size
    %3 = stablehlo.reduce(%2) applies stablehlo.minimum
    """
    shape = shape_of(value)
    kept = [dimension for dimension in range(len(shape)) if dimension != axis]
    extreme = build.reduce(value, [axis], lowest(value), MaximumOp) if greatest else (
        build.reduce(value, [axis], highest(value), MinimumOp)
    )  # fmt: skip
    same = build.compare(ComparisonDirection.EQ, value, build.broadcast(extreme, value.type, kept))
    positions = build.iota(shape, axis, i64)
    if last:
        return build.reduce(build.apply(SelectOp, same, positions, build.splat(0, positions)), [axis], 0, MaximumOp)
    end = shape[axis] - 1
    return build.reduce(build.apply(SelectOp, same, positions, build.splat(end, positions)), [axis], end, MinimumOp)


def arg_extreme(greatest: bool) -> ValueConverter:
    """A converter for `ArgMax` or `ArgMin`: see `_extreme_position`."""

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        value = node.operand(0)
        shape = shape_of(value)
        axis = axis_of(node.integer("axis", 0), len(shape))
        if not shape[axis]:
            raise NodeError(f"found 0 elements along axis {axis}, expected 1 or more")
        found = _extreme_position(value, axis, greatest, bool(node.integer("select_last_index", 0)), build)
        if not node.integer("keepdims", 1):
            return found
        return build.reshape(found, [1 if dimension == axis else size for dimension, size in enumerate(shape)])

    return convert


def hardmax(node: OnnxNode, build: Builder) -> SSAValue:
    """`Hardmax`: 1 at the first maximum, 0 elsewhere. Before opset 13, over all dimensions from `axis` on."""
    value = node.operand(0)
    shape = shape_of(value)
    axis = axis_of(node.integer("axis", -1 if node.opset >= 13 else 1), len(shape))
    flat = value
    if node.opset < 13:
        flat, axis = build.reshape(value, [int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))]), 1
    position = _extreme_position(flat, axis, True, False, build)
    kept = [dimension for dimension in range(len(shape_of(flat))) if dimension != axis]
    positions = build.iota(shape_of(flat), axis, i64)
    same = build.compare(ComparisonDirection.EQ, positions, build.broadcast(position, positions.type, kept))
    return build.reshape(build.apply(SelectOp, same, build.splat(1, flat), build.splat(0, flat)), shape)


def comparator(elements: list[Attribute], direction: ComparisonDirection) -> Region:
    """The comparator of a `sort` by its first input. Floats are in total order, which includes NaN, but -0 equals 0."""
    block = Block(arg_types=[TensorType(element, []) for element in elements for _ in range(2)])
    op = CompareOp(block.args[0], block.args[1], direction)
    if not isinstance(elements[0], AnyFloat):
        block.add_ops([op, ReturnOp([op.result])])
        return Region(block)
    op.properties["compare_type"] = ComparisonTypeAttr(ComparisonType.TOTALORDER)
    differ = CompareOp(block.args[0], block.args[1], ComparisonDirection.NE)
    both = AndOp(op.result, differ.result)
    block.add_ops([op, differ, both, ReturnOp([both.result])])
    return Region(block)


def top_k(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`TopK`: see `sorted_first`."""
    value = node.operand(0)
    axis = axis_of(node.integer("axis", -1), len(shape_of(value)))
    counts = node.integers_at(1, "k") if node.opset >= 10 else (node.integer("k", 0),)
    largest = bool(node.integer("largest", 1))
    node.integer("sorted", 1)  # read and ignored: with sorted = 0, any order is valid
    return sorted_first(value, axis, counts, i64, build, largest=largest)


def sorted_first(
    value: SSAValue, axis: int, counts: Sequence[int] | None, index: Attribute, build: Builder, *, largest: bool
) -> tuple[SSAValue, ...]:
    """A stable `sort` of the values with their positions, of type `index`, then a `slice` of the first k."""
    shape = shape_of(value)
    if counts is None or len(counts) != 1 or not 0 <= counts[0] <= shape[axis]:
        raise NodeError(f"found k {counts}, expected 0 to {shape[axis]}")
    direction = ComparisonDirection.GT if largest else ComparisonDirection.LT
    positions = build.iota(shape, axis, index)
    sort = SortOp([value, positions], comparator([element_of(value), index], direction), dimension=axis, stable=True)
    build.insert(sort)
    return tuple(part_of(result, axis, range(counts[0]), build) for result in sort.results_)
