"""The check dialect: assertions about computed values, with which test programs of StableHLO end."""

from xdsl.ir import Dialect

from zeropoint.ir.check.ops import (
    CheckOp,
    ExpectAlmostEqConstOp,
    ExpectAlmostEqOp,
    ExpectCloseOp,
    ExpectEqConstOp,
    ExpectEqOp,
    ExpectSerializedEqOp,
)

__all__ = [
    "Check",
    "CheckOp",
    "ExpectAlmostEqConstOp",
    "ExpectAlmostEqOp",
    "ExpectCloseOp",
    "ExpectEqConstOp",
    "ExpectEqOp",
    "ExpectSerializedEqOp",
]

Check = Dialect(
    "check",
    [
        ExpectAlmostEqConstOp,
        ExpectAlmostEqOp,
        ExpectCloseOp,
        ExpectEqConstOp,
        ExpectEqOp,
        ExpectSerializedEqOp,
    ],
)
