"""The fixed-point dialect of the integer program."""

from xdsl.ir import Dialect

from zeropoint.ir.fxpmath.ops import RequantizeOp, TableOp, WeightedSumOp

__all__ = ["FxpMath", "RequantizeOp", "TableOp", "WeightedSumOp"]

FxpMath = Dialect("fxpmath", [RequantizeOp, TableOp, WeightedSumOp])
