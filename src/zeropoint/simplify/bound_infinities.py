"""Replace -inf in added constants by -1e9 if only functions that saturate read the sum.

```mlir
%mask = stablehlo.constant dense<[0.0, 0xFF800000]> : tensor<2xf32>
%0 = stablehlo.add %x, %mask
%1 = stablehlo.logistic %0
```
becomes
```mlir
%mask = stablehlo.constant dense<[0.0, -1.000000e+09]> : tensor<2xf32>
%0 = stablehlo.add %x, %mask
%1 = stablehlo.logistic %0                                            0 in both
```
So a mask before a gate, a relu or a soft plus becomes the bias of a kernel, which needs finite numbers. Before a relu,
the number is raised further (`solve/bound_terms.py`). Masks of a softmax are bounded by the scores
(`solve/bound_masks.py`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MinimumOp,
    NegateOp,
    ReshapeOp,
    TanhOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

FAR = -1e9
"""Far below every score; exporters write finite masks with it."""
MOVES = ReshapeOp | TransposeOp


class BoundInfinities(RewritePattern):
    """add(x, constant with -inf) -> add(x, constant with -1e9)."""

    def __init__(self, weights: Weights):
        self.weights = weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        """Replace the constant of a sum of floats that only saturating functions read."""
        if not isinstance(element_of(op.result), AnyFloat) or not _saturates(op.result, self.weights):
            return
        for index, value in enumerate(op.operands):
            made = self._bounded(value)
            if made:
                rewriter.insert(made)
                op.operands[index] = made[-1].results[0]
                rewriter.notify_op_modified(op)
                return

    def _bounded(self, value: SSAValue) -> list[Operation]:
        """The ops of a constant, which may be broadcast, without -inf; none if it has no -inf or other such numbers."""
        maker = value.owner
        spread = maker if isinstance(maker, BroadcastInDimOp) else None
        array = constant_array(value if spread is None else spread.operand, self.weights)
        if array is None or not bool(np.isneginf(array).any()):
            return []
        finite = np.where(np.isneginf(array), np.array(FAR, array.dtype), array)
        if not np.isfinite(finite).all():
            return []
        assert isinstance(value, OpResult)
        constant = constant_op(finite, self.weights, location=value.op.location)
        if spread is None:
            return [constant]
        wide = BroadcastInDimOp(constant.output, spread.result.type, list(array_values(spread.broadcast_dimensions)))
        wide.location = spread.location
        return [constant, wide]


def _saturates(value: SSAValue, weights: Weights, sign: int = -1) -> bool:
    """Whether only functions with the same result at 1e9 and at inf, of the given sign, read a value."""
    readers = [use.operation for use in value.uses]
    return bool(readers) and all(_is_flat(reader, weights, sign) for reader in readers)


def _is_flat(reader: Operation, weights: Weights, sign: int) -> bool:
    """Whether an op, with what follows it, has the same result for an operand of 1e9 and of inf."""
    if isinstance(reader, MOVES):
        return _saturates(reader.results[0], weights, sign)
    if isinstance(reader, AbsOp | NegateOp):
        return _saturates(reader.result, weights, 1 if isinstance(reader, AbsOp) else -sign)
    if isinstance(reader, MaximumOp | MinimumOp):
        numbers = [splat_value(one, weights) for one in reader.operands]
        is_bound = any(number is not None and abs(number) < -FAR for number in numbers)
        return is_bound and sign == (-1 if isinstance(reader, MaximumOp) else 1)
    return isinstance(reader, LogisticOp | TanhOp) or (isinstance(reader, ExponentialOp) and sign < 0)


def bound_infinities(program: Program) -> Program:
    """Replace -inf in constants by -1e9 where every reader of the sum gives the same results."""
    program = program.clone()
    rewrite(program, BoundInfinities(program.weights))
    remove_dead_ops(program.entry)
    return program
