"""Schedules loop nests and kernels of rows, from the ops of a kernel's body."""

from __future__ import annotations

import math
from dataclasses import replace

from zeropoint.codegen.graph import View
from zeropoint.codegen.patterns.boundary import match_bytes
from zeropoint.codegen.patterns.match import Declined, misfit
from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.expression import Expression, NumberOfRow, RowExpression
from zeropoint.codegen.schedule.reductions import EXPRESSIONS
from zeropoint.ir.fxpmath import TableOp, WeightedSumOp
from zeropoint.ir.tensors import shape_of


def schedule_nest(body: Body) -> None:
    """Append the step of a loop nest, unless the output is empty."""
    if math.prod(body.outputs[0].shape):
        _nest(body, body.inputs, body.outputs[0])


def _nest(body: Body, inputs: list[View], target: View) -> None:
    """Append the nest from `inputs` to `target`. Their shapes may be flattened, in the body's order of elements."""
    body.inputs = inputs
    expression = Expression(body, body.members, target.shape, EXPRESSIONS)
    nest, operands = expression.nest(expression.value(body.result, expression.every), target)
    body.graph.call(body.name, nest, operands, [target], elementwise=expression.elementwise)


def schedule_bytes(body: Body) -> None:
    """Append a loop nest on 8-bit values. If all views have one layout, it computes whole rows, including padding."""
    match = Declined("expected one fxpmath.table or fxpmath.weighted_sum")
    if isinstance(body.root, TableOp | WeightedSumOp) and len(body.members) == 1:
        match = match_bytes(body.values, body.root)
    if isinstance(match, Declined):
        raise misfit(body.kernel, match)
    found = rows_alike([*body.inputs, body.outputs[0]])
    # Only activations have padding that may be read and written.
    if found is None or not all(map(body.values.fits, (*body.inputs, body.outputs[0]))):
        return schedule_nest(body)
    rows, length, strides = found
    views = zip([*body.inputs, body.outputs[0]], strides, strict=True)
    *inputs, target = (replace(view, shape=(rows, length), strides=(stride, 1)) for view, stride in views)
    return _nest(body, inputs, target)


def schedule_rows(body: Body) -> None:
    """Append the step of a kernel of rows."""
    value, (target, *places) = body.result, body.outputs
    expression = RowExpression(body, body.members, shape_of(value), EXPRESSIONS, body.row)
    result = expression.value(value, expression.every)
    numbers: list[tuple[NumberOfRow, View]] = []
    for number, place in zip(body.kernel.terminator.values[1:], places, strict=True):
        found = expression.number(number)
        if found is None:
            raise misfit(body.kernel, Declined(f"found {number.type} as a further result, expected one number per row"))
        numbers.append((found, place))
    kernel, operands = expression.rows(result, target, numbers)
    body.graph.call(body.name, kernel, operands, body.outputs, elementwise=expression.elementwise)


def rows_alike(views: list[View]) -> tuple[int, int, list[int]] | None:
    """(rows, bytes per row with padding, row stride of each view) of views with one element order; otherwise None."""
    first = views[0]
    # From the outermost dimension in memory to the innermost.
    order = sorted(range(len(first.shape)), key=lambda d: (-first.strides[d], first.shape[d] == 1))
    inner = [d for d in order if all(view.strides[d] == first.strides[d] for view in views) or first.shape[d] == 1]
    sized = [d for d in order if first.shape[d] > 1]
    if not sized:
        return 1, 16, [16] * len(views)
    length, used = 16, 0
    # Merge dimensions, innermost first, while all views have equal strides and no gaps except the padding of the pitch.
    for d in reversed(sized):
        step = first.strides[d]
        pitch = -(-length // 16) * 16 if used else 1
        if d not in inner or (used and step != pitch):
            break
        length = step * first.shape[d]
        used += 1
    # The padding of a row is computed as well, and never read.
    length = -(-length // 16) * 16
    outer = sized[: len(sized) - used]
    if len(outer) > 1:
        return None
    rows = first.shape[outer[0]] if outer else 1
    return rows, length, [view.strides[outer[0]] if outer else length for view in views]
