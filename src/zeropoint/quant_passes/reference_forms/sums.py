"""The sums that follow a convolution, up to their requantization or dequantization, in another order of dimensions."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.quant_passes.reference_forms.frames import Change, Frame, frame_of, taken_out
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, owner, quantized

CASTS = (UniformDequantizeOp, UniformQuantizeOp)


def frame_after(value: SSAValue) -> Frame:
    """The frame that all readers of a convolution's sums take them out of; that of the value itself if they differ."""
    ends = list(_ends(value))
    found = frame_of([end for end in ends if end is not None]) if None not in ends else None
    return found or Frame(tuple(range(len(shape_of(value)))))


def move_sums(old: SSAValue, new: SSAValue, change: Change, weights: Weights) -> None:
    """Let the readers of a convolution read the changed one."""
    for use in list(old.uses):
        user, rewrite = use.operation, Rewrite(use.operation, weights)
        if _is_sum(user, old):
            lhs, rhs = (new if value is old else _operand(value, change, rewrite) for value in user.operands)
            move_sums(user.results[0], rewrite.add(AddOp(lhs, rhs)), change, weights)
            Rewriter.erase_op(user)
        elif isinstance(user, CASTS):
            made = _cast(user, new, change, rewrite)
            if _has_channels(user.result):
                move_sums(user.result, made, change, weights)
            else:
                _finish(user.result, made, change, rewrite)
            Rewriter.erase_op(user)
        else:
            user.operands[use.index] = change.restored(rewrite, new)


def _ends(value: SSAValue) -> Iterator[SSAValue | None]:
    """The results that leave the sums of a convolution; None for a sum that something else reads."""
    for use in value.uses:
        user = use.operation
        if _is_sum(user, value) or (isinstance(user, CASTS) and _has_channels(user.results[0])):
            yield from _ends(user.results[0])
        else:
            yield user.results[0] if isinstance(user, CASTS) else None


def _is_sum(op: Operation, value: SSAValue) -> bool:
    """Whether an op adds something of the same type to a value."""
    if not isinstance(op, AddOp) or not op.result.type == op.lhs.type == op.rhs.type:
        return False
    return (op.lhs is value) != (op.rhs is value)


def _has_channels(value: SSAValue) -> bool:
    kind = quantized(value)
    return kind is not None and kind.is_per_channel


def _operand(value: SSAValue, change: Change, rewrite: Rewrite) -> SSAValue:
    """What is added, after the change; a bias is broadcast to it."""
    op = owner(value)
    if isinstance(op, BroadcastInDimOp):
        dimensions = [change.dimension(d) for d in array_values(op.broadcast_dimensions)]
        return rewrite.add(BroadcastInDimOp(op.operand, change.type(value), dimensions))
    return change.moved(rewrite, value)


def _cast(op: Operation, new: SSAValue, change: Change, rewrite: Rewrite) -> SSAValue:
    if isinstance(op, UniformDequantizeOp):
        return rewrite.add(UniformDequantizeOp(new))
    return rewrite.add(UniformQuantizeOp(new, change.type(op.results[0])))


def _finish(old: SSAValue, made: SSAValue, change: Change, rewrite: Rewrite) -> None:
    if change.is_inward:
        old.replace_all_uses_with(change.restored(rewrite, made))
        return
    for outside in taken_out(old):
        op = owner(outside)
        outside.replace_all_uses_with(made)
        while op is not None and outside is not old:
            before = op.operands[0]
            if outside.first_use is None:
                Rewriter.erase_op(op)
            outside, op = before, owner(before)
