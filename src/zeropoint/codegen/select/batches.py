"""Products of two activations, requantized: what attention computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import Buffer, Space, View, matrix_view
from zeropoint.codegen.kernels.arithmetic import Integers
from zeropoint.codegen.kernels.batched import Batched, Packing
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.select.contraction import output_of, select_requantize
from zeropoint.codegen.select.movement import copy, reshaped
from zeropoint.codegen.select.selection import BYTE, NoKernel, Selection, owner_of
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import ConvertOp, DotGeneralOp, ReshapeOp, SubtractOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def select_requantized(selection: Selection, op: RequantizeOp) -> None:
    """A product of two activations, or what `select_requantize` knows."""
    source = owner_of(op.accumulator)
    if isinstance(source, DotGeneralOp) and selection.constant(source.rhs) is None:
        return _batched(selection, op, source)
    return select_requantize(selection, op)


def _centred(selection: Selection, value: SSAValue) -> tuple[SSAValue, int]:
    """(x, zero) of `convert(x) - zero` for a computed x of bytes."""
    op, zero = owner_of(value), 0
    if isinstance(op, SubtractOp):
        number = selection.splat(op.rhs)
        if number is None:
            raise NoKernel
        op, zero = owner_of(op.lhs), int(number)
    x = op.operand if isinstance(op, ConvertOp) else value
    if element_dtype(element_of(x)) != np.int8 or selection.constant(x) is not None or not -128 <= zero <= 127:
        raise NoKernel
    return x, zero


def looked_through(selection: Selection, value: SSAValue) -> View:
    """A value where it lies, without moving what transposes and reshapes only view differently."""
    op = owner_of(value)
    if not selection.has(value) and isinstance(op, TransposeOp):
        view, order = looked_through(selection, op.operand), array_values(op.permutation)
        shape, strides = (tuple(part[d] for d in order) for part in (view.shape, view.strides))
        return replace(view, shape=shape, strides=strides, halo=None)
    if not selection.has(value) and isinstance(op, ReshapeOp):
        found = reshaped(looked_through(selection, op.operand), shape_of(value))
        if found is not None:
            return found
    return selection.view(value)


def _readable(selection: Selection, op: Operation, value: SSAValue, dimensions: tuple[int, ...]) -> View:
    """A view of activation bytes, adjacent in one of the dimensions, whose words of four may be read."""
    view = looked_through(selection, value)
    inner = next((d for d in dimensions if view.strides[d] == 1), None)
    others = [step for d, step in enumerate(view.strides) if d != inner and view.shape[d] > 1]
    if view.activations and inner is not None and not any(n % 4 for n in (*others, view.offset, view.buffer.size)):
        return view
    made = matrix_view(view.shape, BYTE, 16)
    copy(selection, op, view, made)
    return made


def _target(selection: Selection, op: RequantizeOp) -> View:
    """A new view for the result; where a transpose alone uses it, so that the transposed value lies in order."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    rank = len(shape_of(op.result))
    if isinstance(user, TransposeOp) and shape_of(op.result)[-1] % 16 == 0:
        order = array_values(user.permutation)
        if order[-1] == rank - 1 and not selection.is_image(user.result):
            whole = selection.bytes_for(op, user.result)
            place = [order.index(d) for d in range(rank)]
            shape, strides = (tuple(part[n] for n in place) for part in (whole.shape, whole.strides))
            view = replace(whole, shape=shape, strides=strides)
            selection.bind(op.result, view)
            return view
    return selection.bytes_for(op, op.result)


def _batched(selection: Selection, op: RequantizeOp, product: DotGeneralOp) -> None:
    if element_dtype(element_of(op.result)) != np.int8 or selection.is_image(op.result):
        raise NoKernel
    dims = product.dot_dimension_numbers.data
    (lhs, zero), (rhs, other_zero) = (_centred(selection, value) for value in (product.lhs, product.rhs))
    used = [
        (*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions),
        (*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions),
    ]
    free = [[d for d in range(len(shape_of(v))) if d not in u] for v, u in zip((lhs, rhs), used, strict=True)]
    if other_zero or len(dims.lhs_contracting_dimensions) != 1 or [len(one) for one in free] != [1, 1]:
        raise NoKernel
    (term,), (other_term,), (row,), (column,) = (
        dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions, free[0], free[1],
    )  # fmt: skip
    terms, channels = shape_of(lhs)[term], shape_of(rhs)[column]
    if terms % 4 or not np.prod(shape_of(op.result)):
        raise NoKernel
    output = output_of(selection, op, channels)
    left = _readable(selection, op, lhs, (term,))
    if left.strides[term] != 1:
        raise NoKernel
    right = _readable(selection, op, rhs, (other_term, column))
    target = _target(selection, op)
    batch = len(dims.lhs_batching_dimensions)
    isa, count = selection.isa, left.shape[row]
    reach = np.full(channels, terms * 255 * 128, np.int64)
    arithmetic = Integers(2 if isa.weight_limit < 128 else 1, Epilogue.of(output, reach, isa))
    kernel = Contraction(
        rows=1,
        width=count,
        in_row=count * left.strides[row],
        in_pixel=left.strides[row],
        out_row=count * target.strides[batch],
        out_pixel=target.strides[batch],
        runs=(0,),
        groups=terms // 4,
        vectors=-(-channels // isa.width),
        arithmetic=arithmetic,
    )
    sizes = target.shape[:batch]
    packing = Packing(
        kernel,
        channels,
        right.strides[other_term],
        right.strides[column],
        zero,
        sizes,
        tuple(right.strides[d] for d in dims.rhs_batching_dimensions),
    )
    groups = list(kernel.groups_of(isa, channels))
    nothing = np.zeros((terms // 4, 4, channels), np.int8), np.zeros(channels, np.int64)
    template = packing.template(isa, arithmetic.pack(isa, groups, *nothing, output))
    size = packing.batch_bytes(isa) * int(np.prod(sizes, dtype=np.int64))
    packed = View(Buffer(Space.ARENA, size), 0, (size,), (1,), np.dtype(np.uint8))
    selection.graph.call(describe(op), packing, [right], [packed], selection.graph.parameters(template))
    batched = Batched(
        kernel,
        sizes,
        tuple(left.strides[d] for d in dims.lhs_batching_dimensions),
        packing.weight_steps(isa),
        target.strides[:batch],
    )
    operations = 2 * terms * int(np.prod(target.shape, dtype=np.int64))
    selection.graph.call(describe(op), batched, [left, packed], [target], operations=operations)
