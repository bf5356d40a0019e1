"""Finds the variances of the rows in a layer normalization.

Normalization divides each row by its standard deviation. An error that is small for the largest rows becomes large for
rows of small variance. Whether 8 bits are enough for the operand depends on the spread of the variances, so calibration
observes them inside the region (`instrument`).
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import AddOp, RsqrtOp, SqrtOp
from zeropoint.ir.weights import Weights

NORMALIZATIONS = ("layer_norm",)
"""Kernels that divide each row by its standard deviation."""


def row_variances(op: Operation) -> SSAValue | None:
    """The operand of the square root in a region that normalizes rows: variance plus epsilon. None for any other op."""
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data not in NORMALIZATIONS:
        return None
    roots = [inner for inner in op.body.block.ops if isinstance(inner, RsqrtOp | SqrtOp)]
    return roots[0].operand if len(roots) == 1 else None


def stated_variances(op: Operation) -> StatisticsOp | None:
    """The statistics of `row_variances`, whether or not the square root reads them; None without statistics."""
    variances = row_variances(op)
    if variances is None:
        return None
    if isinstance(variances.owner, StatisticsOp):
        return variances.owner
    return next((use.operation for use in variances.uses if isinstance(use.operation, StatisticsOp)), None)


def epsilon(variances: SSAValue, weights: Weights) -> float:
    """The constant that is added to the variances before the square root; 0 without one."""
    while isinstance(variances.owner, StatisticsOp):
        variances = variances.owner.arg
    if not isinstance(variances.owner, AddOp):
        return 0.0
    numbers = [splat_value(operand, weights) for operand in variances.owner.operands]
    return next((number for number in numbers if number is not None), 0.0)
