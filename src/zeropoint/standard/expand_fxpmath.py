"""Expand fixed-point ops into integer StableHLO, which every StableHLO compiler runs.

```mlir
%m = stablehlo.constant dense<1073741824> : tensor<1xi32>
%n = stablehlo.constant dense<32> : tensor<1xi32>
%y = "fxpmath.requantize"(%acc, %m, %n) <{behaviour = "fixed32", zero_point = 3 : i64, storage_min = -128 : i64,
       storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>
```
becomes, with every constant broadcast to the shape,
```mlir
%0 = stablehlo.convert %acc : (tensor<4xi32>) -> tensor<4xi64>
%1 = stablehlo.multiply %0, 1073741824
%2 = stablehlo.add %1, 2147483648
%3 = stablehlo.shift_right_arithmetic %2, 32
%4 = stablehlo.add %3, 3
%5 = stablehlo.clamp -128, %4, 127
%y = stablehlo.convert %5 : (tensor<4xi64>) -> tensor<4xi8>
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import EXPRESSED, FACTS, carry
from zeropoint.ir.constants import constant_array
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.fxpmath.checks import number
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.requantize import Requantization
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard import fixed_point
from zeropoint.standard.arithmetic import Element, ElementwiseArithmetic
from zeropoint.standard.saturating_forms import refuse_saturating_forms
from zeropoint.standard.tensors import TensorArithmetic


def constant_requantization(op: RequantizeOp, weights: Weights) -> Requantization:
    """The op's computation. Raises LoweringError if its multipliers or shifts are not constant."""
    arrays = [constant_array(value, weights) for value in op.operands[1:]]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        raise LoweringError(f"{describe(op)}: found multipliers that are not constant, expected stablehlo.constant", op)
    return op.requantization(*known)


def _requantize(ops: ElementwiseArithmetic, op: RequantizeOp, values: list[SSAValue], weights: Weights) -> SSAValue:
    result = cast("Element", element_of(op.result))
    return fixed_point.requantized(ops, values[0], constant_requantization(op, weights), result)


def _weighted_sum(ops: ElementwiseArithmetic, op: WeightedSumOp, values: list[SSAValue], weights: Weights) -> SSAValue:
    del weights
    return fixed_point.weighted_sum(ops, values, op.sum, cast("Element", element_of(op.result)))


def _table(ops: ElementwiseArithmetic, op: TableOp, values: list[SSAValue], weights: Weights) -> SSAValue:
    del weights
    least = int(np.iinfo(element_dtype(element_of(op.operand))).min)
    return fixed_point.looked_up(ops, values[0], op.table, least)


def rounding_divide(
    ops: ElementwiseArithmetic, op: RoundingDivideByPotOp, values: Sequence[SSAValue], source: object
) -> SSAValue:
    """`fixed_point.rounding_divided` with the op's exponent.

    The parameter `source` is part of the type `Emit`; it is not used.
    """
    del source
    return fixed_point.rounding_divided(ops, values[0], number(op.exponent))


def saturating_add(
    ops: ElementwiseArithmetic, op: SaturatingAddOp, values: Sequence[SSAValue], source: object
) -> SSAValue:
    """`fixed_point.saturating_sum` with the op's bounds."""
    del source
    return fixed_point.saturating_sum(ops, values[0], values[1], number(op.storage_min), number(op.storage_max))


def high_product(
    ops: ElementwiseArithmetic, op: SaturatingRoundingDoublingHighMulOp, values: Sequence[SSAValue], source: object
) -> SSAValue:
    """`fixed_point.high_product` with the op's multiplier."""
    del source
    return fixed_point.high_product(ops, values[0], number(op.multiplier))


def quotient(ops: ElementwiseArithmetic, op: QuotientOp, values: Sequence[SSAValue], source: object) -> SSAValue:
    """`fixed_point.divided` with the op's numbers."""
    del source
    return fixed_point.divided(ops, values[0], values[1], op.division, cast("Element", element_of(op.result)))


def _interpolate(ops: ElementwiseArithmetic, op: InterpolateOp, values: list[SSAValue], weights: Weights) -> SSAValue:
    del weights
    return fixed_point.interpolated(ops, values[0], op.table, op.shift)


FixedExpansion = Callable[[ElementwiseArithmetic, Any, list[SSAValue], Weights], SSAValue]
"""Emits the result of an op, given the values of its activations."""
EXPANSIONS: Mapping[type[Operation], FixedExpansion] = {
    InterpolateOp: _interpolate,
    QuotientOp: quotient,
    RequantizeOp: _requantize,
    RoundingDivideByPotOp: rounding_divide,
    SaturatingAddOp: saturating_add,
    SaturatingRoundingDoublingHighMulOp: high_product,
    TableOp: _table,
    WeightedSumOp: _weighted_sum,
}
"""The fixed-point ops of the fxpmath dialect."""


def requantized_axis(op: Operation) -> int | None:
    """The dimension that an op's parameters belong to; None for parameters of the whole tensor."""
    return number(op.axis) if isinstance(op, RequantizeOp) and op.axis is not None else None


def expand_fxpmath(program: Program) -> Program:
    """A copy in which every fxpmath op is a sequence of StableHLO ops with the same results.

    Raises LoweringError for multipliers that are not constant, and for dot forms whose sums may saturate.
    """
    refuse_saturating_forms(program)
    program = program.clone()
    for op in list(program.module.walk()):
        expand = EXPANSIONS.get(type(op))
        if expand is None:
            continue
        builder = Builder(InsertPoint.before(op))
        ops = TensorArithmetic(builder, program.weights, op.location, requantized_axis(op))
        made = expand(ops, op, list(op.operands), program.weights)
        carry(op, cast("Operation", made.owner), FACTS, EXPRESSED)
        made.name_hint = op.results[0].name_hint
        Rewriter.replace_op(op, [], [made])
    for function in program.module.ops:
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                remove_dead_ops(block)
    return program
