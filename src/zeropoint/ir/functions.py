"""Chains of elementwise ops as functions of one value: what an op computes, and the values a chain of them takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import TypeIs
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo import BinaryOp, ClampOp, CompareOp, SelectOp, UnaryOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics import functions

Elementwise = UnaryOp | BinaryOp | ClampOp | CompareOp | SelectOp


def function_name(op: Operation) -> str:
    """The op as `numerics.functions` names it: without its dialect."""
    return op.name.partition(".")[2]


def is_function(op: object) -> TypeIs[Elementwise]:
    """Whether the op is elementwise and a table of its values can be made: not a conversion, nothing on bits."""
    return isinstance(op, Elementwise) and functions.is_known(function_name(op))


def evaluate_chain(
    value: SSAValue, source: SSAValue, domain: Array, weights: Weights, others: Mapping[SSAValue, Array] | None = None
) -> Array:
    """What `value`, a chain of elementwise ops on `source` and on repeated numbers, is at every point of `domain`.

    `others` has the points of further values that the chain reads. The functions are those of the interpreter, in the
    dtype of the ops. Raises ValueError where the chain holds anything else.
    """
    return _evaluate(value, source, domain, weights, dict(others or {}))


def _evaluate(value: SSAValue, source: SSAValue, domain: Array, weights: Weights, memo: dict[SSAValue, Array]) -> Array:
    if value is source:
        return domain
    if value not in memo:
        number = splat_value(value, weights)
        if number is not None:
            memo[value] = np.full(domain.shape, number, element_dtype(element_of(value)))
        elif isinstance(value, OpResult) and is_function(value.op):
            operands = [_evaluate(operand, source, domain, weights, memo) for operand in value.op.operands]
            direction = value.op.comparison_direction.data.value if isinstance(value.op, CompareOp) else None
            memo[value] = functions.evaluate(function_name(value.op), operands, direction)
        else:
            raise ValueError(f"found {value.type} that is no function of the source")
    return memo[value]
