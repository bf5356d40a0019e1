"""Data movement on values of any element type. The functions emit no op if no element moves."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from zeropoint.export.tosa.builder import FunctionBuilder, TosaValue, integers
from zeropoint.ir.stablehlo.arrays import PaddingPairs
from zeropoint.ir.tensors import Array


def reshaped(f: FunctionBuilder, value: TosaValue, shape: Sequence[int]) -> TosaValue:
    """RESHAPE: the same elements in another shape."""
    if value.shape == tuple(shape):
        return value
    return f.op("reshape", [value, f.sizes(shape)], shape, value.element)


def transposed(f: FunctionBuilder, value: TosaValue, order: Sequence[int]) -> TosaValue:
    """TRANSPOSE: dimension i of the result is dimension `order[i]` of the value."""
    if list(order) == sorted(order):
        return value
    shape = [value.shape[axis] for axis in order]
    return f.op("transpose", [value], shape, value.element, {"perms": integers(order, "i32")})


def sliced(f: FunctionBuilder, value: TosaValue, starts: Sequence[int], ends: Sequence[int]) -> TosaValue:
    """SLICE: the elements from `starts` up to `ends`, exclusive."""
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    if value.shape == tuple(sizes):
        return value
    return f.op("slice", [value, f.sizes(starts), f.sizes(sizes)], sizes, value.element)


def padded(f: FunctionBuilder, value: TosaValue, pairs: PaddingPairs, fill: Array) -> TosaValue:
    """PAD with a number of the value's element type. Negative amounts crop."""
    starts = [max(-low, 0) for low, _ in pairs]
    ends = [size - max(-high, 0) for size, (_, high) in zip(value.shape, pairs, strict=True)]
    value = sliced(f, value, starts, ends)
    amounts = [max(amount, 0) for pair in pairs for amount in pair]
    if not any(amounts):
        return value
    shape = [size + low + high for size, low, high in zip(value.shape, amounts[::2], amounts[1::2], strict=True)]
    return f.op("pad", [value, f.sizes(amounts), f.constant(fill.reshape(1))], shape, value.element)


def spread(f: FunctionBuilder, value: TosaValue, axis: int, step: int, fill: Array) -> TosaValue:
    """The value with step - 1 elements `fill` inserted between neighbours along a dimension."""
    shape = value.shape
    if step == 1 or shape[axis] == 1:
        return value
    apart = reshaped(f, value, (prod(shape[:axis]), shape[axis], 1, prod(shape[axis + 1 :])))
    wide = padded(f, apart, [(0, 0), (0, 0), (0, step - 1), (0, 0)], fill)
    joined = reshaped(f, wide, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    ends = (*shape[:axis], (shape[axis] - 1) * step + 1, *shape[axis + 1 :])
    return sliced(f, joined, [0] * len(shape), ends)


def every(f: FunctionBuilder, value: TosaValue, axis: int, step: int, fill: Array) -> TosaValue:
    """Every step-th element along a dimension, starting with the first. TOSA's SLICE has no strides."""
    size = value.shape[axis]
    if step == 1 or size == 0:
        return value
    before, behind, count = value.shape[:axis], value.shape[axis + 1 :], -(-size // step)
    pairs = [(0, count * step - size if dimension == axis else 0) for dimension in range(len(value.shape))]
    whole = reshaped(f, padded(f, value, pairs, fill), (prod(before), count, step, prod(behind)))
    first = sliced(f, whole, [0] * 4, (*whole.shape[:2], 1, whole.shape[3]))
    return reshaped(f, first, (*before, count, *behind))


def repeated(f: FunctionBuilder, value: TosaValue, shape: Sequence[int]) -> TosaValue:
    """TILE: dimensions of size 1 repeated to `shape`, which has the rank of the value."""
    if value.shape == tuple(shape):
        return value
    counts = [wanted // size if size else 1 for wanted, size in zip(shape, value.shape, strict=True)]
    return f.op("tile", [value, f.sizes(counts)], shape, value.element)


def concatenated(f: FunctionBuilder, values: Sequence[TosaValue], axis: int) -> TosaValue:
    """CONCAT."""
    if len(values) == 1:
        return values[0]
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    return f.op("concat", values, shape, values[0].element, {"axis": f"{axis} : i32"})


def reversed_along(f: FunctionBuilder, value: TosaValue, axes: Sequence[int]) -> TosaValue:
    """REVERSE along each of the dimensions."""
    for axis in axes:
        value = f.op("reverse", [value], value.shape, value.element, {"axis": f"{axis} : i32"})
    return value


def reduced(f: FunctionBuilder, op: str, value: TosaValue, axes: Sequence[int]) -> TosaValue:
    """REDUCE_* along each of the dimensions, which keep size 1."""
    for axis in axes:
        shape = [1 if dimension == axis else size for dimension, size in enumerate(value.shape)]
        value = f.op(op, [value], shape, value.element, {"axis": f"{axis} : i32"})
    return value


def taken(f: FunctionBuilder, value: TosaValue, axis: int, indices: TosaValue) -> TosaValue:
    """GATHER of whole slices along a dimension, by i32 indices of any shape, which must be in range.

    In the result, the dimensions of the indices replace this dimension. TOSA's operator takes values [batch, size,
    channels] and indices [batch, positions].
    """
    before, size, behind = value.shape[:axis], value.shape[axis], value.shape[axis + 1 :]
    count = prod(indices.shape)
    rows, batch = reshaped(f, indices, (1, count)), prod(before)
    image = reshaped(f, value, (batch, size, prod(behind)))
    rows = repeated(f, rows, (batch, count))
    made = f.op("gather", [image, rows], (batch, count, prod(behind)), value.element)
    return reshaped(f, made, (*before, *indices.shape, *behind))
