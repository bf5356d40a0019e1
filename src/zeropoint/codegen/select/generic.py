"""Values that no kernel of their own computes: loop nests and rows, each of as many ops as can be one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.copies import reshaped
from zeropoint.codegen.select.expression import Expression, scalar_type
from zeropoint.codegen.select.joining import EXPRESSIONS, members_of
from zeropoint.codegen.select.movement import make_concatenation, make_pad, make_reshape
from zeropoint.codegen.select.placement import make_dynamic_update_slice, make_scatter
from zeropoint.codegen.select.rows import select_rows
from zeropoint.codegen.select.selection import Selection
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def _make_cast(selection: Selection, op: StorageCastOp, target: View | None) -> View:
    """The same bytes under another type."""
    return selection.view(op.input)


def _make_iota(selection: Selection, op: hlo.IotaOp, target: View | None) -> View:
    scalar_type(op.output)
    shape, dimension = shape_of(op.output), int(op.iota_dimension.value.data)
    counts = np.arange(shape[dimension]).astype(element_dtype(element_of(op.output)))
    ones = [shape[dimension] if d == dimension else 1 for d in range(len(shape))]
    return selection.constant_view(np.ascontiguousarray(np.broadcast_to(counts.reshape(ones), shape)))


def _make_reshape(selection: Selection, op: hlo.ReshapeOp, target: View | None) -> View:
    """The operand is computed into the result's place where a loop nest computes it for this alone."""
    source = op.operand
    alone = isinstance(source, OpResult) and type(source.op) in EXPRESSIONS and source.has_one_use()
    if alone and not selection.has(source):
        whole = target or selection.target(op, op.result)
        place = reshaped(whole, shape_of(source))
        if place is not None:
            materialize(selection, source, place)
            return whole
        target = whole
    return make_reshape(selection, op, target)


MAKERS: dict[type[Operation], Callable[[Selection, Any, View | None], View]] = {
    StorageCastOp: _make_cast,
    hlo.ConcatenateOp: make_concatenation,
    hlo.DynamicUpdateSliceOp: make_dynamic_update_slice,
    hlo.IotaOp: _make_iota,
    hlo.PadOp: make_pad,
    hlo.ReshapeOp: _make_reshape,
    hlo.ScatterOp: make_scatter,
}
"""Ops that move whole values."""


def materialize(selection: Selection, value: SSAValue, target: View | None = None) -> View:
    """Append the steps that compute a value, to `target` where that is given; where it is.

    Raises CodegenError where an op has no native form.
    """
    assert isinstance(value, OpResult)
    op = value.op
    array = selection.constant(value)
    if array is not None:
        return selection.constant_view(array)
    target = target or selection.output(value)
    if type(op) in MAKERS:
        return MAKERS[type(op)](selection, op, target)
    if type(op) not in EXPRESSIONS or len(op.results) != 1:
        raise CodegenError(f"{describe(op)}: found no native form of it; run it with the interpreter")
    target = target or selection.target(op, value)
    shape = shape_of(value)
    if math.prod(shape):
        if select_rows(selection, op, target):
            return target
        expression = Expression(selection, members_of(selection, op), shape, EXPRESSIONS)
        result = expression.value(value, expression.every)
        nest, operands = expression.nest(result, target)
        selection.graph.call(describe(op), nest, operands, [target], elementwise=expression.elementwise)
    return target
