"""Values that no kernel of their own computes: loop nests, each of as many ops as can be one.

From an op backwards: an op joins the nest where nothing outside needs its result and nothing is computed twice, or
where computing it twice costs next to nothing (`_is_cheap`). A nest has one reduction at most; what it sums may be
computed inside of it, and what is computed from the sum too.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.elementwise import ELEMENTWISE, MOVEMENT, split_dimensions
from zeropoint.codegen.select.expression import CONTRACTION_OPS, Axis, Expression, Rule, scalar_type
from zeropoint.codegen.select.movement import make_concatenation, make_pad, make_reshape, reshaped
from zeropoint.codegen.select.reductions import CONTRACTIONS
from zeropoint.codegen.select.selection import Selection
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

EXPRESSIONS: dict[type[Operation], Rule] = {**MOVEMENT, **ELEMENTWISE, **CONTRACTIONS}
"""Ops that can be a part of a nest."""


def _make_cast(selection: Selection, op: StorageCastOp, target: View | None) -> View:
    """The same bytes under another type."""
    return selection.view(op.input)


def _make_iota(selection: Selection, op: hlo.IotaOp, target: View | None) -> View:
    scalar_type(op.output)
    shape, dimension = shape_of(op.output), int(op.iota_dimension.value.data)
    counts = np.arange(shape[dimension], dtype=element_dtype(element_of(op.output)))
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
    hlo.IotaOp: _make_iota,
    hlo.PadOp: make_pad,
    hlo.ReshapeOp: _make_reshape,
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
        expression = Expression(selection, members_of(selection, op), shape, EXPRESSIONS)
        place = tuple(Axis(0, ((d, 1),)) for d in range(len(shape)))
        result = expression.value(value, place)
        nest, operands = expression.nest(result, target)
        selection.graph.call(describe(op), nest, operands, [target], elementwise=expression.elementwise)
    return target


def members_of(selection: Selection, root: Operation) -> frozenset[Operation]:
    """The ops that become one nest with `root`."""
    counts = {_count(root.results[0])}
    reduction = root if isinstance(root, CONTRACTION_OPS) else None
    if isinstance(root, hlo.ReduceOp):
        counts.add(_count(root.operands[0]))
    members = {root}
    # The latest first: the users of an op come before it.
    found = {operand.op for operand in root.operands if isinstance(operand, OpResult)}
    waiting = [(-selection.order[op], op.name) for op in found]
    by_order = {-selection.order[op]: op for op in found}
    heapq.heapify(waiting)
    while waiting:
        op = by_order[heapq.heappop(waiting)[0]]
        if not _can_join(selection, op) or selection.constant(op.results[0]) is not None:
            continue
        result = op.results[0]
        alone = all(use.operation in members for use in result.uses)
        if isinstance(op, CONTRACTION_OPS):
            if reduction is not None or not result.has_one_use() or not alone or _count(result) not in counts:
                continue
            reduction = op
            if isinstance(op, hlo.ReduceOp):
                counts.add(_count(op.operands[0]))
        elif not _is_cheap(selection, op) and not (alone and _count(result) in counts):
            continue
        members.add(op)
        for operand in op.operands:
            key = -selection.order[operand.op] if isinstance(operand, OpResult) else 0
            if isinstance(operand, OpResult) and key not in by_order:
                by_order[key] = operand.op
                heapq.heappush(waiting, (key, operand.op.name))
    return frozenset(members)


def _can_join(selection: Selection, op: Operation) -> bool:
    if type(op) not in EXPRESSIONS or len(op.results) != 1 or selection.has(op.results[0]):
        return False
    if isinstance(op, hlo.ReshapeOp):
        return split_dimensions(shape_of(op.operand), shape_of(op.result)) is not None
    return not _is_grouped(op)


def _is_grouped(op: Operation) -> bool:
    """Convolutions whose nest has to know the output channels as one loop: they are the end of a nest."""
    return isinstance(op, hlo.ConvolutionOp) and int(op.feature_group_count.value.data) > 1


def _is_cheap(selection: Selection, op: Operation) -> bool:
    """Ops that a nest computes again rather than read: movement, widening, the difference to a number."""
    if type(op) in MOVEMENT or isinstance(op, hlo.UniformDequantizeOp):
        return True
    if isinstance(op, hlo.ConvertOp):
        return _size(op.operand) <= _size(op.result)
    if isinstance(op, hlo.SubtractOp):
        return isinstance(op.lhs, OpResult) and _widens(op.lhs.op) and selection.splat(op.rhs) is not None
    return False


def _widens(op: Operation) -> bool:
    return isinstance(op, hlo.ConvertOp) and _size(op.operand) <= _size(op.result)


def _size(value: SSAValue) -> int:
    return element_dtype(element_of(value)).itemsize


def _count(value: SSAValue) -> int:
    return math.prod(shape_of(value))
