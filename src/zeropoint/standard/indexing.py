"""Ops that read or write elements at computed indices: gather, dynamic_slice, dynamic_update_slice.

Each is a `linalg.generic` over the result, whose body extracts one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.lowering import Standard
from zeropoint.standard.scalars import GenericBody, extended


def lower_gather(std: Standard, op: hlo.GatherOp) -> SSAValue:
    """A generic that extracts the element at the start index plus the offset.

    The start is clamped so that the slice is in bounds.
    """
    dims, shape = op.dimension_numbers.data, shape_of(op.result)
    sizes, given = array_values(op.slice_sizes, ()), shape_of(op.operand)
    body = GenericBody(len(shape), op.location)
    batch = [dim for dim in range(len(shape)) if dim not in dims.offset_dims]
    dropped = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    kept = [dim for dim in range(len(given)) if dim not in dropped]
    offsets = dict(zip(kept, dims.offset_dims, strict=True))
    starts = std.value(op.start_indices)
    position: list[SSAValue] = []
    for dim, (size, whole) in enumerate(zip(sizes, given, strict=True)):
        parts: list[SSAValue] = []
        if dim in dims.start_index_map:
            component = dims.start_index_map.index(dim)
            coordinates = [AffineExpr.dimension(each) for each in batch]
            if dims.index_vector_dim < len(shape_of(starts)):
                coordinates.insert(dims.index_vector_dim, AffineExpr.constant(component))
            found = body.read(starts, AffineMap(body.rank, 0, tuple(coordinates)))
            parts.append(_inside(body, found, whole - size, unsigned=is_unsigned(op.start_indices)))
        if dim in dims.operand_batching_dims:
            axis = dims.start_indices_batching_dims[dims.operand_batching_dims.index(dim)]
            parts.append(body.index(batch[axis - (axis > dims.index_vector_dim)]))
        if dim in offsets and size > 1:
            parts.append(body.index(offsets[dim]))
        total = parts[0] if parts else body.number(0, IndexType())
        position.append(body.value(arith.AddiOp(parts[0], parts[1])) if len(parts) == 2 else total)
    table = std.value(op.operand)
    body.end(body.value(tensor.ExtractOp(table, position, element_of(table))))
    return std.generic(body, shape, scalar_type(op, op.result))


def _wide(body: GenericBody, start: SSAValue, *, unsigned: bool) -> SSAValue:
    """A start index in 64 bits."""
    narrow = cast("IntegerType", start.type).bitwidth < i64.bitwidth
    return body.value(extended(start, i64, unsigned=unsigned)) if narrow else start


def bounded(body: GenericBody, start: SSAValue, size: int, *, unsigned: bool) -> SSAValue:
    """A start index of type index. Unsigned ones are limited to `size`, so that the signed index is not negative."""
    start = _wide(body, start, unsigned=unsigned)
    if unsigned:
        start = body.value(arith.MinUIOp(start, body.number(size, i64)))
    return body.value(arith.IndexCastOp(start, IndexType()))


def _inside(body: GenericBody, start: SSAValue, last: int, *, unsigned: bool) -> SSAValue:
    """A start index, clamped to 0..last, of type index."""
    start = _wide(body, start, unsigned=unsigned)
    if unsigned:
        clamped = arith.MinUIOp(start, body.number(last, i64))
    else:
        clamped = arith.MinSIOp(body.value(arith.MaxSIOp(start, body.number(0, i64))), body.number(last, i64))
    return body.value(arith.IndexCastOp(body.value(clamped), IndexType()))


def _starts(
    std: Standard, body: GenericBody, indices: Sequence[SSAValue], shapes: tuple[Sequence[int], Sequence[int]]
) -> list[SSAValue]:
    """The start of a slice in each dimension, clamped so that the slice is in bounds.

    `shapes` are those of the tensor and the slice.
    """
    found: list[SSAValue] = []
    for start, whole, size in zip(indices, *shapes, strict=True):
        number = body.read(std.value(start), AffineMap(body.rank, 0, ()))
        found.append(_inside(body, number, whole - size, unsigned=is_unsigned(start)))
    return found


def lower_dynamic_slice(std: Standard, op: hlo.DynamicSliceOp) -> SSAValue:
    """A generic that extracts the element at the start index plus the index of the loops."""
    shape = shape_of(op.result)
    body, given = GenericBody(len(shape), op.location), std.value(op.operand)
    starts = _starts(std, body, op.start_indices, (shape_of(given), shape))
    position = [body.value(arith.AddiOp(start, body.index(dim))) for dim, start in enumerate(starts)]
    body.end(body.value(tensor.ExtractOp(given, position, element_of(given))))
    return std.generic(body, shape, scalar_type(op, op.result))


def lower_dynamic_update_slice(std: Standard, op: hlo.DynamicUpdateSliceOp) -> SSAValue:
    """A generic that selects the update's element inside the slice and the operand's element outside."""
    shape = shape_of(op.result)
    body, update = GenericBody(len(shape), op.location), std.value(op.update)
    kept = body.read(std.value(op.operand))
    starts = _starts(std, body, op.start_indices, (shape, shape_of(update)))
    position: list[SSAValue] = []
    inside: SSAValue | None = None
    for dim, (start, size) in enumerate(zip(starts, shape_of(update), strict=True)):
        offset = body.value(arith.SubiOp(body.index(dim), start))
        # One unsigned comparison tests both bounds: a negative offset is above every size.
        fits = body.value(arith.CmpiOp(offset, body.number(size, IndexType()), "ult"))
        inside = fits if inside is None else body.value(arith.AndIOp(inside, fits))
        position.append(body.value(arith.SelectOp(fits, offset, body.number(0, IndexType()))))
    if 0 in shape_of(update):
        return std.value(op.operand)
    found = body.value(tensor.ExtractOp(update, position, element_of(update)))
    body.end(found if inside is None else body.value(arith.SelectOp(inside, found, kept)))
    return std.generic(body, shape, scalar_type(op, op.result))
