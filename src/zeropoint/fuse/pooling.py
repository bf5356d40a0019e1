"""Pooling, mean, sum, and maximum or minimum along dimensions."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.fuse.positions import comparisons_with_operand
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of

EXTREMES: dict[type[Operation], tuple[str, float]] = {
    MaximumOp: ("reduce_max", float("-inf")),
    MinimumOp: ("reduce_min", float("inf")),
}
"""Maps reduction bodies to kernels and their required initial values."""


# If window counts differ, the kernel multiplies by round(2^22 / count). At count 2^14 that factor still has 8 bits.
GREATEST_COUNT = 1 << 14


def _divided(value: SSAValue, graph: FloatGraph) -> Operation | None:
    """The only user of `value` if it divides by counts or multiplies by their reciprocals; None otherwise."""
    user = graph.only_user(value)
    if not isinstance(user, DivideOp | MultiplyOp) or user.lhs is not value:
        return None
    number, array = graph.splat(user.rhs), graph.array(user.rhs)
    if number is not None:
        return user if 0.0 < number < float("inf") else None
    if array is None or not array.size:
        return None
    low, high = (1, GREATEST_COUNT) if isinstance(user, DivideOp) else (1 / GREATEST_COUNT, 1)
    return user if low <= array.min() and array.max() <= high else None


def _starts_at_zero(op: ReduceOp | ReduceWindowOp, graph: FloatGraph) -> bool:
    return len(op.inputs) == 1 and graph.is_float(op.inputs[0]) and graph.splat(op.init_values[0]) == 0


def match_max_pool(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`reduce_window` with `maximum` and an initial value of -inf."""
    if not isinstance(op, ReduceWindowOp) or body_op(op.body) is not MaximumOp or len(op.inputs) != 1:
        return None
    return RegionMatch("max_pool", (op,), (op.inputs[0],)) if graph.splat(op.init_values[0]) == float("-inf") else None


def match_average_pool(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`reduce_window` with `add`, then division by the count of each window. Without the division, it is a `sum`."""
    if not isinstance(op, ReduceWindowOp) or body_op(op.body) is not AddOp or not _starts_at_zero(op, graph):
        return None
    division = _divided(op.results[0], graph)
    if division is None:
        return RegionMatch("sum", (op,), (op.inputs[0],))
    return RegionMatch("average_pool", (op, division), (op.inputs[0],))


def match_mean(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`reduce` with `add`, then division by a number. Without the division, it is a `sum`.

    A `reshape` or `broadcast_in_dim` between them may restore dimensions of size 1.
    """
    if not isinstance(op, ReduceOp) or body_op(op.body) is not AddOp or not _starts_at_zero(op, graph):
        return None
    ops: list[Operation] = [op]
    user = graph.only_user(op.results[0])
    if isinstance(user, ReshapeOp | BroadcastInDimOp) and _same_size(user):
        ops.append(user)
    division = _divided(ops[-1].results[0], graph)
    if division is None or graph.splat(division.operands[1]) is None:
        return RegionMatch("sum", (op,), (op.inputs[0],))
    return RegionMatch("mean", (*ops, division), (op.inputs[0],))


def match_extreme(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`reduce` with `maximum` or `minimum`, for example a global max pool."""
    if not isinstance(op, ReduceOp) or len(op.inputs) != 1 or not graph.is_float(op.inputs[0]):
        return None
    found = EXTREMES.get(body_op(op.body) or type(op))
    if found is None or graph.splat(op.init_values[0]) != found[1]:
        return None
    # The operand may stay float, and then no element of it would equal the rounded extreme.
    if any(comparisons_with_operand(op)):
        return None
    return RegionMatch(found[0], (op,), (op.inputs[0],))


def _same_size(op: ReshapeOp | BroadcastInDimOp) -> bool:
    return prod(shape_of(op.operand)) == prod(shape_of(op.result))


PATTERNS = (match_max_pool, match_average_pool, match_mean, match_extreme)
