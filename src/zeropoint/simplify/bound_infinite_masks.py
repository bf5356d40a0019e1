"""Bound masks that become -inf, so that they have a very negative number instead.

```mlir
%m = stablehlo.log %keep
%0 = stablehlo.add %scores, %m        a softmax reads the sum
```
becomes
```mlir
%l = stablehlo.log %keep
%m = stablehlo.maximum %l, %least
```
and `stablehlo.select %seen, %zero, %infinite` selects from `%zero` and `%least`, the least finite number of the type.
The softmax gives the same bits, because both numbers hide a score. A row that is hidden as a whole is uniform instead
of NaN. Calibration leaves infinities out of a range, so without the bound the mask `log(keep)` of zeros and ones, or a
selection of 0 and -inf, has the range [0, 0], and hides nothing. The passes about masks (`solve/masks/bound_masks.py`)
find the bounded one. The mask may be combined with others before it is added (`ir/masks.py`). If other ops read the
selection, too, the mask is a copy. If the model compares the masked scores, nothing is changed. Nor is a selection if
the model asks for NaN or infinities afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_op, splat_value
from zeropoint.ir.masks import Masks, combines_masks
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    CompareOp,
    ConvolutionOp,
    DotGeneralOp,
    IsFiniteOp,
    LogOp,
    MaximumOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass
class BoundLogMask(RewritePattern):
    """log(keep) -> max(log(keep), least), if the logarithm is added to scores that a softmax reads."""

    weights: Weights
    masks: dict[Block | None, Masks]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LogOp, rewriter: PatternRewriter, /) -> None:
        """Bound one logarithm."""
        if op.result not in self.masks.get(op.parent_block(), ()) or _is_compared(op.result, self.weights):
            return
        number = constant_op(_least(op.result), self.weights, location=op.location)
        every = BroadcastInDimOp(number.output, op.result.type, ())
        bounded = MaximumOp(op.result, every.result)
        every.location = bounded.location = op.location
        op.result.replace_uses_with_if(bounded.result, lambda use: use.operation is not bounded)
        rewriter.insert([number, every, bounded], InsertPoint.after(op))


@dataclass
class BoundSelectedMask(RewritePattern):
    """select(seen, x, -inf) -> select(seen, x, least), if the selection is added to scores that a softmax reads."""

    weights: Weights
    masks: dict[Block | None, Masks]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOp, rewriter: PatternRewriter, /) -> None:
        """Bound the constants of one selection."""
        infinite = [index for index in (1, 2) if self._is_infinite(op.operands[index])]
        found = self.masks.get(op.parent_block()) if infinite else None
        masked = [] if found is None else [use for use in op.result.uses if found.reads(use)]
        if not masked:
            return
        if _is_compared(op.result, self.weights) or _is_tested(op.result, self.weights):
            return
        number = constant_op(_least(op.result), self.weights, location=op.location)
        every = BroadcastInDimOp(number.output, op.result.type, ())
        every.location = op.location
        rewriter.insert([number, every], InsertPoint.before(op))
        bounded = op
        if len(masked) < len(list(op.result.uses)):
            bounded = op.clone()
            rewriter.insert(bounded, InsertPoint.after(op))
            for use in masked:
                use.operation.operands[use.index] = bounded.result
        for index in infinite:
            bounded.operands[index] = every.result
        rewriter.handle_operation_modification(op)

    def _is_infinite(self, value: SSAValue) -> bool:
        return isinstance(element_of(value), AnyFloat) and splat_value(value, self.weights) == -np.inf


def _least(value: SSAValue) -> Array:
    """The least finite number of a value's type."""
    infinite = np.array(-np.inf, element_dtype(element_of(value)))
    return np.nextafter(infinite, np.zeros_like(infinite))


def _is_compared(value: SSAValue, weights: Weights) -> bool:
    """Whether a comparison reads a value, or what movements, sums and other combinations make of it."""
    found = [value]
    for each in found:
        for use in each.uses:
            if isinstance(use.operation, CompareOp):
                return True
            if combines_masks(use, weights) and use.operation.results[0] not in found:
                found.append(use.operation.results[0])
    return False


def _is_tested(value: SSAValue, weights: Weights) -> bool:
    """Whether the model asks for NaN or infinities in what it computes from a mask, up to the second product.

    `solve/widths/keep_tested.py` keeps such values float, and they need the -inf.
    """
    reached = {value: 0}
    pending = [value]
    for each in pending:
        for use in each.uses:
            op = use.operation
            if isinstance(op, IsFiniteOp) or (isinstance(op, CompareOp) and _asks(op, weights)):
                return True
            products = reached[each] + isinstance(op, DotGeneralOp | ConvolutionOp)
            for result in op.results:
                if products < reached.get(result, 2):
                    reached[result] = products
                    pending.append(result)
    return False


def _asks(op: CompareOp, weights: Weights) -> bool:
    """Whether a comparison is true for NaN or infinite numbers only."""
    numbers = [splat_value(value, weights) for value in op.operands]
    return op.lhs is op.rhs or any(number is not None and np.isinf(number) for number in numbers)


def bound_infinite_masks(program: Program) -> Program:
    """A copy in which masks are finite."""
    program = program.for_change()
    functions = [op for op in program.module.ops if isinstance(op, FuncOp)]
    blocks = [block for function in functions for block in function.body.blocks]
    found: dict[Block | None, Masks] = {block: Masks(block, program.weights) for block in blocks}
    rewrite(program, BoundLogMask(program.weights, found), BoundSelectedMask(program.weights, found))
    return program
