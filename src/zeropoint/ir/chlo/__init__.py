"""The chlo dialect: ops that framework exporters emit besides StableHLO.

`zeropoint.quant_passes.legalize_chlo` expands ops that StableHLO can express; unary functions stay.
"""

from xdsl.ir import Dialect

from zeropoint.ir.chlo import broadcasting, constants, elementwise, ragged_dot, scan, top_k
from zeropoint.ir.chlo.broadcasting import (
    PLAIN,
    BroadcastCompareOp,
    BroadcastComplexOp,
    BroadcastOp,
    BroadcastSelectOp,
    ComparisonDirectionAttr,
    ComparisonTypeAttr,
)
from zeropoint.ir.chlo.constants import ConstantLikeOp, ConstantOp
from zeropoint.ir.chlo.elementwise import (
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    ConjOp,
    CoshOp,
    DigammaOp,
    ErfcOp,
    ErfInvOp,
    ErfOp,
    IsInfOp,
    IsNegInfOp,
    IsPosInfOp,
    LgammaOp,
    MulhiOp,
    NextAfterOp,
    PredicateOp,
    SinhOp,
    SquareOp,
    TanOp,
)
from zeropoint.ir.chlo.ragged_dot import PrecisionAttr, RaggedDotDimensionNumbersAttr, RaggedDotDimensions, RaggedDotOp
from zeropoint.ir.chlo.scan import ScanOp
from zeropoint.ir.chlo.top_k import TopKOp

__all__ = [
    "PLAIN",
    "AcosOp",
    "AcoshOp",
    "AsinOp",
    "AsinhOp",
    "AtanOp",
    "AtanhOp",
    "BroadcastCompareOp",
    "BroadcastComplexOp",
    "BroadcastOp",
    "BroadcastSelectOp",
    "Chlo",
    "ComparisonDirectionAttr",
    "ComparisonTypeAttr",
    "ConjOp",
    "ConstantLikeOp",
    "ConstantOp",
    "CoshOp",
    "DigammaOp",
    "ErfInvOp",
    "ErfOp",
    "ErfcOp",
    "IsInfOp",
    "IsNegInfOp",
    "IsPosInfOp",
    "LgammaOp",
    "MulhiOp",
    "NextAfterOp",
    "PrecisionAttr",
    "PredicateOp",
    "RaggedDotDimensionNumbersAttr",
    "RaggedDotDimensions",
    "RaggedDotOp",
    "ScanOp",
    "SinhOp",
    "SquareOp",
    "TanOp",
    "TopKOp",
]

Chlo = Dialect(
    "chlo",
    [
        *broadcasting.OPS,
        *constants.OPS,
        *elementwise.OPS,
        *ragged_dot.OPS,
        *scan.OPS,
        *top_k.OPS,
    ],
    [ComparisonDirectionAttr, ComparisonTypeAttr, PrecisionAttr, RaggedDotDimensionNumbersAttr],
)
