"""Add masks that are subtracted, so that the passes about masks (`solve/masks/bound_masks.py`) find them.

```mlir
%m = stablehlo.multiply %hidden, %c10000
%0 = stablehlo.subtract %scores, %m
```
becomes
```mlir
%m = stablehlo.multiply %hidden, %cminus10000
%0 = stablehlo.add %scores, %m
```
Results have the same bits. The mask may be a constant, as in `scores - 1e10 * (1 - causal)` of GPT-2, and it may be
moved in between. It must be read here only, because other readers would see the other sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    MultiplyOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

_MOVES = BroadcastInDimOp | ReshapeOp | SliceOp | TransposeOp


@dataclass
class AddMask(RewritePattern):
    """scores - mask -> scores + (-mask), if the mask has 0 and numbers of at least 1000."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        """Replace one difference by a sum."""
        found = self._number(op, 1)
        if found is None or constant_array(op.lhs, self.weights) is not None:
            return
        reader, index, array = found
        negated = constant_op(-array, self.weights, location=op.location)
        rewriter.insert(negated, InsertPoint.before(reader))
        reader.operands[index] = negated.output
        made = AddOp(op.lhs, op.rhs)
        made.location = op.location
        rewriter.replace(op, made)

    def _number(self, reader: Operation, index: int, *, factor: bool = False) -> tuple[Operation, int, Array] | None:
        """The constant whose sign is that of a subtracted mask: its reader, the index of the operand, and its elements.

        `factor`: the constant is a factor of the mask.
        """
        value: SSAValue = reader.operands[index]
        array = constant_array(value, self.weights)
        if array is not None:
            return (reader, index, array) if _hides(array) else None
        if not isinstance(value, OpResult) or not value.has_one_use():
            return None
        if isinstance(value.op, _MOVES):
            return self._number(value.op, 0, factor=factor)
        if isinstance(value.op, MultiplyOp) and not factor:
            found = (self._number(value.op, operand, factor=True) for operand in (0, 1))
            return next((each for each in found if each is not None), None)
        return None


def _hides(array: Array) -> bool:
    """Whether an array has numbers that hide scores if they are subtracted, and zeros beside them."""
    return (
        array.dtype.kind == "f" and bool(array.size) and bool(((array == 0) | (array >= -HIDDEN)).all() and array.any())
    )


def add_masks(program: Program) -> Program:
    """A copy in which masks are added, not subtracted."""
    program = program.for_change()
    rewrite(program, AddMask(program.weights))
    remove_dead_ops(program.entry)
    return program
