"""Kernels of rows, such as softmax and layer normalization: reductions over one dimension and the ops around them.

The match goes backwards from an op, as for a nest. It tracks the dimension of each value along which rows run:

    %max = reduce(%x) maximum across [3]            : 1x12x128       one number per row
    %shifted = subtract %x, broadcast(%max)         : 1x12x128x128   along dimension 3
    %e = exponential %shifted
    %sum = reduce(%e) add across [3]
    %y = uniform_quantize(divide %e, broadcast(%sum))                one kernel, which reads x once and writes y

Numbers of rows that other kernels need, too, are further results of the kernel: the scales of rows of activations.
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
    members, shared = _members(values, op, row)
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
    numbers = [number for number in shared if number.owner in expression.taken and expression.number(number)]
    return Match("rows", (value, *numbers), tuple(trial.reads), row)


def _too_short(values: Values, op: Operation, target: View) -> Declined:
    """The reason for no match: rows with a reduction that are too short, or no dimension for rows."""
    shape = shape_of(op.results[0])
    for d, size in enumerate(shape):
        adjacent = target.strides[d] == target.itemsize and size > 1
        if adjacent and any(isinstance(member, hlo.ReduceOp) for member in _members(values, op, d)[0]):
            return Declined(f"found rows of {size} elements, expected at least {LEAST}")
    return Declined(f"found no dimension with at least {LEAST} elements side by side", True)


def _members(values: Values, root: Operation, row: int) -> tuple[frozenset[Operation], list[OpResult]]:
    """The ops that become one kernel with `root`, whose rows are along dimension `row`.

    Also their results that have a number for each row and that other kernels need, too.
    """
    size, shared = shape_of(root.results[0])[row], list[OpResult]()
    rows = count_of(root.results[0]) // size
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
        if not _can_join(values, op, along[op], size):
            continue
        result = op.results[0]
        alone, cheap = all(use.operation in own for use in result.uses), is_cheap(values, op)
        counts = {rows, rows * size} if alone else {rows} if along[op] is None else set[int]()
        if not cheap and count_of(result) not in counts:
            continue
        members.add(op)
        if alone or not cheap:
            own.add(op)
        if not alone and not cheap:
            shared.append(result)
        follow(op)
    return frozenset(members), shared[::-1]


def _can_join(values: Values, op: Operation, along: int | None, size: int) -> bool:
    """Whether an op can be part of rows of `size` elements, which run along dimension `along` of its result."""
    if along == -1 or not can_join(values, op) or values.constant(op.results[0]) is not None:
        return False
    return not isinstance(op, CONTRACTION_OPS) or (along is None and reduced_row(op) == size)


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
