"""Softmax, as frameworks decompose it."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DivideOp,
    ExponentialOp,
    MaximumOp,
    ReduceOp,
    ReshapeOp,
    SubtractOp,
)
from zeropoint.solve.fuse.match import Graph, Match
from zeropoint.solve.fuse.pooling import body_op


def _reduction_behind(value: SSAValue, body: type[Operation]) -> tuple[ReduceOp, list[Operation]] | None:
    """The reduction that `value` broadcasts, and the ops on the way from it."""
    way: list[Operation] = []
    owner = value.owner
    while isinstance(owner, BroadcastInDimOp | ReshapeOp):
        way.append(owner)
        owner = owner.operand.owner
    if isinstance(owner, ReduceOp) and body_op(owner) is body and len(owner.inputs) == 1:
        return owner, way
    return None


def match_softmax(op: Operation, graph: Graph) -> Match | None:
    """e / sum(e) where e = exp(x - max(x))."""
    if not isinstance(op, DivideOp) or not isinstance(exponential := op.lhs.owner, ExponentialOp):
        return None
    total = _reduction_behind(op.rhs, AddOp)
    if total is None or total[0].inputs[0] is not exponential.result:
        return None
    shifted = exponential.operand.owner
    if not isinstance(shifted, SubtractOp):
        return None
    greatest = _reduction_behind(shifted.rhs, MaximumOp)
    if greatest is None or greatest[0].inputs[0] is not shifted.lhs:
        return None
    ops = (greatest[0], *greatest[1], shifted, exponential, total[0], *total[1], op)
    return Match("softmax", ops, (shifted.lhs,))


PATTERNS = (match_softmax,)
