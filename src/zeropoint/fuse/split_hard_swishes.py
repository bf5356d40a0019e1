"""Rewrites hard swishes as x * hard_sigmoid(x), for targets that have kernels for these but not for the hard swish.

```mlir
%0 = stablehlo.add %x, %three : tensor<4xf32>
%1 = stablehlo.clamp %zero, %0, %six : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
%2 = stablehlo.multiply %x, %1 : tensor<4xf32>
%3 = stablehlo.divide %2, %six_of_four : tensor<4xf32>
```
becomes
```mlir
%0 = stablehlo.multiply %x, (broadcast of 1/6) : tensor<4xf32>
%1 = stablehlo.add %0, (broadcast of 0.5) : tensor<4xf32>
%2 = stablehlo.clamp %zero, %1, %one : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
%3 = stablehlo.multiply %x, %2 : tensor<4xf32>
```
Results may differ in the last bit: 1/6 is rounded.

Source: ONNX, `HardSwish`: x * max(0, min(1, alpha * x + beta)), with alpha = 1/6 and beta = 0.5.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.fuse.elementwise import GENERIC, match_unary
from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ClampOp, DivideOp, MultiplyOp
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.ir.weights import Weights

WHOLE, FACTOR = "hard_swish", "hard_sigmoid"
PARTS = {FACTOR, "multiply"}


def split_hard_swishes(program: Program, kernels: Collection[str]) -> None:
    """Rewrite hard swishes in place.

    Does nothing for a target that has a kernel for hard swish or lacks one for a part.
    """
    if {WHOLE, GENERIC} & set(kernels) or not set(kernels) >= PARTS:
        return
    ops = list(program.entry.ops)
    # In a graph without kernels, `match_unary` returns the whole function, never a part of it.
    graph = FloatGraph(program.weights, {op: index for index, op in enumerate(ops)}, {})
    for op in reversed(ops):
        match = match_unary(op, graph) if isinstance(op, MultiplyOp | DivideOp) and op not in graph.covered else None
        if match is not None and match.function == WHOLE:
            graph.covered.update(match.ops)
            if not _is_split(match, graph):
                _split(match, program.weights)


def _is_split(match: RegionMatch, graph: FloatGraph) -> bool:
    """Whether the last op already multiplies x by its hard sigmoid."""
    (value,), root = match.inputs, match.ops[-1]
    others = [operand for operand in root.operands if operand is not value]
    if not isinstance(root, MultiplyOp) or len(others) != 1 or not isinstance(factor := others[0].owner, Operation):
        return False
    graph.covered.discard(factor)
    inner = match_unary(factor, graph)
    return inner is not None and inner.function == FACTOR


def _split(match: RegionMatch, weights: Weights) -> None:
    (value,), root = match.inputs, match.ops[-1]
    build = Builder(InsertPoint.before(root))
    dtype = element_dtype(element_of(value))

    def number(real: float) -> SSAValue:
        return build.insert(constant_op(np.array(real, dtype), weights)).output

    def filled(real: float) -> SSAValue:
        return build.insert(BroadcastInDimOp(number(real), value.type, [])).result

    made: list[Operation] = [scaled := build.insert(MultiplyOp(value, filled(1 / 6)))]
    made.append(moved := build.insert(AddOp(scaled.result, filled(0.5))))
    made.append(factor := build.insert(ClampOp(number(0), moved.result, number(1))))
    made.append(product := build.insert(MultiplyOp(value, factor.result)))
    for op in made:
        op.location = root.location
    root.results[0].replace_all_uses_with(product.result)
    for op in reversed(match.ops):
        Rewriter.erase_op(op)
