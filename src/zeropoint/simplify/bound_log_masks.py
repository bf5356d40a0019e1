"""Bound logarithms that are masks, so that 0 becomes a very negative number instead of -inf.

```mlir
%m = stablehlo.log %keep
%0 = stablehlo.add %scores, %m        a softmax reads the sum
```
becomes
```mlir
%l = stablehlo.log %keep
%m = stablehlo.maximum %l, %least
```
`%least` is the least finite number of the type. The softmax gives the same bits, because both numbers hide a score. A
row that is hidden as a whole is uniform instead of NaN. Calibration leaves infinities out of a range, so without the
bound the mask `log(keep)` of zeros and ones has the range [0, 0], and hides nothing. The passes about masks
(`solve/masks/bound_masks.py`) find the bounded one. If the model compares the masked scores, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_op
from zeropoint.ir.masks import MOVES, Known, is_mask
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, CompareOp, LogOp, MaximumOp
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass
class BoundLogMask(RewritePattern):
    """log(keep) -> max(log(keep), least), if the logarithm is added to scores that a softmax reads."""

    weights: Weights
    known: Known = field(default_factory=dict[SSAValue, bool])

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LogOp, rewriter: PatternRewriter, /) -> None:
        """Bound one logarithm."""
        if not is_mask(op.result, self.known) or _is_compared(op.result):
            return
        least = np.array(np.finfo(element_dtype(element_of(op.result))).min)
        number = constant_op(least, self.weights, location=op.location)
        every = BroadcastInDimOp(number.output, op.result.type, ())
        bounded = MaximumOp(op.result, every.result)
        every.location = bounded.location = op.location
        op.result.replace_uses_with_if(bounded.result, lambda use: use.operation is not bounded)
        rewriter.insert([number, every, bounded], InsertPoint.after(op))


def _is_compared(value: SSAValue) -> bool:
    """Whether a comparison reads a value, or what movements and sums make of it."""
    found = [value]
    for each in found:
        for use in each.uses:
            if isinstance(use.operation, CompareOp):
                return True
            if isinstance(use.operation, (*MOVES, AddOp)) and use.operation.results[0] not in found:
                found.append(use.operation.results[0])
    return False


def bound_log_masks(program: Program) -> Program:
    """A copy in which logarithms that are masks are finite."""
    program = program.for_change()
    rewrite(program, BoundLogMask(program.weights))
    return program
