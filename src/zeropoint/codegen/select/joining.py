"""Which ops become one loop nest.

From an op backwards: an op joins the nest where nothing outside needs its result and nothing is computed twice, or
where computing it twice costs next to nothing (`is_cheap`). A nest has one reduction at most; what it sums may be
computed inside of it, and what is computed from the sum too.
"""

from __future__ import annotations

import heapq
import math

from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.select.elementwise import ELEMENTWISE, MOVEMENT, split_dimensions
from zeropoint.codegen.select.expression import CONTRACTION_OPS, Rule
from zeropoint.codegen.select.reductions import CONTRACTIONS
from zeropoint.codegen.select.selection import Selection
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

EXPRESSIONS: dict[type[Operation], Rule] = {**MOVEMENT, **ELEMENTWISE, **CONTRACTIONS}
"""Ops that can be a part of a nest."""


def members_of(selection: Selection, root: Operation) -> frozenset[Operation]:
    """The ops that become one nest with `root`."""
    counts = {count_of(root.results[0])}
    reduction = root if isinstance(root, CONTRACTION_OPS) else None
    if isinstance(root, hlo.ReduceOp):
        counts.add(count_of(root.operands[0]))
    members = {root}
    # The latest first: the users of an op come before it.
    found = {operand.op for operand in root.operands if isinstance(operand, OpResult)}
    waiting = [(-selection.order[op], op.name) for op in found]
    by_order = {-selection.order[op]: op for op in found}
    heapq.heapify(waiting)
    while waiting:
        op = by_order[heapq.heappop(waiting)[0]]
        if not can_join(selection, op) or selection.constant(op.results[0]) is not None:
            continue
        result = op.results[0]
        alone = all(use.operation in members for use in result.uses)
        if isinstance(op, CONTRACTION_OPS):
            if reduction is not None or not result.has_one_use() or not alone or count_of(result) not in counts:
                continue
            reduction = op
            if isinstance(op, hlo.ReduceOp):
                counts.add(count_of(op.operands[0]))
        elif not is_cheap(selection, op) and not (alone and count_of(result) in counts):
            continue
        members.add(op)
        for operand in op.operands:
            key = -selection.order[operand.op] if isinstance(operand, OpResult) else 0
            if isinstance(operand, OpResult) and key not in by_order:
                by_order[key] = operand.op
                heapq.heappush(waiting, (key, operand.op.name))
    return frozenset(members)


def can_join(selection: Selection, op: Operation) -> bool:
    """Whether an op can be a part of a nest, and has not been computed yet."""
    if type(op) not in EXPRESSIONS or len(op.results) != 1 or selection.has(op.results[0]):
        return False
    if isinstance(op, hlo.ReshapeOp):
        return split_dimensions(shape_of(op.operand), shape_of(op.result)) is not None
    return not _is_grouped(op)


def _is_grouped(op: Operation) -> bool:
    """Convolutions whose nest has to know the output channels as one loop: they are the end of a nest."""
    return isinstance(op, hlo.ConvolutionOp) and int(op.feature_group_count.value.data) > 1


def is_cheap(selection: Selection, op: Operation) -> bool:
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


def count_of(value: SSAValue) -> int:
    """The number of elements."""
    return math.prod(shape_of(value))
