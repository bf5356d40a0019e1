"""Kernels of rows, such as softmax and layer normalization: reductions over one dimension and the ops around them.

The match goes backwards from an op, as for a nest. It tracks the dimension of each value along which rows run:

    %max = reduce(%x) maximum across [3]            : 1x12x128       one number per row
    %shifted = subtract %x, broadcast(%max)         : 1x12x128x128   along dimension 3
    %e = exponential %shifted
    %sum = reduce(%e) add across [3]
    %y = uniform_quantize(divide %e, broadcast(%sum))                one kernel, which reads x once and writes y
"""

from __future__ import annotations

from xdsl.ir import Operation, OpResult

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.row_shape import STACK
from zeropoint.codegen.patterns.match import Declined, Match
from zeropoint.codegen.patterns.nest import LatestFirst, NestTrial, can_join, count_of, is_cheap, tried
from zeropoint.codegen.schedule.elementwise import split_dimensions
from zeropoint.codegen.schedule.expression import CONTRACTION_OPS, RowExpression, reduced_row
from zeropoint.codegen.schedule.reductions import EXPRESSIONS
from zeropoint.codegen.values import Values
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

LEAST = 8
"""The minimum number of elements of a row. For shorter rows, a nest is faster, because its vectors span rows."""


def match_rows(values: Values, op: Operation, target: View) -> Match | Declined:
    """The kernel of rows that ends with `op`. The result of `op` has the layout of `target`."""
    value = op.results[0]
    shape = shape_of(value)
    row = next((d for d, size in enumerate(shape) if size >= LEAST and target.strides[d] == target.itemsize), None)
    if isinstance(op, CONTRACTION_OPS):
        return Declined("found a reduction as the last op, expected ops after it along its rows", True)
    if row is None:
        return _too_short(values, op, target)
    members = _members(values, op, row)
    if not any(isinstance(member, hlo.ReduceOp) for member in members):
        return Declined(f"found no reduction along dimension {row} that the op depends on", True)

    def attempt(trial: NestTrial, members: frozenset[Operation]) -> RowExpression:
        expression = RowExpression(trial, members, shape, EXPRESSIONS, row)
        expression.value(value, expression.every)
        return expression

    expression, trial = tried(values, members, attempt)
    kernel, _ = expression.rows(expression.value(value, expression.every), target)
    if kernel.stack() > STACK:
        return Declined(f"found rows that need {kernel.stack()} bytes of stack, expected at most {STACK}")
    return Match("rows", (value,), tuple(trial.reads), row)


def _too_short(values: Values, op: Operation, target: View) -> Declined:
    """The reason for no match: rows with a reduction that are too short, or no dimension for rows."""
    shape = shape_of(op.results[0])
    for d, size in enumerate(shape):
        reduced = target.strides[d] == target.itemsize and size > 1 and _members(values, op, d)
        if reduced and any(isinstance(member, hlo.ReduceOp) for member in reduced):
            return Declined(f"found rows of {size} elements, expected at least {LEAST}")
    return Declined(f"found no dimension with at least {LEAST} elements side by side", True)


def _members(values: Values, root: Operation, row: int) -> frozenset[Operation]:
    """The ops that become one kernel with `root`, whose rows are along dimension `row`."""
    size = shape_of(root.results[0])[row]
    counts = {count_of(root.results[0]), count_of(root.results[0]) // size}
    members = {root}
    own = {root}  # the members that no other kernel computes
    along: dict[Operation, int | None] = {root: row}
    waiting = LatestFirst(values)

    def follow(op: Operation) -> None:
        for index, operand in enumerate(op.operands):
            if not isinstance(operand, OpResult):
                continue
            found = _row_of_operand(op, index, along[op])
            known = along.setdefault(operand.op, found)
            if found == -1 or known != found:
                along[operand.op] = -1  # rows run along other or several dimensions, so the kernel reads the value
            else:
                waiting.add(operand.op)

    follow(root)
    for op in waiting:
        if along[op] == -1 or not can_join(values, op) or values.constant(op.results[0]) is not None:
            continue
        if isinstance(op, CONTRACTION_OPS) and (along[op] is not None or reduced_row(op) != size):
            continue
        alone = all(use.operation in own for use in op.results[0].uses)
        if (alone and count_of(op.results[0]) in counts) or is_cheap(values, op):
            members.add(op)
            if alone:
                own.add(op)
            follow(op)
    return frozenset(members)


def _row_of_operand(op: Operation, index: int, row: int | None) -> int | None:
    """The dimension of an operand that corresponds to dimension `row` of the result.

    None if the operand does not vary along the row. -1 if no single dimension corresponds.
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
        return None if index else -1  # parameters: per channel, a scalar, a table
    return row
