"""Softmax, layer norm and their like as one kernel each: reductions over one dimension and what is around them.

From an op backwards, as for a nest, with the dimension of every value that the row runs along:

    %max = reduce(%x) maximum across [3]            : 1x12x128       one number a row
    %shifted = subtract %x, broadcast(%max)         : 1x12x128x128   along dimension 3
    %e = exponential %shifted
    %sum = reduce(%e) add across [3]
    %y = uniform_quantize(divide %e, broadcast(%sum))                one kernel, which reads x once and writes y
"""

from __future__ import annotations

import heapq

from xdsl.ir import Operation, OpResult

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.rows import STACK
from zeropoint.codegen.select.elementwise import split_dimensions
from zeropoint.codegen.select.expression import CONTRACTION_OPS, RowExpression, reduced_row
from zeropoint.codegen.select.joining import EXPRESSIONS, can_join, count_of, is_cheap
from zeropoint.codegen.select.selection import Selection
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

LEAST = 8
"""Elements of a row from which on it is worth being one: of shorter ones, vectors run over several rows."""


def select_rows(selection: Selection, op: Operation, target: View) -> bool:
    """Append the step that computes an op's result to `target`; False where rows are not what it is made of."""
    value = op.results[0]
    shape = shape_of(value)
    row = next((d for d, size in enumerate(shape) if size >= LEAST and target.strides[d] == target.itemsize), None)
    if row is None or isinstance(op, CONTRACTION_OPS):
        return False
    members = _members(selection, op, row)
    if not any(isinstance(member, hlo.ReduceOp) for member in members):
        return False
    expression = RowExpression(selection, members, shape, EXPRESSIONS, row)
    result = expression.value(value, expression.every)
    kernel, operands = expression.rows(result, target)
    if kernel.stack() > STACK:
        return False
    selection.graph.call(describe(op), kernel, operands, [target], elementwise=expression.elementwise)
    return True


def _members(selection: Selection, root: Operation, row: int) -> frozenset[Operation]:
    """The ops that become one kernel with `root`, whose rows are along dimension `row`."""
    size = shape_of(root.results[0])[row]
    counts = {count_of(root.results[0]), count_of(root.results[0]) // size}
    members = {root}
    along: dict[Operation, int | None] = {root: row}
    places: dict[int, Operation] = {}
    waiting: list[int] = []

    def follow(op: Operation) -> None:
        for index, operand in enumerate(op.operands):
            if not isinstance(operand, OpResult):
                continue
            found = _row_of_operand(op, index, along[op])
            known = along.setdefault(operand.op, found)
            place = -selection.order[operand.op]
            if found == -1 or known != found:
                along[operand.op] = -1  # along another dimension, or along several: it is read
            elif place not in places:
                places[place] = operand.op
                heapq.heappush(waiting, place)

    follow(root)
    while waiting:  # the latest first: the users of an op come before it
        op = places[heapq.heappop(waiting)]
        if along[op] == -1 or not can_join(selection, op) or selection.constant(op.results[0]) is not None:
            continue
        if isinstance(op, CONTRACTION_OPS) and (along[op] is not None or reduced_row(op) != size):
            continue
        alone = all(use.operation in members for use in op.results[0].uses) and count_of(op.results[0]) in counts
        if alone or is_cheap(selection, op):
            members.add(op)
            follow(op)
    return frozenset(members)


def _row_of_operand(op: Operation, index: int, row: int | None) -> int | None:
    """Along which dimension of an operand the row runs that runs along `row` of the result.

    None where it does not vary with the row, -1 where it does in another way.
    """
    if isinstance(op, hlo.ReduceOp):
        return array_values(op.dimensions)[0] if index == 0 else None
    shape = shape_of(op.operands[index])
    if row is None or not shape:
        return None
    if isinstance(op, hlo.BroadcastInDimOp):
        dimensions = array_values(op.broadcast_dimensions)
        return dimensions.index(row) if row in dimensions and shape[dimensions.index(row)] > 1 else None
    if isinstance(op, hlo.TransposeOp):
        return array_values(op.permutation)[row]
    if isinstance(op, hlo.ReshapeOp):
        result = shape_of(op.result)
        groups = split_dimensions(shape, result) or []
        return next((d for d, group in enumerate(groups) if row in group and shape[d] == result[row]), -1)
    if isinstance(op, hlo.SliceOp | hlo.ReverseOp):
        return row if shape[row] == shape_of(op.results[0])[row] and isinstance(op, hlo.SliceOp) else -1
    if shape != shape_of(op.results[0]):
        return None if index else -1  # parameters: one a channel, a scalar, a table
    return row
