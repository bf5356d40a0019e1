"""Drop sums and differences with a constant of zeros.

```mlir
%0 = stablehlo.add %x, %zeros : tensor<1x4x16x16xf32>
```
becomes `%x`. Attention without a mask adds a mask of zeros. A kernel for this sum would round once more, and the scale
of the zeros is arbitrary. A result may be -0 where it was 0, because -0 + 0 is 0. A bias of zeros stays, because
corrections change it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import splat_value
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, SubtractOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass
class DropZeroTerm(RewritePattern):
    """x + 0, 0 + x and x - 0 -> x, unless 0 is a bias or x is a constant."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp | SubtractOp, rewriter: PatternRewriter, /) -> None:
        """Replace one sum or difference by its other operand."""
        pairs = [(op.lhs, op.rhs)] if isinstance(op, SubtractOp) else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
        for value, other in pairs:
            if self._is_zero(other) and not self._is_zero(value) and not _is_bias(other, value):
                rewriter.replace(op, [], [value])
                return

    def _is_zero(self, value: SSAValue) -> bool:
        return splat_value(value, self.weights) == 0


def _is_bias(term: SSAValue, value: SSAValue) -> bool:
    """Whether a term has one number per channel and is added to a contraction. A mask has more dimensions."""
    spread = term.owner
    per_channel = isinstance(spread, BroadcastInDimOp) and len(shape_of(spread.operand)) == 1
    return per_channel and isinstance(value.owner, ContractionOp)


def drop_zero_terms(program: Program) -> Program:
    """A copy without zero terms."""
    program = program.for_change()
    rewrite(program, DropZeroTerm(program.weights))
    remove_dead_ops(program.entry)
    return program
