"""Ops that only move data."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConcatenateOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.targets import KernelRow, Role, SameScale

KERNELS: dict[type[Operation], str] = {
    BroadcastInDimOp: "broadcast",
    ReshapeOp: "reshape",
    ReverseOp: "reverse",
    SliceOp: "slice",
    TransposeOp: "transpose",
}


def match_movement(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`broadcast_in_dim`, `reshape`, `reverse`, `slice`, `transpose` of an activation."""
    kernel = KERNELS.get(type(op))
    if kernel is None or not graph.is_float(op.results[0]) or graph.array(op.operands[0]) is not None:
        return None
    return RegionMatch(kernel, (op,), (op.operands[0],))


def match_pad(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`pad` with a constant."""
    if not isinstance(op, PadOp) or not graph.is_float(op.result) or graph.splat(op.padding_value) is None:
        return None
    return RegionMatch("pad", (op,), (op.operand,))


def match_concatenate(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`concatenate`; constant operands are ports like the others."""
    if not isinstance(op, ConcatenateOp) or not graph.is_float(op.result):
        return None
    return RegionMatch("concatenate", (op,), tuple(dict.fromkeys(op.inputs)))


def match_gather(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`gather`: rows of a table, which may be constant, by computed indices."""
    if not isinstance(op, GatherOp) or not graph.is_float(op.result):
        return None
    return RegionMatch("gather", (op,), (op.operand, op.start_indices))


def match_select(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`select` of two activations if the target has the kernel, or of a constant if a row takes one at the other's
    scale.

    Other selects of constants stay outside, where `bound-masks` handles masks and the rest stays float.
    """
    rows = graph.kernels.get("select", ())
    if not isinstance(op, SelectOp) or not rows or not graph.is_float(op.result) or op.on_true is op.on_false:
        return None
    values = (op.on_true, op.on_false)
    constants = [_is_constant(value, graph) for value in values]
    if all(constants) or (any(constants) and not any(_takes_constants(row) for row in rows)):
        return None
    return RegionMatch("select", (op,), (op.pred, *values))


def _takes_constants(row: KernelRow) -> bool:
    return row.input_rule(1).role is Role.CONSTANT and isinstance(row.relation, SameScale)


def _is_constant(value: SSAValue, graph: FloatGraph) -> bool:
    """Whether a value is a constant or a broadcast constant."""
    op = value.owner
    inner = op.operand if isinstance(op, BroadcastInDimOp) else value
    return graph.array(inner) is not None


PATTERNS = (match_gather, match_movement, match_pad, match_concatenate, match_select)
