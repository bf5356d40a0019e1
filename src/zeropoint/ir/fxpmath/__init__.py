"""The fxpmath dialect: real math ops, and the fixed-point ops of the integer program."""

from xdsl.ir import Dialect

from zeropoint.ir.fxpmath.fixed_ops import (
    QuotientOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
)
from zeropoint.ir.fxpmath.interpolation import InterpolateOp
from zeropoint.ir.fxpmath.ops import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.fxpmath.real_ops import (
    ClampedRealOp,
    RealAddEwOp,
    RealDivEwOp,
    RealMatMulBiasOp,
    RealMatMulOp,
    RealMulEwOp,
    RealSubEwOp,
    RealUnaryEwOp,
)

__all__ = [
    "ClampedRealOp",
    "FxpMath",
    "InterpolateOp",
    "QuotientOp",
    "RealAddEwOp",
    "RealDivEwOp",
    "RealMatMulBiasOp",
    "RealMatMulOp",
    "RealMulEwOp",
    "RealSubEwOp",
    "RealUnaryEwOp",
    "RequantizeOp",
    "RoundingDivideByPotOp",
    "SaturatingAddOp",
    "SaturatingRoundingDoublingHighMulOp",
    "TableOp",
    "WeightedSumOp",
]

FxpMath = Dialect(
    "fxpmath",
    [
        InterpolateOp,
        QuotientOp,
        RealAddEwOp,
        RealDivEwOp,
        RealMatMulBiasOp,
        RealMatMulOp,
        RealMulEwOp,
        RealSubEwOp,
        RealUnaryEwOp,
        RequantizeOp,
        RoundingDivideByPotOp,
        SaturatingAddOp,
        SaturatingRoundingDoublingHighMulOp,
        TableOp,
        WeightedSumOp,
    ],
)
