"""The ranges of data movement. Bounds move with the elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType
from xdsl.ir import Operation

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.numerics.arrays import IntArray
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.interval import LARGEST, Interval, joined, of_array


def constant(ranges: Ranges, op: hlo.ConstantOp) -> Interval:
    """The array's own bounds, found once for all constants of an array: the steps of a recurrence share theirs."""
    if op.value not in ranges.constants:
        array = ranges.array(op.output)
        assert array is not None
        ranges.constants[op.value] = of_array(array)
    return ranges.constants[op.value]


def broadcast_in_dim(ranges: Ranges, op: hlo.BroadcastInDimOp | hlo.DynamicBroadcastInDimOp) -> Interval:
    """Dimension d of the operand is dimension `broadcast_dimensions[d]` of the result."""
    dims, rank = array_values(op.broadcast_dimensions), len(shape_of(op.result))
    order = sorted(range(len(dims)), key=dims.__getitem__)

    def moved(bounds: IntArray) -> IntArray:
        shape = [1] * rank
        for d, size in zip(dims, bounds.shape, strict=True):
            shape[d] = size
        return bounds.transpose(order).reshape(shape)

    return ranges.of(op.operand).moved(moved)


def reshape(ranges: Ranges, op: hlo.ReshapeOp) -> Interval:
    """The same elements in order.

    For a large tensor, bounds per channel are kept if the channels are one dimension of the result.
    """
    source, before, after = ranges.of(op.operand), shape_of(op.operand), shape_of(op.result)
    if prod(before) <= LARGEST:
        return source.moved(lambda bounds: np.broadcast_to(bounds, before).reshape(after))
    if source.axis is not None:
        outer, size = prod(before[: source.axis]), before[source.axis]
        for axis in range(len(after)):
            if (prod(after[:axis]), after[axis]) == (outer, size):
                return Interval.channels(source.low.reshape(-1), source.high.reshape(-1), axis, len(after))
    return source.hull


def transpose(ranges: Ranges, op: hlo.TransposeOp) -> Interval:
    """Dimension d of the result is dimension permutation[d] of the operand."""
    permutation = array_values(op.permutation)
    return ranges.of(op.operand).moved(lambda bounds: bounds.transpose(permutation))


def slice_(ranges: Ranges, op: hlo.SliceOp) -> Interval:
    """Every stride-th element from start to limit, along each dimension."""
    numbers = (array_values(numbers) for numbers in (op.start_indices, op.limit_indices, op.strides))
    parts = [slice(*part) for part in zip(*numbers, strict=True)]

    def taken(bounds: IntArray) -> IntArray:
        return bounds[tuple(part if size > 1 else slice(None) for part, size in zip(parts, bounds.shape, strict=True))]

    return ranges.of(op.operand).moved(taken)


def reverse(ranges: Ranges, op: hlo.ReverseOp) -> Interval:
    """The bounds, reversed along some dimensions."""
    return ranges.of(op.operand).moved(lambda bounds: np.flip(bounds, array_values(op.dimensions)))


def concatenate(ranges: Ranges, op: hlo.ConcatenateOp) -> Interval:
    """The bounds of the parts, in order along a dimension.

    One pair along it if it is dynamic, or there are too many.
    """
    parts, axis = [ranges.of(value) for value in op.inputs], int(op.dimension.value.data)
    if all(part.low.ndim == 0 or part.low.shape[axis] == 1 for part in parts):
        return joined(parts)
    rank, sizes = len(shape_of(op.result)), [shape_of(value)[axis] for value in op.inputs]
    common = np.broadcast_shapes(*(part.without([axis]).low.shape for part in parts), (1,) * rank)
    if DYNAMIC_INDEX in sizes or prod(common) * sum(sizes) > LARGEST:
        return joined(part.without([axis]) for part in parts)
    shapes = [(*common[:axis], size, *common[axis + 1 :]) for size in sizes]
    lows = [np.broadcast_to(part.low, shape) for part, shape in zip(parts, shapes, strict=True)]
    highs = [np.broadcast_to(part.high, shape) for part, shape in zip(parts, shapes, strict=True)]
    return Interval.made(np.concatenate(lows, axis), np.concatenate(highs, axis))


def pad(ranges: Ranges, op: hlo.PadOp) -> Interval:
    """The operand's bounds joined with the padding value's, with one pair along padded dimensions."""
    source = ranges.of(op.operand)
    amounts = [array_values(a) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)]
    padded = [axis for axis in range(len(amounts[0])) if any(amount[axis] for amount in amounts)]
    return source.without(padded).join(ranges.of(op.padding_value).hull) if padded else source


def first_operand(ranges: Ranges, op: Operation) -> Interval:
    """One pair of bounds for all elements of the first operand."""
    return ranges.of(op.operands[0]).hull


def same(ranges: Ranges, op: Operation) -> Interval:
    """The bounds of the operand."""
    return ranges.of(op.operands[0])


def either(ranges: Ranges, op: Any) -> Interval:
    """One pair of bounds for the elements of the first two operands."""
    return ranges.of(op.operands[0]).hull.join(ranges.of(op.operands[1]).hull)


def storage_cast(ranges: Ranges, op: StorageCastOp) -> Interval:
    """The storage range of a quantized type that is cast to integers, or all of the result type if that is smaller.

    Integers that are cast to a quantized type and back keep their range, because nothing clamps them to the storage.
    """
    kind, made = element_of(op.input), element_of(op.result)
    whole = type_interval(made)
    before = op.input.owner
    if isinstance(before, StorageCastOp) and element_of(before.input) == made:
        return ranges.of(before.input)
    if not isinstance(kind, UniformQuantizedType) or not isinstance(made, IntegerType):
        return whole
    stored = Interval.of(kind.storage.minimum, kind.storage.maximum)
    # An unsigned number above the signed range has the bits of a negative one.
    return stored if stored.within(whole.least, whole.greatest) else whole


def iota(ranges: Ranges, op: hlo.IotaOp) -> Interval:
    """0, 1, 2, ... along a dimension."""
    del ranges
    axis = int(op.iota_dimension.value.data)
    shape = shape_of(op.output)
    counts = np.arange(shape[axis])
    return Interval.channels(counts, counts, axis, len(shape))
