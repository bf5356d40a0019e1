"""Drop the maximum of a softmax whose operand has a maximum of 0.

```mlir
%0 = stablehlo.subtract %x, %greatest_x        the model subtracts the maximum of every row
%1 = stablehlo.subtract %0, %greatest_0        the softmax does the same
%2 = stablehlo.exponential %1
```
becomes `stablehlo.exponential %0`. Results have the same bits: the maximum of a row in `%0` is x - x = 0. If it is not
finite, the row is NaN in both forms, because a softmax divides by the sum. The difference that the model computes is
then a part of the softmax, and scores are quantized with the range that they have before it: hidden ones with
-3.4e38 would be far from 0 behind it (gpt-oss subtracts the maximum of scores and a sink).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ExponentialOp,
    MaximumOp,
    ReduceOp,
    ReshapeOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass
class DropRepeatedShift(RewritePattern):
    """y - max(y) -> y where y = x - max(x), over the same dimensions, if exponentials and differences read it."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        """Replace one difference by its operand."""
        shifted = op.lhs.owner
        if not isinstance(shifted, SubtractOp) or not _is_softmax(op):
            return
        dimensions = self._reduced(op)
        if dimensions is not None and dimensions == self._reduced(shifted):
            rewriter.replace(op, [], [op.lhs])

    def _reduced(self, op: SubtractOp) -> tuple[int, ...] | None:
        """The dimensions over which a difference subtracts the maximum of its operand; None if it does not."""
        spread = op.rhs.owner
        if not isinstance(spread, BroadcastInDimOp):
            return None
        axes, value = tuple(array_values(spread.broadcast_dimensions)), spread.operand
        kept = isinstance(value.owner, ReshapeOp)
        reduce = value.owner.operand.owner if isinstance(value.owner, ReshapeOp) else value.owner
        if not isinstance(reduce, ReduceOp) or not self._is_maximum(reduce, op.lhs):
            return None
        dimensions, shape = tuple(array_values(reduce.dimensions)), shape_of(op.lhs)
        if kept:
            sizes = tuple(1 if dimension in dimensions else size for dimension, size in enumerate(shape))
            return dimensions if shape_of(value) == sizes and axes == tuple(range(len(shape))) else None
        return dimensions if axes == tuple(d for d in range(len(shape)) if d not in dimensions) else None

    def _is_maximum(self, reduce: ReduceOp, value: SSAValue) -> bool:
        if body_op(reduce.body) is not MaximumOp or list(reduce.inputs) != [value]:
            return False
        return splat_value(reduce.init_values[0], self.weights) == float("-inf")


def _is_softmax(op: SubtractOp) -> bool:
    """Whether exponentials read a difference, and nothing else but differences (of a log-softmax)."""
    readers = [use.operation for use in op.result.uses]
    return any(isinstance(each, ExponentialOp) for each in readers) and all(
        isinstance(each, ExponentialOp | SubtractOp) for each in readers
    )


def drop_repeated_shifts(program: Program) -> Program:
    """A copy in which no softmax subtracts the maximum of its operand for a second time."""
    program = program.for_change()
    rewrite(program, DropRepeatedShift(program.weights))
    remove_dead_ops(program.entry)
    return program
