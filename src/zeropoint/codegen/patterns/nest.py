"""Loop nests: the fallback for ops without a specialized kernel. One nest covers as many ops as possible.

The search goes backwards from an op. An op joins the nest if nothing outside the nest needs its result, or if
recomputing it is cheap (`is_cheap`). A nest has at most one reduction, which may have ops before and after it.

    %wide = convert %x                       cheap: recomputed by every nest that needs it
    %sum = add(%wide, %y)                    used only by %r: part of its nest
    %r = maximum(%sum, 0)                    one kernel, which reads x and y and writes r
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Space, View, dense_view
from zeropoint.codegen.patterns.match import Match
from zeropoint.codegen.schedule.elementwise import MOVEMENT, split_dimensions
from zeropoint.codegen.schedule.expression import CONTRACTION_OPS, Expression
from zeropoint.codegen.schedule.reductions import EXPRESSIONS
from zeropoint.codegen.values import Values, dense
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


class NestTrial:
    """A scope that records the reads of an expression. Its views are placeholders."""

    def __init__(self, values: Values):
        self.values = values
        self.reads: dict[SSAValue, View] = {}

    def view(self, value: SSAValue) -> View:
        """A placeholder view of the value."""
        if self.values.constant(value) is not None:
            return dense(value, Space.WEIGHTS)
        return self.reads.setdefault(value, dense(value, Space.ARENA))

    def constant_view(self, array: Array) -> View:
        """A placeholder view of an array."""
        return dense_view(array.shape, array.dtype, Space.WEIGHTS)


ExpressionT = TypeVar("ExpressionT", bound=Expression)


def tried(
    values: Values, members: frozenset[Operation], attempt: Callable[[NestTrial, frozenset[Operation]], ExpressionT]
) -> tuple[ExpressionT, NestTrial]:
    """Build the expression of an op from as many of `members` as possible.

    Members whose results the expression would both compute and read are removed.
    """
    while True:
        trial = NestTrial(values)
        expression = attempt(trial, members)
        both = {value.owner for value in trial.reads} & {*expression.taken}
        if not both:
            return expression, trial
        members -= both


def match_nest(values: Values, op: Operation, members: frozenset[Operation]) -> Match:
    """The nest of `members` that ends with `op`. Raises CodegenError for an op without a native form."""
    (value,) = op.results

    def attempt(trial: NestTrial, members: frozenset[Operation]) -> Expression:
        expression = Expression(trial, members, shape_of(value), EXPRESSIONS)
        expression.value(value, expression.every)
        return expression

    _, trial = tried(values, members, attempt)
    return Match("nest", (value,), tuple(trial.reads))


class LatestFirst:
    """A worklist that visits each op once, latest first, so that users come before the ops that they use."""

    def __init__(self, values: Values):
        self._order = values.order
        self._seen: dict[float, Operation] = {}
        self._waiting: list[float] = []

    def add(self, op: Operation) -> None:
        """Add an op, unless it was added before."""
        number = -self._order[op]
        if number not in self._seen:
            self._seen[number] = op
            heapq.heappush(self._waiting, number)

    def add_operands(self, op: Operation) -> None:
        """Add the ops that compute an op's operands."""
        for operand in op.operands:
            if isinstance(operand, OpResult):
                self.add(operand.op)

    def __iter__(self) -> Iterator[Operation]:
        while self._waiting:
            yield self._seen[heapq.heappop(self._waiting)]


def members_of(values: Values, root: Operation) -> frozenset[Operation]:
    """The ops that become one nest with `root`."""
    counts = {count_of(root.results[0])}
    reduction = root if isinstance(root, CONTRACTION_OPS) else None
    if isinstance(root, hlo.ReduceOp):
        counts.add(count_of(root.operands[0]))
    members = {root}
    own = {root}  # the members that no other kernel computes
    waiting = LatestFirst(values)
    waiting.add_operands(root)
    for op in waiting:
        if not can_join(values, op) or values.constant(op.results[0]) is not None:
            continue
        result = op.results[0]
        alone = all(use.operation in own for use in result.uses)
        if isinstance(op, CONTRACTION_OPS):
            if reduction is not None or not result.has_one_use() or not alone or count_of(result) not in counts:
                continue
            reduction = op
            if isinstance(op, hlo.ReduceOp):
                counts.add(count_of(op.operands[0]))
        elif not is_cheap(values, op) and not (alone and count_of(result) in counts):
            continue
        members.add(op)
        if alone:
            own.add(op)
        waiting.add_operands(op)
    return frozenset(members)


def can_join(values: Values, op: Operation) -> bool:
    """Whether an op can be part of a nest and is not computed yet."""
    if type(op) not in EXPRESSIONS or len(op.results) != 1 or values.has(op.results[0]):
        return False
    if isinstance(op, hlo.ReshapeOp):
        return split_dimensions(shape_of(op.operand), shape_of(op.result)) is not None
    return not _is_grouped(op)


def _is_grouped(op: Operation) -> bool:
    """Whether an op is a grouped convolution. It must end its nest, because it splits the loop over output channels."""
    return isinstance(op, hlo.ConvolutionOp) and int(op.feature_group_count.value.data) > 1


def is_cheap(values: Values, op: Operation) -> bool:
    """Whether a nest recomputes an op instead of reading its result: movement, widening, subtraction of a number."""
    if type(op) in MOVEMENT or isinstance(op, hlo.UniformDequantizeOp):
        return True
    if isinstance(op, hlo.SubtractOp):
        return isinstance(op.lhs, OpResult) and _widens(op.lhs.op) and values.splat(op.rhs) is not None
    return _widens(op)


def _widens(op: Operation) -> bool:
    return isinstance(op, hlo.ConvertOp) and _size(op.operand) <= _size(op.result)


def _size(value: SSAValue) -> int:
    return element_dtype(element_of(value)).itemsize


def count_of(value: SSAValue) -> int:
    """The number of elements."""
    return math.prod(shape_of(value))
