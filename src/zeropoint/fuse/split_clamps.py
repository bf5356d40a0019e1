"""Take clamps apart for targets that have no kernel with such bounds, but kernels for one bound at a time.

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

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.fuse.elementwise import GENERIC
from zeropoint.fuse.functions import POINTS, function_kernel
from zeropoint.ir.constants import splat_value
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import BroadcastInDimOp, ClampOp, MaximumOp, MinimumOp
from zeropoint.ir.tensors import shape_of

ONE_BOUND = {"maximum", "minimum"}


def split_clamps(program: Program, kernels: Collection[str]) -> None:
    """Split the clamps by numbers whose bounds are no kernel of a target that has `maximum` and `minimum`; in place."""
    if GENERIC in kernels or not set(kernels) >= ONE_BOUND:
        return
    for op in [op for op in program.entry.ops if isinstance(op, ClampOp)]:
        low, high = splat_value(op.min, program.weights), splat_value(op.max, program.weights)
        if low is None or high is None or function_kernel(np.clip(POINTS, low, high)) in kernels:
            continue
        builder = Builder(InsertPoint.before(op))

        def like(bound: SSAValue, op: ClampOp = op, builder: Builder = builder) -> SSAValue:
            if shape_of(bound) == shape_of(op.result):
                return bound
            return builder.insert(BroadcastInDimOp(bound, op.result.type, [])).result

        at_least = builder.insert(MaximumOp(op.operand, like(op.min)))
        at_most = MinimumOp(at_least.result, like(op.max))
        at_least.location = at_most.location = op.location
        Rewriter.replace_op(op, at_most)
