"""Ops that make whole numbers of floats."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.stablehlo import CeilOp, FloorOp, IotaOp, RoundNearestAfzOp, RoundNearestEvenOp, SignOp
from zeropoint.ir.tensors import element_of

SOURCES = (CeilOp, FloorOp, IotaOp, RoundNearestAfzOp, RoundNearestEvenOp, SignOp)
"""Their results are whole numbers for any operand."""


def float_operands(op: object) -> list[SSAValue]:
    """The operands of an op that are floats; none for a block."""
    operands = op.operands if isinstance(op, Operation) else ()
    return [operand for operand in operands if isinstance(element_of(operand), AnyFloat)]
