"""Replaces questions about a choice of two numbers by the truth value that chose.

```mlir
%m = stablehlo.select %seen, %zero, %lowest          0 where seen, -3.4e38 elsewhere
%h = stablehlo.convert %m : (tensor<1x4xf32>) -> tensor<1x4xi1>
```
becomes `%h = stablehlo.not %seen`; and `stablehlo.compare EQ, %m, %zero` becomes `%seen`. PyTorch modules make masks of
numbers from truth values, and truth values from these again, which needs no floats. A question with the same answer for
both numbers is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import CompareOp, ConvertOp, NotOp, SelectOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.functions import compare
from zeropoint.simplify.statements import rewrite


@dataclass
class FoldDecided(RewritePattern):
    """convert(select(p, a, b)) to i1, and compare(select(p, a, b), c) -> p or not p, for floats a, b and c."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvertOp | CompareOp, rewriter: PatternRewriter, /) -> None:
        """Replace one conversion or comparison."""
        answers = self._converted(op) if isinstance(op, ConvertOp) else self._compared(op)
        if answers is None:
            return
        chosen, if_true, if_false = answers
        if if_true == if_false or shape_of(chosen) != shape_of(op.result):
            return
        if if_true:
            rewriter.replace(op, [], [chosen])
            return
        opposite = NotOp(chosen)
        opposite.location = op.location
        rewriter.replace(op, [opposite], [opposite.result])

    def _converted(self, op: ConvertOp) -> tuple[SSAValue, bool, bool] | None:
        choice = self._choice(op.operand)
        if choice is None or element_of(op.result) != i1:
            return None
        chosen, first, second = choice
        return chosen, first != 0, second != 0

    def _compared(self, op: CompareOp) -> tuple[SSAValue, bool, bool] | None:
        if op.compare_type is not None and op.compare_type.data.value == "TOTALORDER":
            return None
        direction = op.comparison_direction.data.value

        def answer(one: float, other: float) -> bool:
            return bool(compare(np.asarray(one), np.asarray(other), direction))

        left, right = self._choice(op.lhs), self._choice(op.rhs)
        if left is not None and (number := splat_value(op.rhs, self.weights)) is not None:
            return left[0], answer(left[1], number), answer(left[2], number)
        if right is not None and (number := splat_value(op.lhs, self.weights)) is not None:
            return right[0], answer(number, right[1]), answer(number, right[2])
        return None

    def _choice(self, value: SSAValue) -> tuple[SSAValue, float, float] | None:
        """The truth value that chooses one of two float numbers, and the numbers."""
        op = value.owner
        if not isinstance(op, SelectOp) or not isinstance(element_of(value), AnyFloat):
            return None
        first, second = splat_value(op.on_true, self.weights), splat_value(op.on_false, self.weights)
        return None if first is None or second is None else (op.pred, first, second)


def fold_decided(program: Program) -> Program:
    """A copy in which truth values are not read from masks of numbers that other truth values chose."""
    program = program.for_change()
    rewrite(program, FoldDecided(program.weights))
    remove_dead_ops(program.entry)
    return program
