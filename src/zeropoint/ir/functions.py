"""Chains of elementwise ops as functions of one value: names of the functions, and evaluation at given points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import TypeIs
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo import BinaryOp, ClampOp, CompareOp, SelectOp, UnaryOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics import functions

ElementwiseOp = UnaryOp | BinaryOp | ClampOp | CompareOp | SelectOp


def function_name(op: Operation) -> str:
    """The op's name in `numerics.functions`: without the dialect."""
    return op.name.partition(".")[2]


def is_function(op: object) -> TypeIs[ElementwiseOp]:
    """Whether the op is elementwise and can be tabulated: conversions and bitwise ops cannot."""
    return isinstance(op, ElementwiseOp) and functions.is_known(function_name(op))


def evaluate_chain(
    value: SSAValue, source: SSAValue, domain: Array, weights: Weights, others: Mapping[SSAValue, Array] | None = None
) -> Array:
    """Evaluate `value`, a chain of elementwise ops on `source` and splat constants, at every point of `domain`.

    `others` maps other values that the chain uses to their values at these points. The ops are computed by the
    interpreter's functions, in the ops' dtype. Raises ValueError if the chain contains any other op.
    """
    memo = {source: domain, **(others or {})}
    order = _order(value, memo, weights)
    reads = Counter(operand for read in order if read.number is None for operand in read.op.operands)
    for step in order:
        memo[step.value] = step.run(memo, domain)
        for operand in step.op.operands if step.number is None else ():
            reads[operand] -= 1
            if not reads[operand] and operand is not source:
                del memo[operand]  # so a long chain keeps a few arrays alive, not one per op
    return memo[value]


def chain_form(value: SSAValue, source: SSAValue, weights: Weights) -> tuple[object, ...]:
    """What `evaluate_chain` computes, without the program: chains of equal form have equal results at equal points.

    Raises ValueError as `evaluate_chain` does.
    """
    numbers, form = {source: 0}, list[object]()
    for step in _order(value, numbers, weights):
        # In hexadecimal, because -0 equals 0.
        number = None if step.number is None else (step.number.hex(), element_of(step.value))
        operands = () if number else tuple(numbers[operand] for operand in step.op.operands)
        form.append(number or (function_name(step.op), step.direction, operands))
        numbers[step.value] = len(numbers)
    return (*form, numbers[value])


@dataclass(frozen=True, eq=False)
class _Step:
    """A value of a chain: the result of its op, or a splat constant."""

    value: OpResult
    number: float | None

    @property
    def op(self) -> Operation:
        return self.value.op

    @property
    def direction(self) -> str | None:
        """What a comparison compares for; None for other ops."""
        return self.op.comparison_direction.data.value if isinstance(self.op, CompareOp) else None

    def run(self, memo: Mapping[SSAValue, Array], domain: Array) -> Array:
        if self.number is not None:
            return np.full(domain.shape, self.number, element_dtype(element_of(self.value)))
        operands = [memo[operand] for operand in self.op.operands]
        return functions.evaluate(function_name(self.op), operands, self.direction)


def _order(value: SSAValue, known: Collection[SSAValue], weights: Weights) -> list[_Step]:
    """The steps that compute a value, operands first. Not recursive, because a chain may be as long as the program."""
    found = set(known)
    order: list[_Step] = []
    pending = [value]
    while pending:
        current = pending[-1]
        if current in found:
            pending.pop()
            continue
        number = splat_value(current, weights)
        if not isinstance(current, OpResult) or (number is None and not is_function(current.op)):
            raise ValueError(f"found {current.type} that is not a function of the source")
        missing = [operand for operand in current.op.operands if operand not in found] if number is None else []
        if missing:
            pending += missing[::-1]
        else:
            found.add(current)
            order.append(_Step(current, number))
    return order
