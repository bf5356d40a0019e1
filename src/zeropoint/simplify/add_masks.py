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
moved in between. All its readers must subtract it, as the layers of a network do: others would see the other sign.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
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
    """scores - mask -> scores + (-mask), if the mask has 0 and numbers of at least 1000.

    `negated` has the negated masks, which the layers of a network share.
    """

    weights: Weights
    negated: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubtractOp, rewriter: PatternRewriter, /) -> None:
        """Replace one difference by a sum."""
        if constant_array(op.lhs, self.weights) is not None:
            return
        mask = self._negated(op.rhs, op, rewriter)
        if mask is None:
            return
        made = AddOp(op.lhs, mask)
        made.location = op.location
        rewriter.replace(op, made)

    def _negated(
        self, value: SSAValue, reader: Operation, rewriter: PatternRewriter, *, factor: bool = False
    ) -> SSAValue | None:
        """A mask with the other sign: ops like those that make it, from a negated constant; None for other values.

        `factor`: the value is a factor of the mask. Factors of factors are not followed.
        """
        if value in self.negated:
            return self.negated[value]
        array = constant_array(value, self.weights)
        if array is not None:
            if not _hides(array):
                return None
            opposite = constant_op(-array, self.weights, location=reader.location)
            rewriter.insert(opposite, InsertPoint.before(reader))
            return opposite.output
        op = value.owner
        if not _is_subtracted(value):
            return None
        places = (0,) if isinstance(op, _MOVES) else (0, 1) if isinstance(op, MultiplyOp) and not factor else ()
        for index in places:
            assert isinstance(op, Operation)
            inner = self._negated(op.operands[index], op, rewriter, factor=factor or isinstance(op, MultiplyOp))
            if inner is not None:
                made = op.clone()
                made.operands[index] = inner
                rewriter.insert(made, InsertPoint.before(op))
                self.negated[value] = made.results[0]
                return made.results[0]
        return None


def _is_subtracted(value: SSAValue) -> bool:
    """Whether all readers subtract a value, or move or scale it for readers that do."""
    return all(
        (isinstance(use.operation, SubtractOp) and use.index == 1)
        or (isinstance(use.operation, _MOVES | MultiplyOp) and _is_subtracted(use.operation.results[0]))
        for use in value.uses
    )


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
