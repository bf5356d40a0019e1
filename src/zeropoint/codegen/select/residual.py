"""A residual addition as a part of the contraction that computes its later operand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.arithmetic import Residual
from zeropoint.codegen.select.selection import Selection
from zeropoint.codegen.select.values import sum_parameters
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


@dataclass(frozen=True)
class Addition:
    """The sum that ends a contraction, and where its other operand is."""

    op: WeightedSumOp
    other: View
    first: bool

    def residual(self, row: int, pixel: int) -> Residual:
        """For an operand with these strides."""
        return Residual(row, pixel, self.first, sum_parameters(self.op))


def addition_of(selection: Selection, op: RequantizeOp) -> Addition | None:
    """The sum of two that alone uses the result, where the other operand of the same shape is computed already."""
    uses = list(op.result.uses)
    if len(uses) != 1 or not isinstance(uses[0].operation, WeightedSumOp) or len(uses[0].operation.inputs) != 2:
        return None
    user = uses[0].operation
    other: SSAValue = user.inputs[1 - uses[0].index]
    if not selection.has(other) or shape_of(other) != shape_of(op.result):
        return None
    if element_dtype(element_of(user.result)) != np.int8 or not selection.fits(other, selection.view(other)):
        return None
    return Addition(user, selection.view(other), uses[0].index == 1)
