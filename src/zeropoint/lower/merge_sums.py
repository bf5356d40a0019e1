"""Merges two additions of per-channel constants: the zero-point correction and the bias.

```mlir
%1 = stablehlo.add %0, (broadcast of %correction along axis 1) : tensor<1x4x6x6xi32>
%2 = stablehlo.add %1, (broadcast of %bias along axis 1) : tensor<1x4x6x6xi32>
```
becomes one addition of `%correction + %bias`, if that fits 32 bits. The final sums are unchanged, and the lowering has
proved that they fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.annotations import FACTS, carry
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN


@dataclass
class MergeSums(RewritePattern):
    """(x + a) + b -> x + (a + b), for i32 constants broadcast along one axis."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        """Rewrite the outer addition."""
        inner = op.lhs.owner
        # A second reader of the inner sum would keep it alive, so nothing would be saved.
        if not isinstance(inner, AddOp) or not op.lhs.has_one_use():
            return
        first, second = self._term(inner.rhs), self._term(op.rhs)
        # The sum of constants along different axes is as large as the result.
        if first is None or second is None or first[1] != second[1]:
            return
        total = first[0].astype(np.int64) + second[0].astype(np.int64)
        # The merged constant has to fit i32.
        if total.size and (total.max() > INT32_MAX or total.min() < INT32_MIN):
            return
        builder = Builder(InsertPoint.before(op))
        # The second constant is the bias, whose name in the model is kept.
        constant = builder.insert(constant_op(total.astype(np.int32), self.weights, location=second[2]))
        broadcast = builder.insert(BroadcastInDimOp(constant.output, op.result.type, first[1]))
        merged = AddOp(inner.lhs, broadcast.result)
        broadcast.location = merged.location = op.location
        # The outer sum may be the kernel's last op, with the kernel's facts.
        carry(op, merged, FACTS)
        rewriter.replace(op, merged)

    def _term(self, value: SSAValue) -> tuple[Array, tuple[int, ...], LocationAttr] | None:
        """The array of a constant, the axis that it is broadcast along, and its location; None for other values."""
        broadcast = value.owner
        if not isinstance(broadcast, BroadcastInDimOp) or not isinstance(broadcast.operand.owner, Operation):
            return None
        array = constant_array(broadcast.operand, self.weights)
        if array is None or array.dtype != np.int32:
            return None
        axes = tuple(int(i) for i in broadcast.broadcast_dimensions.get_values())
        return array, axes, broadcast.operand.owner.location


def merge_sums(program: Program) -> Program:
    """A copy with one bias per contraction."""
    program = program.for_change()
    # One sweep is enough: ops are visited in order, so a chain of additions collapses from its start.
    PatternRewriteWalker(MergeSums(program.weights), apply_recursively=False).rewrite_module(program.module)
    remove_dead_ops(program.entry)
    return program
