"""Annotation ops: identity ops, and pairs of casts, that only state something about their operand."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.quant.casts import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.quant.statistics import CoupledRefOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.quant.types import CalibratedQuantizedType
from zeropoint.ir.tensors import element_of

STATES = (StatisticsOp, StatisticsRefOp, CoupledRefOp)
"""Identity ops that annotate their operand."""


def range_readers(op: QuantizeCastOp) -> list[DequantizeCastOp]:
    """The casts back to float of a `!quant.calibrated` value; empty if anything else reads it."""
    readers = [use.operation for use in op.result.uses]
    back = [reader for reader in readers if isinstance(reader, DequantizeCastOp)]
    calibrated = isinstance(element_of(op.result), CalibratedQuantizedType)
    same = calibrated and all(reader.result.type == op.input.type for reader in back)
    return back if same and len(back) == len(readers) else []


def unstated(value: SSAValue) -> SSAValue:
    """The value behind a chain of annotation ops."""
    while True:
        owner = value.owner
        if isinstance(owner, DequantizeCastOp) and isinstance(owner.input.owner, QuantizeCastOp):
            owner = owner.input.owner
            if owner.input.type != value.type or not range_readers(owner):
                return value
        elif not isinstance(owner, STATES):
            return value
        value = owner.operands[0]
