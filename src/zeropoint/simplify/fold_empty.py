"""Replaces values without elements by constants, and ops that read them by ops without them.

```mlir
%1 = stablehlo.exponential %x : tensor<2x0x4xf32>
%2 = "stablehlo.reduce"(%1, %zero) ({ add }) {dimensions = [1]} : (tensor<2x0x4xf32>, tensor<f32>) -> tensor<2x4xf32>
```
becomes
```mlir
%2 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
```
and `stablehlo.concatenate %x, %empty` becomes `%x`. Values without elements have no range, no kernel has anything to
compute for them, and TOSA has no tensors without elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import IsTerminator, Pure

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConcatenateOp, ConstantOp, DotGeneralOp, ReduceOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


def _is_empty(value: SSAValue) -> bool:
    """Whether a value is a tensor of numbers that has no elements."""
    return (
        isinstance(value.type, TensorType)
        and isinstance(element_of(value), AnyFloat | IntegerType)
        and 0 in shape_of(value)
    )


@dataclass
class FoldEmpty(RewritePattern):
    """An op whose results have no elements -> empty constants; a reduction of no elements -> its initial value.

    A concatenation loses its operands without elements.
    """

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Replace one pure op whose results need no computation."""
        if not op.results or isinstance(op, ConstantOp) or not op.has_trait(Pure) or op.has_trait(IsTerminator):
            return
        if all(map(_is_empty, op.results)):
            made = [self._constant(result, shape_of(result), op) for result in op.results]
            rewriter.replace(op, made, [one.output for one in made])
        elif isinstance(op, ReduceOp) and _is_empty(op.inputs[0]):
            _spread(op, op.init_values, rewriter)
        elif isinstance(op, DotGeneralOp) and _is_empty(op.lhs) and isinstance(element_of(op.result), AnyFloat):
            zero = self._constant(op.result, (), op)
            _spread(op, [zero.output], rewriter, [zero])
        elif isinstance(op, ConcatenateOp) and any(map(_is_empty, op.inputs)):
            _join_rest(op, rewriter)

    def _constant(self, like: SSAValue, shape: tuple[int, ...], op: Operation) -> ConstantOp:
        """Zeros of the element type of a value."""
        return constant_op(np.zeros(shape, element_dtype(element_of(like))), self.weights, location=op.location)


def _spread(
    op: Operation, scalars: Sequence[SSAValue], rewriter: PatternRewriter, first: Sequence[Operation] = ()
) -> None:
    """Replace each result of an op by the broadcast of a scalar. `first` are the ops that compute the scalars."""
    made = [BroadcastInDimOp(one, result.type, []) for one, result in zip(scalars, op.results, strict=True)]
    for one in made:
        one.location = op.location
    rewriter.replace(op, [*first, *made], [one.result for one in made])


def _join_rest(op: ConcatenateOp, rewriter: PatternRewriter) -> None:
    """Concatenate the operands that have elements. The result has elements, so at least one operand does."""
    kept = [value for value in op.inputs if not _is_empty(value)]
    if len(kept) == 1:
        rewriter.replace(op, (), kept)
        return
    made = ConcatenateOp(kept, op.dimension.value.data, op.result.type)
    made.location = op.location
    rewriter.replace(op, made)


def fold_empty(program: Program) -> Program:
    """A copy in which values without elements are constants, and no reduction, product or concatenation reads them."""
    program = program.for_change()
    rewrite(program, FoldEmpty(program.weights))
    remove_dead_ops(program.entry)
    return program
