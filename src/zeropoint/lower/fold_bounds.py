"""Folds a clamp into the preceding requantization or weighted sum, which clamps anyway.

```mlir
%1 = "fxpmath.requantize"(%0, %m, %s) {storage_min = -128, storage_max = 127, ...}
%2 = stablehlo.clamp %low, %1, %high : (tensor<i8>, tensor<...xi8>, tensor<i8>) -> tensor<...xi8>
```
becomes one requantization with the intersection of both bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.annotations import FACTS, carry
from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ClampOp
from zeropoint.ir.weights import Weights


@dataclass
class FoldBounds(RewritePattern):
    """clamp(requantize(x)) -> requantize(x) with tighter bounds, if nothing else uses the unclamped result."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ClampOp, rewriter: PatternRewriter) -> None:
        """Rewrite one clamp."""
        producer = op.operand.owner
        if not isinstance(producer, RequantizeOp | WeightedSumOp) or not op.operand.has_one_use():
            return
        low, high = splat_value(op.min, self.weights), splat_value(op.max, self.weights)
        least, greatest = producer.storage_min.value.data, producer.storage_max.value.data
        # Bounds outside of the storage would widen it.
        if low is None or high is None or not least <= low <= high <= greatest:
            return
        folded = producer.clone()
        folded.storage_min, folded.storage_max = IntegerAttr(int(low), i64), IntegerAttr(int(high), i64)
        # The clamp is the kernel's last op, so it has the kernel's facts. They move to the new last op.
        carry(op, folded, FACTS)
        rewriter.replace(op, folded)


def fold_bounds(program: Program) -> Program:
    """A copy in which every clamp right after a requantization or weighted sum is folded into it."""
    program = program.for_change()
    PatternRewriteWalker(FoldBounds(program.weights), apply_recursively=False).rewrite_module(program.module)
    remove_dead_ops(program.entry)
    return program
