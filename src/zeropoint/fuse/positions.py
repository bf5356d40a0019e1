"""Positions of the greatest or least element along a dimension: `arg_max`, `arg_min`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    IotaOp,
    MaximumOp,
    MinimumOp,
    ReduceOp,
    ReshapeOp,
    SelectOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of

KERNELS: dict[type[Operation], str] = {MaximumOp: "arg_max", MinimumOp: "arg_min"}
"""Maps the bodies of the first reduction to kernels."""


def match_position(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """The first position whose element equals the extreme along one dimension, if the target has the kernel.

    The ops are `reduce` with `maximum` or `minimum`, `broadcast_in_dim`, `compare` EQ with the operand, `select` of
    `iota` or the last position, `reduce` with `minimum`.
    """
    if not isinstance(op, ReduceOp) or len(op.inputs) != 1 or not graph.is_float(op.inputs[0]):
        return None
    kernel, axes = KERNELS.get(body_op(op.body) or type(op)), array_values(op.dimensions)
    comparison = next(comparisons_with_operand(op), None)
    if kernel is None or kernel not in graph.kernels or len(axes) != 1 or comparison is None:
        return None
    after = _first_position(comparison, axes[0], graph)
    between = _between(comparison, op)
    if after is None or any(graph.only_user(inner.results[0]) is None for inner in (op, *between)):
        return None
    return RegionMatch(kernel, graph.in_order((op, *between, comparison, *after)), (op.inputs[0],))


def _first_position(comparison: CompareOp, axis: int, graph: FloatGraph) -> tuple[Operation, ...] | None:
    """The ops that find the first position where a comparison holds: `iota`, `select`, `reduce`."""
    chosen = graph.only_user(comparison.result)
    if not isinstance(chosen, SelectOp) or chosen.pred is not comparison.result:
        return None
    first, counts = graph.only_user(chosen.result), chosen.on_true.owner
    if not isinstance(first, ReduceOp) or len(first.inputs) != 1 or body_op(first.body) is not MinimumOp:
        return None
    last = shape_of(comparison.lhs)[axis] - 1
    ends = graph.splat(chosen.on_false), graph.splat(first.init_values[0])
    if ends != (last, last) or array_values(first.dimensions) != (axis,) or graph.only_user(chosen.on_true) is None:
        return None
    if not isinstance(counts, IotaOp) or counts.iota_dimension.value.data != axis:
        return None
    return counts, chosen, first


def comparisons_with_operand(op: ReduceOp) -> Iterator[CompareOp]:
    """The comparisons of the operand of a reduction with its result, repeated along the reduced dimensions."""
    for use in op.inputs[0].uses:
        found = use.operation
        if isinstance(found, CompareOp) and found.comparison_direction.data is ComparisonDirection.EQ:
            other = found.rhs if found.lhs is op.inputs[0] else found.lhs
            if _source(other) is op.results[0]:
                yield found


def _source(value: SSAValue) -> SSAValue:
    """The value behind reshapes and broadcasts."""
    while isinstance(value.owner, BroadcastInDimOp | ReshapeOp):
        value = value.owner.operand
    return value


def _between(comparison: CompareOp, op: ReduceOp) -> list[Operation]:
    """The reshapes and broadcasts between a reduction and the comparison of its result."""
    value = comparison.rhs if comparison.lhs is op.inputs[0] else comparison.lhs
    found: list[Operation] = []
    while isinstance(value.owner, BroadcastInDimOp | ReshapeOp):
        found.append(value.owner)
        value = value.owner.operand
    return found


PATTERNS = (match_position,)
