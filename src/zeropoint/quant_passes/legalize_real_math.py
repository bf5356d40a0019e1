"""Expands real math ops on floats into StableHLO ops.

```mlir
%0 = "fxpmath.real_matmul_bias"(%x, %w, %b) <{clamp_min = 0.0 : f64}>
       : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
```
becomes
```mlir
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ...
%1 = stablehlo.add %0, (broadcast of %b along axis 1) : tensor<2x4xf32>
%2 = stablehlo.maximum %1, (broadcast of 0.0) : tensor<2x4xf32>
```
A float program in real math ops is then quantized like any other. Real math ops on quantized values stay; `lower` turns
them into integer ops. If the profile computes one in floats, `lower` turns it into StableHLO with a
`zeropoint.float_reason`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import FLOAT_REASON, carry
from zeropoint.ir.constants import constant_op
from zeropoint.ir.fxpmath.real_ops import COMPARISONS, is_real
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

Add = Callable[[Operation], SSAValue]
"""Inserts an op with one result."""


def _splat(add: Add, number: float, like: SSAValue, weights: Weights) -> SSAValue:
    scalar = add(constant_op(np.asarray(number).astype(element_dtype(element_of(like))), weights))
    return add(hlo.BroadcastInDimOp(scalar, like.type, []))


def _binary(kind: type[hlo.BinaryOp]) -> Callable[[Add, Any, Weights], SSAValue]:
    def made(add: Add, op: fxp.RealAddEwOp, weights: Weights) -> SSAValue:
        del weights
        return add(kind(op.lhs, op.rhs))

    return made


FUNCTIONS: Mapping[str, type[hlo.UnaryOp]] = {
    "TANH": hlo.TanhOp,
    "SIGMOID": hlo.LogisticOp,
    "EXP": hlo.ExponentialOp,
    "LOG": hlo.LogOp,
    "NEG": hlo.NegateOp,
    "RSQRT": hlo.RsqrtOp,
    "SIN": hlo.SineOp,
    "SQRT": hlo.SqrtOp,
}


def _unary(add: Add, op: fxp.RealUnaryEwOp, weights: Weights) -> SSAValue:
    name = op.fn.data
    if op.compares:
        zero = _splat(add, 0.0, op.operand, weights)
        return add(hlo.CompareOp(op.operand, zero, hlo.ComparisonDirection[COMPARISONS[name]]))
    if name == "IDENTITY":
        return op.operand
    if name == "SQUARE":
        return add(hlo.MultiplyOp(op.operand, op.operand))
    return add(FUNCTIONS[name](op.operand))


def _matmul(add: Add, op: fxp.RealMatMulOp | fxp.RealMatMulBiasOp, weights: Weights) -> SSAValue:
    del weights
    rank = len(shape_of(op.lhs))
    batch = tuple(range(rank - 2))
    dimensions = hlo.DotDimensions(batch, batch, (rank - 1,), (rank - 2,))
    product = add(hlo.DotGeneralOp(op.lhs, op.rhs, op.result.type, dimensions))
    if isinstance(op, fxp.RealMatMulOp):
        return product
    return add(hlo.AddOp(product, add(hlo.BroadcastInDimOp(op.bias, op.result.type, [rank - 1]))))


LEGALIZATIONS: Mapping[type[Operation], Callable[[Add, Any, Weights], SSAValue]] = {
    fxp.RealAddEwOp: _binary(hlo.AddOp),
    fxp.RealDivEwOp: _binary(hlo.DivideOp),
    fxp.RealMatMulBiasOp: _matmul,
    fxp.RealMatMulOp: _matmul,
    fxp.RealMulEwOp: _binary(hlo.MultiplyOp),
    fxp.RealSubEwOp: _binary(hlo.SubtractOp),
    fxp.RealUnaryEwOp: _unary,
}


def _clamped(add: Add, op: fxp.ClampedRealOp, value: SSAValue, weights: Weights) -> SSAValue:
    for bound, kind in zip(op.bounds, (hlo.MaximumOp, hlo.MinimumOp), strict=True):
        value = value if bound is None else add(kind(value, _splat(add, bound, value, weights)))
    return value


def legalize_real_math(program: Program) -> Program:
    """Expand every real math op on floats; the program itself if there is none."""
    if not any(isinstance(op, fxp.ClampedRealOp) and is_real(op) for op in program.module.walk()):
        return program
    program = program.for_change()
    for op in list(program.module.walk()):
        if not isinstance(op, fxp.ClampedRealOp) or not is_real(op):
            continue
        builder = Builder(InsertPoint.before(op))

        def add(made: Operation, builder: Builder = builder, op: Operation = op) -> SSAValue:
            made.location = op.location
            if made.operands and not isinstance(made, hlo.BroadcastInDimOp):
                carry(op, made, FLOAT_REASON)
            return builder.insert(made).results[0]

        value = LEGALIZATIONS[type(op)](add, op, program.weights)
        Rewriter.replace_op(op, [], [_clamped(add, op, value, program.weights)])
    return program
