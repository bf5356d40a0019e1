"""Merges chains of broadcasts, and drops dimensions of size 1 of broadcast constants.

```mlir
%0 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
%1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x4x4x8xf32>
```
becomes
```mlir
%1 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<8xf32>) -> tensor<2x4x4x8xf32>
```
A broadcast that also transposes becomes a transpose and one that does not, so that readers only add dimensions. A
constant loses its dimensions of size 1 before it is broadcast. So every bias gets rank 1, whatever its form in the
model. This also holds for a constant of the result's shape if the result has one element per channel, and for a single
channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    MultiplyOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

ARITHMETIC = (AddOp, MultiplyOp, SubtractOp)
"""The ops that apply a bias or a per-channel scale to a contraction."""


def _channel_axis(op: BinaryOp, index: int) -> int | None:
    """The channel dimension of the other operand if that is a contraction; None otherwise."""
    made = op.operands[1 - index].owner
    return output_channel_axis(made) if isinstance(made, ConvolutionOp | DotGeneralOp) else None


def _kept(value: SSAValue, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> list[int]:
    """The dimensions of a constant with size above 1.

    For a single number beside a contraction, the channel dimension.
    """
    kept = [i for i, size in enumerate(shape) if size != 1]
    users = [use for use in value.uses if isinstance(use.operation, ARITHMETIC)]
    axes = {_channel_axis(use.operation, use.index) for use in users if isinstance(use.operation, BinaryOp)}
    return kept or [i for i, dimension in enumerate(dimensions) if {dimension} == axes]


def _settled(op: BroadcastInDimOp, weights: Weights, rewriter: PatternRewriter) -> tuple[SSAValue, tuple[int, ...]]:
    """The value at the start of a chain of broadcasts, and the result dimensions that its own dimensions map to."""
    value, dimensions = op.operand, tuple(op.broadcast_dimensions.get_values())
    while isinstance(inner := value.owner, BroadcastInDimOp):
        value, dimensions = inner.operand, tuple(dimensions[i] for i in inner.broadcast_dimensions.get_values())
    shape = shape_of(value)
    if isinstance(value.owner, ConstantOp) and 1 in shape:
        array = constant_array(value, weights)
        assert array is not None
        kept = _kept(op.result, shape, dimensions)
        if len(kept) == len(shape):
            return value, dimensions
        squeezed = rewriter.insert(_squeezed(value.owner, array, kept, weights))
        value, dimensions = squeezed.output, tuple(dimensions[i] for i in kept)
    return value, dimensions


def _squeezed(given: ConstantOp, array: Array, kept: Sequence[int], weights: Weights) -> ConstantOp:
    """A constant with some of its dimensions, which has the type that the model pins the given one to."""
    made = constant_op(array.reshape([array.shape[i] for i in kept]), weights, location=given.location)
    pinned = given.attributes.get(PINNED)
    if isinstance(pinned, UniformQuantizedType) and not pinned.is_sub_channel:
        if pinned.axis is None:
            made.attributes[PINNED] = pinned
        elif pinned.axis in kept:
            axis = kept.index(pinned.axis)
            made.attributes[PINNED] = UniformQuantizedType.per_channel(
                pinned.storage, axis, pinned.scales, pinned.zero_points
            )
    return made


@dataclass
class FoldBroadcast(RewritePattern):
    """broadcast(broadcast(x)) -> broadcast(x); a constant x loses its dimensions of size 1.

    A broadcast that transposes becomes broadcast(transpose(x)).
    """

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BroadcastInDimOp, rewriter: PatternRewriter) -> None:
        """Rewrite one broadcast."""
        value, dimensions = _settled(op, self.weights, rewriter)
        order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
        if order != list(range(len(order))):
            moved = TransposeOp(value, order)
            moved.location = op.location
            value, dimensions = rewriter.insert(moved).result, tuple(sorted(dimensions))
        if value is not op.operand:
            made = BroadcastInDimOp(value, op.result.type, dimensions)
            made.location = op.location
            rewriter.replace(op, made)


@dataclass
class SpreadChannels(RewritePattern):
    """contraction + [1, C, 1, 1] -> contraction + broadcast of [C], for a bias or scale of the result's shape."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite both operands of a sum, a difference or a product."""
        if isinstance(op, ARITHMETIC):
            for index in range(2):
                self._spread(op, index, rewriter)

    def _spread(self, op: BinaryOp, index: int, rewriter: PatternRewriter) -> None:
        constant, channels = op.operands[index], _channel_axis(op, index)
        kept = [axis for axis, size in enumerate(shape_of(constant)) if size != 1]
        array = constant_array(constant, self.weights)
        if array is None or len(kept) > 1 or channels is None:
            return
        if array.ndim == 1 or array.shape != shape_of(op.result):
            return
        assert isinstance(constant.owner, ConstantOp)
        kept = kept or [channels]
        vector = rewriter.insert(_squeezed(constant.owner, array, kept, self.weights))
        spread = BroadcastInDimOp(vector.output, constant.type, kept)
        spread.location = op.location
        op.operands[index] = rewriter.insert(spread).result
        rewriter.notify_op_modified(op)


def fold_broadcasts(program: Program) -> Program:
    """A copy with merged broadcasts, without the intermediate ones that are unused."""
    program = program.for_change()
    patterns = GreedyRewritePatternApplier([FoldBroadcast(program.weights), SpreadChannels(program.weights)])
    rewrite(program, patterns)
    remove_dead_ops(program.entry)
    return program
