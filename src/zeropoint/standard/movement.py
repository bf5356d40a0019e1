"""Data movement in the tensor dialect: reshape, transpose, pad, slice, concatenate, reverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.ops import TransposeOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.standard.arithmetic import Element
from zeropoint.standard.element_types import scalar_type
from zeropoint.standard.lowering import Standard
from zeropoint.standard.scalars import GenericBody

Extents = Sequence[int]
Padding = tuple[Extents, Extents, Extents]
"""Elements before, after and between those of a tensor, for each dimension."""


def _segments(given: Extents, wanted: Extents) -> list[tuple[list[int], list[int]]]:
    """Split two shapes into the smallest groups of neighbouring dimensions with equal numbers of elements."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(given) or j < len(wanted):
        left, right = ([i], [j]) if i < len(given) and j < len(wanted) else ([], [])
        i, j = i + len(left), j + len(right)
        while math.prod(given[k] for k in left) != math.prod(wanted[k] for k in right):
            if math.prod(given[k] for k in left) < math.prod(wanted[k] for k in right):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        if left and right:
            found.append((left, right))
            continue
        # The remaining dimensions of a shape have size 1. They belong to the last group.
        rest = ([*range(i, len(given))], [*range(j, len(wanted))])
        i, j = len(given), len(wanted)
        left, right = found.pop() if found else (left, right)
        found.append((left + rest[0], right + rest[1]))
    return found


def _reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr[Any]]]:
    return ArrayAttr([ArrayAttr([IntegerAttr(dim, i64) for dim in group]) for group in groups])


def reshaped(std: Standard, value: SSAValue, shape: Extents) -> SSAValue:
    """A standard tensor in another shape, by `tensor.collapse_shape` and `tensor.expand_shape`."""
    given, element = shape_of(value), element_of(value)
    if tuple(given) == tuple(shape):
        return value
    if 0 in given:
        return std.empty(shape, element)
    segments = _segments(given, shape)
    if not given or not shape:
        segments = []
    middle = [math.prod(given[dim] for dim in left) for left, _ in segments]
    if tuple(middle) != tuple(given):
        collapsed = tensor.CollapseShapeOp.create(
            operands=[value],
            result_types=[TensorType(element, middle)],
            properties={"reassociation": _reassociation([left for left, _ in segments])},
        )
        value = std.insert(collapsed).results[0]
    if tuple(middle) != tuple(shape):
        groups = _reassociation([right for _, right in segments])
        value = std.insert(tensor.ExpandShapeOp(value, [], groups, shape, TensorType(element, shape))).results[0]
    return value


def padded(std: Standard, value: SSAValue, number: Callable[[], SSAValue], padding: Padding) -> SSAValue:
    """A standard tensor with a number around and between its elements; negative padding removes elements."""
    low, high, interior = padding
    if any(interior):
        value = _spread(std, value, number, interior)
    before, after = ([max(count, 0) for count in side] for side in (low, high))
    if any(before) or any(after):
        value = _surrounded(std, value, number, before, after)
    if any(count < 0 for count in (*low, *high)):
        offsets = [max(-count, 0) for count in low]
        sizes = [size - o - max(-h, 0) for size, o, h in zip(shape_of(value), offsets, high, strict=True)]
        value = _sliced(std, value, offsets, sizes, [1] * len(sizes))
    return value


def _surrounded(
    std: Standard, value: SSAValue, number: Callable[[], SSAValue], low: Extents, high: Extents
) -> SSAValue:
    """`tensor.pad`."""
    shape = [b + size + a for b, size, a in zip(low, shape_of(value), high, strict=True)]
    block = Block(arg_types=[IndexType()] * len(shape))
    block.add_op(tensor.YieldOp(number()))
    made = TensorType(element_of(value), shape)
    return std.insert(tensor.PadOp(value, [], [], Region(block), low, high, made)).results[0]


def _spread(std: Standard, value: SSAValue, number: Callable[[], SSAValue], interior: Extents) -> SSAValue:
    """Insert a number between elements: dimension n becomes n x 1, is padded to n x (1 + interior), and merged again.

    A strided `tensor.insert_slice` would be one op, but IREE 3.13 miscompiles it.
    """
    given = shape_of(value)
    kept = [max(n + (n - 1) * between, 0) for n, between in zip(given, interior, strict=True)]
    if 0 in given:
        return std.empty(kept, element_of(value))
    columns = [size for n, between in zip(given, interior, strict=True) for size in ((n, 1) if between else (n,))]
    after = [extra for between in interior for extra in ((0, between) if between else (0,))]
    wide = _surrounded(std, reshaped(std, value, columns), number, [0] * len(after), after)
    merged = reshaped(std, wide, [n * (between + 1) for n, between in zip(given, interior, strict=True)])
    return _sliced(std, merged, [0] * len(kept), kept, [1] * len(kept))


def _inserted(std: Standard, value: SSAValue, into: SSAValue, offsets: Extents, strides: Extents) -> SSAValue:
    properties = {
        "static_offsets": DenseArrayBase.from_list(i64, offsets),
        "static_sizes": DenseArrayBase.from_list(i64, shape_of(value)),
        "static_strides": DenseArrayBase.from_list(i64, strides),
    }
    op = tensor.InsertSliceOp.build(operands=[value, into, [], [], []], result_types=[into.type], properties=properties)
    return std.insert(op).results[0]


def _sliced(std: Standard, value: SSAValue, offsets: Extents, sizes: Extents, strides: Extents) -> SSAValue:
    if 0 in sizes:
        return std.empty(sizes, element_of(value))  # an offset at the end is out of bounds
    made = TensorType(element_of(value), sizes)
    return std.insert(tensor.ExtractSliceOp(value, offsets, sizes, strides, made)).results[0]


def lower_reshape(std: Standard, op: hlo.ReshapeOp) -> SSAValue:
    """`tensor.collapse_shape`, `tensor.expand_shape`, or both."""
    return reshaped(std, std.value(op.operand), shape_of(op.result))


def lower_transpose(std: Standard, op: hlo.TransposeOp) -> SSAValue:
    """`linalg.transpose`."""
    value = std.value(op.operand)
    init = std.empty(shape_of(op.result), element_of(value))
    permutation = DenseArrayBase.from_list(i64, array_values(op.permutation, ()))
    return std.insert(TransposeOp(value, init, permutation, init.type)).results[0]


def lower_pad(std: Standard, op: hlo.PadOp) -> SSAValue:
    """`tensor.pad`, and padding between elements (`_spread`)."""
    edges = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
    low, high, interior = (array_values(found, ()) for found in edges)
    return padded(std, std.value(op.operand), lambda: std.scalar(op.padding_value), (low, high, interior))


def lower_slice(std: Standard, op: hlo.SliceOp) -> SSAValue:
    """`tensor.extract_slice`."""
    offsets, strides = array_values(op.start_indices, ()), array_values(op.strides, ())
    return _sliced(std, std.value(op.operand), offsets, shape_of(op.result), strides)


def lower_concatenate(std: Standard, op: hlo.ConcatenateOp) -> SSAValue:
    """`tensor.insert_slice` of each operand."""
    dim = int(op.dimension.value.data)
    result = std.empty(shape_of(op.result), scalar_type(op, op.result))
    offsets = [0] * len(shape_of(op.result))
    for operand in op.inputs:
        if 0 in shape_of(operand):
            continue  # an offset at the end is out of bounds
        result = _inserted(std, std.value(operand), result, offsets, [1] * len(offsets))
        offsets[dim] += shape_of(operand)[dim]
    return result


def lower_reverse(std: Standard, op: hlo.ReverseOp) -> SSAValue:
    """A generic that reads dimension i of size n at n - 1 - i."""
    shape, reversed_dims = shape_of(op.result), array_values(op.dimensions, ())
    body = GenericBody(len(shape), op.location)
    results = tuple(
        AffineExpr.dimension(dim) * -1 + (size - 1) if dim in reversed_dims else AffineExpr.dimension(dim)
        for dim, size in enumerate(shape)
    )
    body.end(body.read(std.value(op.operand), AffineMap(len(shape), 0, results)))
    return std.generic(body, shape, scalar_type(op, op.result))


def lower_iota(std: Standard, op: hlo.IotaOp) -> SSAValue:
    """A generic that yields the index of a loop."""
    return numbered(std, shape_of(op.output), int(op.iota_dimension.value.data), scalar_type(op, op.output))


def numbered(std: Standard, shape: Extents, dim: int, element: Element) -> SSAValue:
    """A tensor whose elements are their indices along a dimension."""
    body = GenericBody(len(shape), std.location)
    index = body.index(dim)
    wide = IntegerType(64) if not isinstance(element, IntegerType) else element
    found = body.value(arith.IndexCastOp(index, wide))
    if not isinstance(element, IntegerType):
        found = body.value(arith.SIToFPOp(found, element))
    body.end(found)
    return std.generic(body, shape, element)
