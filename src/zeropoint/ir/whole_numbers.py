"""Ops that make whole numbers of floats."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.stablehlo import CeilOp, FloorOp, IotaOp, RoundNearestAfzOp, RoundNearestEvenOp, SignOp
from zeropoint.ir.tensors import has_floats

SOURCES = (CeilOp, FloorOp, IotaOp, RoundNearestAfzOp, RoundNearestEvenOp, SignOp)
"""Their results are whole numbers for any operand."""


def float_operands(op: object) -> list[SSAValue]:
    """The operands of an op that are floats; none for a block."""
    operands = op.operands if isinstance(op, Operation) else ()
    return [operand for operand in operands if has_floats(operand)]
