"""Products of two activations, requantized: what attention computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import Buffer, Space, View, matrix_view, row_major
from zeropoint.codegen.kernels.arithmetic import Floats, Integers
from zeropoint.codegen.kernels.batched import Batched, Packing
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.select.contraction import output_of, select_requantize
from zeropoint.codegen.select.copies import copy, fill, reshaped
from zeropoint.codegen.select.floats import select_float_product
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


def select_product(selection: Selection, op: DotGeneralOp) -> None:
    """A product of floats: of two activations, or what `select_float_product` knows."""
    if selection.constant(op.rhs) is None:
        return _batched_floats(selection, op)
    return select_float_product(selection, op)


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


@dataclass(frozen=True)
class _Dimensions:
    """The dimensions of a product of two, each with one that is summed over and one that stays."""

    batch: tuple[int, ...]
    other_batch: tuple[int, ...]
    term: int
    other_term: int
    row: int
    column: int

    @staticmethod
    def of(op: DotGeneralOp) -> _Dimensions:
        """Raises NoKernel for another product."""
        dims = op.dot_dimension_numbers.data
        batch, other_batch = dims.lhs_batching_dimensions, dims.rhs_batching_dimensions
        terms, other_terms = dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions
        rows = [d for d in range(len(shape_of(op.lhs))) if d not in (*batch, *terms)]
        columns = [d for d in range(len(shape_of(op.rhs))) if d not in (*other_batch, *other_terms)]
        if [len(part) for part in (terms, rows, columns)] != [1, 1, 1]:
            raise NoKernel
        return _Dimensions(batch, other_batch, terms[0], other_terms[0], rows[0], columns[0])


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
    copy(selection.graph, op, view, made)
    return made


def _target(selection: Selection, op: RequantizeOp | DotGeneralOp) -> View:
    """A new view for the result; where a transpose alone uses it, so that the transposed value lies in order."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    rank = len(shape_of(op.result))
    allocate = selection.floats_for if isinstance(op, DotGeneralOp) else selection.bytes_for
    if isinstance(user, TransposeOp) and shape_of(op.result)[-1] % 16 == 0:
        order = array_values(user.permutation)
        if order[-1] == rank - 1 and not selection.is_image(user.result):
            whole = allocate(op, user.result)
            place = [order.index(d) for d in range(rank)]
            shape, strides = (tuple(part[n] for n in place) for part in (whole.shape, whole.strides))
            view = replace(whole, shape=shape, strides=strides)
            selection.bind(op.result, view)
            return view
    return allocate(op, op.result)


def _batched(selection: Selection, op: RequantizeOp, product: DotGeneralOp) -> None:
    if element_dtype(element_of(op.result)) != np.int8 or selection.is_image(op.result):
        raise NoKernel
    (lhs, zero), (rhs, other_zero) = (_centred(selection, value) for value in (product.lhs, product.rhs))
    dims = _Dimensions.of(product)
    if other_zero:
        raise NoKernel
    term, other_term, row, column = dims.term, dims.other_term, dims.row, dims.column
    terms, channels = shape_of(lhs)[term], shape_of(rhs)[column]
    if terms % 4 or not np.prod(shape_of(op.result)):
        raise NoKernel
    output = output_of(selection, op, channels)
    left = _readable(selection, op, lhs, (term,))
    if left.strides[term] != 1:
        raise NoKernel
    right = _readable(selection, op, rhs, (other_term, column))
    target = _target(selection, op)
    batch = len(dims.batch)
    isa, count = selection.isa, left.shape[row]
    reach = np.full(channels, terms * 255 * 128, np.int64)
    epilogue = Epilogue.of(output, reach, isa)
    if not epilogue.has_room(output.multiplier, reach):
        raise NoKernel
    arithmetic = Integers(2 if isa.weight_limit < 128 else 1, epilogue)
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
        tuple(right.strides[d] for d in dims.other_batch),
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
        tuple(left.strides[d] for d in dims.batch),
        packing.weight_steps(isa),
        target.strides[:batch],
    )
    operations = 2 * terms * int(np.prod(target.shape, dtype=np.int64))
    selection.graph.call(describe(op), batched, [left, packed], [target], operations=operations)


def _batched_floats(selection: Selection, op: DotGeneralOp) -> None:
    if any(element_dtype(element_of(v)) != np.float32 for v in (op.lhs, op.rhs, op.result)):
        raise NoKernel
    dims = _Dimensions.of(op)
    if selection.is_image(op.result) or not np.prod(shape_of(op.result)) or selection.output(op.result) is not None:
        raise NoKernel
    left, right = looked_through(selection, op.lhs), looked_through(selection, op.rhs)
    if left.strides[dims.term] != left.itemsize:
        made = matrix_view(left.shape, left.dtype, left.itemsize)
        if dims.term != len(left.shape) - 1:
            raise NoKernel
        copy(selection.graph, op, left, made)
        left = made
    target, isa = _target(selection, op), selection.isa
    batch, terms, channels = len(dims.batch), left.shape[dims.term], right.shape[dims.column]
    pixel, out_pixel, count = left.strides[dims.row], target.strides[batch], left.shape[dims.row]
    kernel = Contraction(
        rows=1,
        width=count,
        in_row=count * pixel,
        in_pixel=pixel,
        out_row=count * out_pixel,
        out_pixel=out_pixel,
        runs=(0,),
        groups=terms,
        vectors=-(-channels // isa.width),
        arithmetic=Floats(),
    )
    sizes = target.shape[:batch]
    packed, steps = _packed_floats(selection, op, kernel, right, dims)
    batched = Batched(kernel, sizes, tuple(left.strides[d] for d in dims.batch), steps, target.strides[:batch])
    operations = 2 * terms * int(np.prod(target.shape, dtype=np.int64))
    selection.graph.call(describe(op), batched, [left, packed], [target], operations=operations)


def _packed_floats(
    selection: Selection, op: DotGeneralOp, kernel: Contraction, right: View, dims: _Dimensions
) -> tuple[View, tuple[int, ...]]:
    """The second operand as weights of every batch, with biases of 0; the steps of batches."""
    isa, sizes = selection.isa, tuple(right.shape[d] for d in dims.other_batch)
    terms, channels = right.shape[dims.other_term], right.shape[dims.column]
    places: list[tuple[int, int, int]] = []  # first channel, vectors, place of a group
    size = 0
    for part in kernel.columns(isa).parts:
        for first in part.places():
            places.append((first * isa.width, part.size, size))
            size += kernel.group_bytes(isa, part.size)
    steps = row_major(sizes, size)
    buffer = Buffer(Space.ARENA, size * int(np.prod(sizes, dtype=np.int64)))
    whole = View(buffer, 0, (*sizes, terms, channels), (*steps, 0, 4), right.dtype)
    order = (*dims.other_batch, dims.other_term, dims.column)
    given = replace(right, shape=whole.shape, strides=tuple(right.strides[d] for d in order), halo=None)
    for first, count, place in places:
        row = count * isa.bytes
        some = (*sizes, terms, min(channels - first, count * isa.width))
        source = replace(given, shape=some).moved(first * given.strides[-1])
        copy(selection.graph, op, source, View(buffer, place, some, (*steps, row, 4), right.dtype))
        biases = (*sizes, count * isa.width)
        fill(selection.graph, op, 0.0, View(buffer, place + terms * row, biases, (*steps, 4), right.dtype))
    return whole, steps
