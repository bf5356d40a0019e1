"""Whole numbers in floats that become integers, or are compared with each other, stay float.

```mlir
%0 = stablehlo.floor %x : tensor<4xf32>
%1 = stablehlo.clamp %zero, %0, %seven : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
%2 = stablehlo.convert %1 : (tensor<4xf32>) -> tensor<4xi64>
```
`floor` and `clamp` get a `zeropoint.float_reason`. A type with steps of 7/255 has no 5, only 4.996, and `convert`
truncates this to 4: another element of a table, another pixel of an image. `%x` may have any type. So may whole numbers
that only other floats read.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConstantOp,
    ConvertOp,
    IotaOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    ReduceOp,
    RemainderOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.ir.whole_numbers import SOURCES, float_operands

REASON = "its whole numbers become integers or are compared, and an 8-bit type may have no such numbers"
CLOSED = (
    *(AbsOp, AddOp, ClampOp, MaximumOp, MinimumOp, MultiplyOp, NegateOp, RemainderOp, SubtractOp),
    *(BroadcastInDimOp, ConcatenateOp, ReshapeOp, ReverseOp, SelectOp, SliceOp, TransposeOp),
)
"""Their results are whole numbers if their float operands are, and halves at most if these are (see `WholeNumbers`)."""


class WholeNumbers:
    """Which values of a float program are whole numbers, or halves of whole numbers.

    Halves lie on the way where whole numbers are mirrored at the edge of an element, at -0.5.
    """

    def __init__(self, weights: Weights):
        self._weights = weights
        self._known: dict[SSAValue, int | None] = {}
        """By value: 0 if all elements are whole numbers, 1 if twice the elements are; None if neither is known."""

    def of(self, value: SSAValue) -> bool:
        """Whether all elements are whole numbers or halves of them, whatever the program reads."""
        todo = [value]
        while todo:  # a chain of sums may be longer than Python's stack
            last = todo[-1]
            operands = [] if last in self._known else float_operands(last.owner)
            missing = [operand for operand in operands if operand not in self._known]
            if missing and isinstance(last.owner, Operation) and _is_closed(last.owner):
                todo += missing
                continue
            if last not in self._known:
                self._known[last] = self._halvings(last)
            todo.pop()
        return self._known[value] is not None

    def _halvings(self, value: SSAValue) -> int | None:
        """What is known about a value whose operands are known."""
        op = value.owner
        if isinstance(op, SOURCES):
            return 0
        if isinstance(op, ConvertOp):
            return 0 if isinstance(element_of(op.operand), IntegerType) else self._known.get(op.operand)
        if isinstance(op, ConstantOp):
            array = constant_array(value, self._weights)
            return None if array is None else next((n for n in (0, 1) if _are_whole(array * 2**n)), None)
        if not isinstance(op, Operation) or not _is_closed(op):
            return None
        parts = [self._known[operand] for operand in float_operands(op)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        found = max(known, default=0)
        multiplied = body_op(op.body) if isinstance(op, ReduceOp) else type(op)
        if multiplied is MultiplyOp and found:
            return 1 if isinstance(op, MultiplyOp) and sum(known) == 1 else None
        return found


def _are_whole(array: Array) -> bool:
    return bool(np.array_equal(array, np.round(array)))


def _is_closed(op: Operation) -> bool:
    if isinstance(op, ReduceOp):
        return body_op(op.body) in CLOSED
    return isinstance(op, (*CLOSED, ConvertOp))


def keep_whole_numbers(program: Program) -> None:
    """Mark the ops whose whole numbers become integers or are compared."""
    whole = WholeNumbers(program.weights)
    todo = [value for op in program.entry.ops for value in _exact(op, whole, program.weights)]
    while todo:
        op = todo.pop().owner
        if not isinstance(op, Operation) or isinstance(op, ConstantOp | IotaOp) or FLOAT_REASON in op.attributes:
            continue
        if isinstance(op, BroadcastInDimOp) and splat_value(op.result, program.weights) is not None:
            continue
        op.attributes[FLOAT_REASON] = StringAttr(REASON)
        if not isinstance(op, SOURCES):
            todo += float_operands(op)


def _exact(op: Operation, whole: WholeNumbers, weights: Weights) -> list[SSAValue]:
    """The whole numbers that an op needs exactly. Every type has 0, so numbers that are not 0 do not become 0."""
    operands = float_operands(op)
    if isinstance(op, ConvertOp):
        needed = element_dtype(element_of(op.result)).kind in "iu"
    else:
        needed = isinstance(op, CompareOp) and all(splat_value(operand, weights) != 0 for operand in operands)
    return operands if needed and all(whole.of(operand) for operand in operands) else []
