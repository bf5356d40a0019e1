"""Spell `argmax` and `argmin` of JAX, a reduction of values and positions, as the ops of the kernels `arg_max` and
`arg_min` (`fuse/positions.py`).

```mlir
%i = stablehlo.iota dim = 1 : tensor<2x8xi32>
%v, %p = stablehlo.reduce(%x init: %lowest), (%i init: %zero) across dimensions = [1]   // greater, or NaN, or first
```
becomes
```mlir
%v = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1]
%w = stablehlo.broadcast_in_dim %v, dims = [0]
%e = stablehlo.compare EQ, %x, %w
%c = stablehlo.select %e, %i, %last
%p = stablehlo.reduce(%c init: %last) applies stablehlo.minimum across dimensions = [1]
```
Only `%p` may be read. The result is the same unless there are NaN, of which a quantized network has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AndOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    IotaOp,
    MaximumOp,
    MinimumOp,
    OrOp,
    ReduceOp,
    SelectOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

_EXTREMES = {ComparisonDirection.GT: MaximumOp, ComparisonDirection.LT: MinimumOp}


@dataclass
class SinglePosition(RewritePattern):
    """reduce(values, positions) -> reduce, compare, select, reduce, if only the position is read."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceOp, rewriter: PatternRewriter, /) -> None:
        """Replace one reduction."""
        kind, axes = _extreme(op), array_values(op.dimensions)
        if kind is None or len(axes) != 1 or any(op.results[0].uses):
            return
        values, positions = op.inputs
        counts = positions.owner
        shape, axis = shape_of(values), axes[0]
        is_counting = isinstance(counts, IotaOp) and counts.iota_dimension.value.data == axis
        if not isinstance(element_of(values), AnyFloat) or not is_counting or not shape[axis]:
            return
        element, number = element_of(values), element_of(positions)
        kept = [size for dim, size in enumerate(shape) if dim != axis]
        dims = [dim for dim in range(len(shape)) if dim != axis]
        end = constant_op(np.array(shape[axis] - 1, element_dtype(number)), self.weights, location=op.location)
        greatest = ReduceOp(
            [values], [op.init_values[0]], [TensorType(element, kept)], [axis], binary_body(kind, element)
        )
        wide = BroadcastInDimOp(greatest.results[0], values.type, dims)
        equal = CompareOp(values, wide.result, ComparisonDirection.EQ)
        ends = BroadcastInDimOp(end.output, positions.type, [])
        chosen = SelectOp(equal.result, positions, ends.result)
        first = ReduceOp(
            [chosen.result], [end.output], [TensorType(number, kept)], [axis], binary_body(MinimumOp, number)
        )
        made = [end, greatest, wide, equal, ends, chosen, first]
        for each in made:
            each.location = op.location
        rewriter.replace(op, made, [None, first.results[0]])


def _extreme(op: ReduceOp) -> type[MaximumOp] | type[MinimumOp] | None:
    """The op whose extreme the body of a reduction finds, with the first position; None for any other body."""
    last = op.body.block.last_op
    if len(op.inputs) != 2 or last is None:
        return None
    a, c, b, d = op.body.block.args
    best, at = (value.owner for value in last.operands)
    if not isinstance(best, SelectOp) or not isinstance(at, SelectOp):
        return None
    for direction, kind in _EXTREMES.items():
        goes = [_compared(direction, a, b), _compared(ComparisonDirection.NE, a, a)]
        ties = [_compared(ComparisonDirection.EQ, a, b), _compared(ComparisonDirection.LT, c, d)]
        if not _is(best.pred, OrOp, goes) or (best.on_true, best.on_false) != (a, b):
            continue
        tied = partial(_is, kind=AndOp, parts=ties)
        if _is(at.pred, OrOp, [partial(is_, best.pred), tied]) and (at.on_true, at.on_false) == (c, d):
            return kind
    return None


def _compared(direction: ComparisonDirection, lhs: SSAValue, rhs: SSAValue) -> Callable[[SSAValue], bool]:
    """Whether a value is a comparison of two others."""

    def check(value: SSAValue) -> bool:
        op = value.owner
        if not isinstance(op, CompareOp) or op.comparison_direction.data is not direction:
            return False
        return op.lhs is lhs and op.rhs is rhs

    return check


def _is(value: SSAValue, kind: type[Operation], parts: Sequence[Callable[[SSAValue], bool]]) -> bool:
    """Whether a value is made by an op of a kind whose operands are the given ones."""
    op = value.owner
    return isinstance(op, kind) and all(part(operand) for part, operand in zip(parts, op.operands, strict=True))


def single_positions(program: Program) -> Program:
    """A copy with the positions of extremes as single reductions."""
    program = program.for_change()
    rewrite(program, SinglePosition(program.weights))
    remove_dead_ops(program.entry)
    return program
