"""Splits clamps into maximum and minimum, for targets that have kernels for these but not for the whole clamp.

```mlir
%0 = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
```
becomes
```mlir
%1 = stablehlo.maximum %x, (broadcast of %low) : tensor<4xf32>
%0 = stablehlo.minimum %1, (broadcast of %high) : tensor<4xf32>
```
Source: the StableHLO specification, `clamp`: minimum(maximum(operand, min), max).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from zeropoint.fuse.elementwise import GENERIC
from zeropoint.ir.constants import splat_value
from zeropoint.ir.named_functions import POINTS, function_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import BroadcastInDimOp, ClampOp, MaximumOp, MinimumOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights

ONE_BOUND = {"maximum", "minimum"}


@dataclass
class SplitClamp(RewritePattern):
    """clamp(low, x, high) -> minimum(maximum(x, low), high), unless the target has a kernel for it, such as relu6."""

    weights: Weights
    kernels: Collection[str]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ClampOp, rewriter: PatternRewriter) -> None:
        """Rewrite one clamp with constant bounds."""
        low, high = splat_value(op.min, self.weights), splat_value(op.max, self.weights)
        if low is None or high is None or function_kernel(np.clip(POINTS, low, high)) in self.kernels:
            return

        def like(bound: SSAValue) -> SSAValue:
            if shape_of(bound) == shape_of(op.result):
                return bound
            return rewriter.insert(BroadcastInDimOp(bound, op.result.type, [])).result

        at_least = rewriter.insert(MaximumOp(op.operand, like(op.min)))
        at_most = MinimumOp(at_least.result, like(op.max))
        at_least.location = at_most.location = op.location
        rewriter.replace(op, at_most)


def split_clamps(program: Program, kernels: Collection[str]) -> None:
    """Split clamps in place. Does nothing for a target with generic functions or without `maximum` and `minimum`."""
    if GENERIC in kernels or not set(kernels) >= ONE_BOUND:
        return
    pattern = SplitClamp(program.weights, kernels)
    PatternRewriteWalker(pattern, apply_recursively=False).rewrite_module(program.module)
