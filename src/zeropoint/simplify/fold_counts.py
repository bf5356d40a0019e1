"""Folds a window sum over a splat to a constant: the number times the count of elements in each window.

```mlir
%ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<1x5x5x2xf32>
%n = "stablehlo.reduce_window"(%ones, %zero) ({ add }) {window_dimensions = [1, 2, 2, 1], padding = ...}
```
becomes a constant. JAX divides by it to average over windows that extend beyond the image.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_op, splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


def _counts(op: ReduceWindowOp) -> Array:
    """The number of elements in each window: over all dimensions, the product of the numbers of taps in bounds."""
    sizes, outputs = shape_of(op.inputs[0]), shape_of(op.results[0])
    ones = (1,) * len(sizes)
    windows = array_values(op.window_dimensions)
    strides, dilations = array_values(op.window_strides, ones), array_values(op.window_dilations, ones)
    padding = padding_values(op.padding, len(sizes))
    along: list[Array] = []
    for axis, size in enumerate(sizes):
        taps = (
            np.arange(outputs[axis])[:, None] * strides[axis]
            - padding[axis][0]
            + np.arange(windows[axis]) * dilations[axis]
        )
        along.append(((taps >= 0) & (taps < size)).sum(axis=1))
    return np.asarray(reduce(np.multiply.outer, along))


def _is_count(op: ReduceWindowOp, weights: Weights) -> bool:
    body = list(op.body.block.ops)
    plain = all(step == 1 for step in array_values(op.base_dilations))
    adds = len(body) == 2 and isinstance(body[0], AddOp) and set(body[0].operands) == set(op.body.block.args)
    return plain and adds and len(op.inputs) == 1 and splat_value(op.init_values[0], weights) == 0


class FoldCount(RewritePattern):
    """reduce_window(splat, add) -> constant."""

    def __init__(self, weights: Weights):
        self.weights = weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceWindowOp, rewriter: PatternRewriter, /) -> None:
        """Replace a window sum by the number times the count of elements in each window."""
        number = splat_value(op.inputs[0], self.weights) if _is_count(op, self.weights) else None
        if number is None:
            return
        counts = (_counts(op) * number).astype(element_dtype(element_of(op.results[0])))
        rewriter.replace(op, constant_op(counts, self.weights, location=op.location))


def fold_counts(program: Program) -> Program:
    """A copy in which `reduce_window` with `add` over a splat is a constant."""
    program = program.for_change()
    rewrite(program, FoldCount(program.weights))
    remove_dead_ops(program.entry)
    return program
