"""Broadcast constants and broadcasts in one step, from what varies.

```mlir
%0 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
%1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x4x4x8xf32>
```
becomes
```mlir
%1 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<8xf32>) -> tensor<2x4x4x8xf32>
```
and a constant loses its dimensions of size 1 before it is broadcast: a bias is a bias of rank 1 however it was spelled,
also where a contraction has one element for each channel and the constant has the result's own shape, or one channel.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    MultiplyOp,
    SubtractOp,
)
from zeropoint.ir.tensors import shape_of

ARITHMETIC = (AddOp, MultiplyOp, SubtractOp)
"""What a bias or a scale per channel meets a contraction in."""


def _channel_axis(op: BinaryOp, index: int) -> int | None:
    """The dimension that counts the channels of the contraction which the other operand is; None where it is none."""
    made = op.operands[1 - index].owner
    return output_channel_axis(made) if isinstance(made, ConvolutionOp | DotGeneralOp) else None


def _kept(value: SSAValue, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> list[int]:
    """The dimensions of a constant that vary; of one number beside a contraction that of its channels."""
    kept = [i for i, size in enumerate(shape) if size != 1]
    users = [use for use in value.uses if isinstance(use.operation, ARITHMETIC)]
    axes = {_channel_axis(use.operation, use.index) for use in users if isinstance(use.operation, BinaryOp)}
    return kept or [i for i, dimension in enumerate(dimensions) if {dimension} == axes]


def _settled(op: BroadcastInDimOp, program: Program) -> tuple[SSAValue, tuple[int, ...]]:
    """What an op broadcasts in the end, and along which dimensions."""
    value, dimensions = op.operand, tuple(op.broadcast_dimensions.get_values())
    while isinstance(inner := value.owner, BroadcastInDimOp):
        value, dimensions = inner.operand, tuple(dimensions[i] for i in inner.broadcast_dimensions.get_values())
    shape = shape_of(value)
    if isinstance(value.owner, ConstantOp) and 1 in shape:
        array = constant_array(value, program.weights)
        assert array is not None and op.parent is not None
        kept = _kept(op.result, shape, dimensions)
        if len(kept) == len(shape):
            return value, dimensions
        location = value.owner.location
        squeezed = constant_op(array.reshape([shape[i] for i in kept]), program.weights, location=location)
        op.parent.insert_op_before(squeezed, op)
        value, dimensions = squeezed.output, tuple(dimensions[i] for i in kept)
    return value, dimensions


def _spread(op: BinaryOp, index: int, program: Program) -> None:
    """Give a contraction's bias or scale of the result's shape, [1, C, 1, 1], its rank of 1 and a broadcast."""
    constant, channels = op.operands[index], _channel_axis(op, index)
    kept = [axis for axis, size in enumerate(shape_of(constant)) if size != 1]
    array = constant_array(constant, program.weights)
    if array is None or len(kept) > 1 or channels is None:
        return
    kept = kept or [channels]
    if array.ndim == 1 or array.shape != shape_of(op.result):
        return
    assert isinstance(constant.owner, ConstantOp) and op.parent is not None
    vector = constant_op(array.reshape(-1), program.weights, location=constant.owner.location)
    spread = BroadcastInDimOp(vector.output, constant.type, kept)
    spread.location = op.location
    op.parent.insert_ops_before([vector, spread], op)
    op.operands[index] = spread.result


def fold_broadcasts(program: Program) -> Program:
    """One walk; what was broadcast in between goes where nothing else reads it."""
    program = program.clone()
    for op in list(program.entry.ops):
        if isinstance(op, ARITHMETIC):
            for index in range(2):
                _spread(op, index, program)
        if isinstance(op, BroadcastInDimOp):
            value, dimensions = _settled(op, program)
            if value is not op.operand:
                made = BroadcastInDimOp(value, op.result.type, dimensions)
                made.location = op.location
                assert op.parent is not None
                op.parent.insert_op_before(made, op)
                op.result.replace_all_uses_with(made.result)
    remove_dead_ops(program.entry)
    return program
