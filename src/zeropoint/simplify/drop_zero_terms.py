"""Drop sums and differences with a constant of zeros, and replace products with one by zeros.

```mlir
%0 = stablehlo.dot_general %state, %weights, ... : (tensor<1x4xf32>, tensor<4x16xf32>) -> tensor<1x16xf32>
%1 = stablehlo.add %x, %0 : tensor<1x16xf32>
```
becomes `%x` if `%state` is zeros, as the initial state of an LSTM is. Attention without a mask adds a mask of zeros. A
kernel for these ops would round once more, and the scale of zeros is arbitrary. A bias of zeros stays, because
corrections change it.

A result may be -0 where it was 0, because -0 + 0 is 0, and 0 where it was -0 or, for values that are not finite, NaN.
Integer programs have neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_op, splat_value
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvolutionOp,
    DotGeneralOp,
    MultiplyOp,
    SubtractOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.fold_constants import fold_constants
from zeropoint.simplify.statements import rewrite


@dataclass
class DropZeroTerm(RewritePattern):
    """x + 0, 0 + x and x - 0 -> x, unless 0 is a bias."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp | SubtractOp, rewriter: PatternRewriter, /) -> None:
        """Replace one sum or difference by its other operand."""
        pairs = [(op.lhs, op.rhs)] if isinstance(op, SubtractOp) else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
        for value, other in pairs:
            if splat_value(other, self.weights) == 0 and not _is_bias(other, value):
                rewriter.replace(op, [], [value])
                return


def _is_bias(term: SSAValue, value: SSAValue) -> bool:
    """Whether a term has one number per channel and is added to a contraction. A mask has more dimensions."""
    spread = term.owner
    per_channel = isinstance(spread, BroadcastInDimOp) and len(shape_of(spread.operand)) == 1
    return per_channel and isinstance(value.owner, ContractionOp)


@dataclass
class DropZeroFactor(RewritePattern):
    """x * 0 and 0 * x -> 0 for elementwise products of floats; contractions of data that is 0 -> 0.

    Weights are not looked at, because all of them would have to be read from their file.
    """

    weights: Weights
    replaced: bool = False

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp | DotGeneralOp | ConvolutionOp, rewriter: PatternRewriter, /) -> None:
        """Replace one product by a broadcast zero."""
        element, factors = element_of(op.result), [op.lhs]
        if isinstance(op, MultiplyOp):
            factors.append(op.rhs)
        if not isinstance(element, AnyFloat) or DYNAMIC_INDEX in shape_of(op.result):
            return
        if not any(splat_value(one, self.weights) == 0 for one in factors):
            return
        zero = constant_op(np.zeros((), element_dtype(element)), self.weights, location=op.location)
        spread = BroadcastInDimOp(zero.output, op.result.type, [])
        spread.location = op.location
        rewriter.replace(op, [zero, spread], [spread.result])
        self.replaced = True


def drop_zero_terms(program: Program) -> Program:
    """A copy without terms and factors of zeros. What reads a product that is zeros is folded."""
    program = program.for_change()
    factors = DropZeroFactor(program.weights)
    both: list[RewritePattern] = [factors, DropZeroTerm(program.weights)]
    rewrite(program, GreedyRewritePatternApplier(both))  # one walk, because products may read such sums
    remove_dead_ops(program.entry)
    return fold_constants(program) if factors.replaced else program
