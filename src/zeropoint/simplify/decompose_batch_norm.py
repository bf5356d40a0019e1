"""Decomposes a float batch norm with constant parameters into a `multiply` and an `add` of constants per channel.

```mlir
%0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{feature_index = 1, ...}>
```
becomes, with a = scale / sqrt(variance + epsilon) and b = offset - mean * a,
```mlir
%0 = stablehlo.broadcast_in_dim %a, dims = [1]
%1 = stablehlo.multiply %x, %0
%2 = stablehlo.broadcast_in_dim %b, dims = [1]
%3 = stablehlo.add %1, %2
```
a and b are computed in f64 and rounded once. `fold_batch_norm` then folds them into a preceding contraction; otherwise
they are kernels of their own.

Source: the StableHLO specification, "batch_norm_inference".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BatchNormInferenceOp, BroadcastInDimOp, MultiplyOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


class DecomposeBatchNorm(RewritePattern):
    """batch_norm_inference(x, constants) -> x * a + b."""

    def __init__(self, weights: Weights):
        self.weights = weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BatchNormInferenceOp, rewriter: PatternRewriter, /) -> None:
        """Replace a batch norm of floats whose parameters are constants."""
        found = _affine(op, self.weights)
        if found is None:
            return
        dtype = element_dtype(element_of(op.operand))
        made: list[Operation] = []
        for array, kind in zip(found, (MultiplyOp, AddOp), strict=True):
            constant = constant_op(array.astype(dtype), self.weights)
            spread = BroadcastInDimOp(constant.output, op.operand.type, [op.feature])
            made += [constant, spread, kind(made[-1].results[0] if made else op.operand, spread.result)]
        for each in made:
            each.location = op.location
        rewriter.replace(op, made)


def _affine(op: BatchNormInferenceOp, weights: Weights) -> tuple[Array, Array] | None:
    """The factor and the offset per channel, in f64; None if a parameter is computed or they are not finite."""
    known = [array for value in op.operands[1:] if (array := _parameter(value, weights)) is not None]
    is_dynamic = any(size < 0 for size in shape_of(op.operand))
    if len(known) < 4 or not isinstance(element_of(op.operand), AnyFloat) or is_dynamic:
        return None
    scale, offset, mean, variance = known
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + op.epsilon.value.data)
        shift = offset - mean * factor
    return (factor, shift) if np.isfinite(factor).all() and np.isfinite(shift).all() else None


def _parameter(value: SSAValue, weights: Weights) -> Array | None:
    """A constant or broadcast constant parameter in f64; None for others."""
    array, number = constant_array(value, weights), splat_value(value, weights)
    if array is None and number is not None:
        array = np.full(shape_of(value), number)
    return None if array is None else array.astype(np.float64)


def decompose_batch_norm(program: Program) -> Program:
    """A copy in which float `batch_norm_inference` with constant parameters are decomposed."""
    program = program.for_change()
    rewrite(program, DecomposeBatchNorm(program.weights))
    remove_dead_ops(program.entry)
    return program
