"""Loop nests and rows, from the ops of a kernel's body."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.elementwise import ELEMENTWISE, MOVEMENT
from zeropoint.codegen.schedule.expression import Expression, RowExpression, Rule
from zeropoint.codegen.schedule.reductions import CONTRACTIONS
from zeropoint.ir.tensors import shape_of

EXPRESSIONS: dict[type[Operation], Rule] = {**MOVEMENT, **ELEMENTWISE, **CONTRACTIONS}
"""Ops that can be a part of a nest."""


def schedule_nest(body: Body) -> None:
    """One loop nest."""
    value, (target,) = body.result, body.outputs
    if not math.prod(target.shape):
        return
    expression = Expression(body, body.members, shape_of(value), EXPRESSIONS)
    nest, operands = expression.nest(expression.value(value, expression.every), target)
    body.graph.call(body.name, nest, operands, [target], elementwise=expression.elementwise)


def schedule_rows(body: Body) -> None:
    """Rows that are reduced, and what is computed from that."""
    value, (target,) = body.result, body.outputs
    expression = RowExpression(body, body.members, shape_of(value), EXPRESSIONS, body.row)
    kernel, operands = expression.rows(expression.value(value, expression.every), target)
    body.graph.call(body.name, kernel, operands, [target], elementwise=expression.elementwise)
