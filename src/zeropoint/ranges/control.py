"""The ranges of values in loops and branches: those that `while` carries, and those that `if` and `case` return.

A carried value starts with the range of its operand. Each round joins it with the range of the body's result. A bound
that still grows after `JOINS` rounds is widened to that of the type. The rounds end at a fixed point. Inside the body,
a value that `cond` compares with another is bounded by this comparison.

Source: the StableHLO specification, "while", "if", "case"; Cousot and Cousot, "Abstract interpretation" (1977), for the
widening.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo import ComparisonDirection
from zeropoint.ir.tensors import element_of
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.interval import Interval, joined

JOINS = 3
BRANCHES = (hlo.IfOp, hlo.CaseOp)
CONTROL = (*BRANCHES, hlo.WhileOp)
SWAPPED = {
    ComparisonDirection.LT: ComparisonDirection.GT,
    ComparisonDirection.LE: ComparisonDirection.GE,
    ComparisonDirection.GT: ComparisonDirection.LT,
    ComparisonDirection.GE: ComparisonDirection.LE,
}


def ops_of(block: Block) -> Iterator[Operation]:
    """The ops of a block and of the loops and branches in it, in the order of the text."""
    for op in block.ops:
        yield op
        if op.regions and isinstance(op, CONTROL):
            for region in op.regions:
                yield from ops_of(region.block)


def control_ranges(ranges: Ranges, block: Block) -> None:
    """Add the ranges of values that the loops and branches of a block carry and return to `ranges.known`."""
    for op in (op for op in block.ops if op.regions):
        if isinstance(op, hlo.WhileOp):
            _loop(ranges, op)
        elif isinstance(op, BRANCHES):
            _branches(ranges, op)


def _is_integer(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(element_of(value), IntegerType)


def _returned(block: Block) -> tuple[SSAValue, ...]:
    assert block.last_op is not None
    return tuple(block.last_op.operands)


def _branches(ranges: Ranges, op: hlo.IfOp | hlo.CaseOp) -> None:
    for region in op.regions:
        control_ranges(ranges, region.block)
    for n, result in enumerate(op.results):
        if _is_integer(result):
            ranges.known[result] = joined(ranges.of(_returned(region.block)[n]) for region in op.regions)


def _loop(ranges: Ranges, op: hlo.WhileOp) -> None:
    start = {n: ranges.of(value) for n, value in enumerate(op.inputs) if _is_integer(value)}
    carried, inside, rounds = start, _inside(ranges, op, start), 0
    # Intervals compare by identity. `_grown` returns the same object where nothing grew.
    while (grown := _next(inside, op, carried, rounds >= JOINS)) != carried:
        # Terminates, because each round after `JOINS` widens at least one bound to that of the type.
        carried, inside, rounds = grown, _inside(ranges, op, grown), rounds + 1
    # Narrowing: values that `cond` bounds were widened too far. One more round from the fixed point gives smaller
    # ranges, which are kept if they are a fixed point.
    results = _returned(op.body.block)
    nearer = {n: first.join(inside.of(results[n])) for n, first in start.items()}
    closer = _inside(ranges, op, nearer)
    if _next(closer, op, nearer, False) == nearer:
        inside, carried = closer, nearer
    ranges.known.update(inside.known)
    for n, found in carried.items():
        ranges.known[op.results[n]] = found


def _next(inside: Ranges, op: hlo.WhileOp, carried: dict[int, Interval], widen: bool) -> dict[int, Interval]:
    """The intervals carried after one more round, or the same objects where nothing grew."""
    results = _returned(op.body.block)
    return {
        n: _grown(before, inside.of(results[n]), op.body.block.args[n], widen=widen) for n, before in carried.items()
    }


def _inside(ranges: Ranges, op: hlo.WhileOp, carried: dict[int, Interval]) -> Ranges:
    """The ranges in the regions of a loop that carries values of the given ranges."""
    found = Ranges(ranges.weights, ranges.rules, dict(ranges.known), ranges.stated)
    for n, range_ in carried.items():
        found.known[op.cond.block.args[n]] = range_
    control_ranges(found, op.cond.block)
    bounded = dict(carried)
    _bound(found, op, _returned(op.cond.block)[0], bounded)
    for n, range_ in bounded.items():
        found.known[op.body.block.args[n]] = range_
    control_ranges(found, op.body.block)
    return found


def _bound(ranges: Ranges, op: hlo.WhileOp, condition: SSAValue, carried: dict[int, Interval]) -> None:
    """Narrow the ranges of carried values to those for which a condition may hold."""
    made = condition.owner
    if isinstance(made, hlo.AndOp):
        for operand in made.operands:
            _bound(ranges, op, operand, carried)
    if not isinstance(made, hlo.CompareOp) or not _is_integer(made.lhs):
        return
    direction = made.comparison_direction.data
    for value, other, towards in (
        (made.lhs, made.rhs, direction),
        (made.rhs, made.lhs, SWAPPED.get(direction, direction)),
    ):
        at = next((n for n in carried if op.cond.block.args[n] is value), None)
        if at is not None:
            carried[at] = _compared(carried[at], ranges.of(other), towards)


def _compared(value: Interval, other: Interval, direction: ComparisonDirection) -> Interval:
    """The numbers of a range for which a comparison with some number of another range holds; all if it never holds."""
    low, high = value.least, value.greatest
    if direction in (ComparisonDirection.LT, ComparisonDirection.LE):
        high = min(high, other.greatest - (direction is ComparisonDirection.LT))
    elif direction in (ComparisonDirection.GT, ComparisonDirection.GE):
        low = max(low, other.least + (direction is ComparisonDirection.GT))
    return Interval.of(low, high) if low <= high else value


def _grown(before: Interval, after: Interval, value: SSAValue, *, widen: bool) -> Interval:
    """`before` itself if it contains `after`; otherwise their join.

    With `widen`, bounds that grew become those of the type.
    """
    both = before.join(after)
    if np.array_equal(both.low, np.broadcast_to(before.low, both.low.shape)) and np.array_equal(
        both.high, np.broadcast_to(before.high, both.high.shape)
    ):
        return before
    if not widen:
        return both
    whole = type_interval(element_of(value))
    low = before.least if before.least <= after.least else whole.least
    high = before.greatest if before.greatest >= after.greatest else whole.greatest
    return Interval.of(low, high)
