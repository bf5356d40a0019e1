"""Values that are known to be 0 or more, in which a padding of 0 is never the only maximum."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AbsOp,
    ConcatenateOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    ReduceWindowOp,
    ReshapeOp,
    SliceOp,
    SqrtOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.weights import Weights

MOVES = (ConcatenateOp, ReshapeOp, SliceOp, TransposeOp)
"""Ops whose elements are those of their operands."""


def is_zero_least(value: SSAValue, kind: Attribute, weights: Weights) -> bool:
    """Whether no element of a value, read in the type `kind`, is less than 0.

    Of quantized values, the type says it; of floats, the op or kernel that makes them. NaN may be among them.
    """
    if isinstance(kind, UniformQuantizedType):
        return kind.is_per_layer and kind.zero_point == kind.storage.minimum
    return _is_never_negative(value, weights, {})


def _is_never_negative(value: SSAValue, weights: Weights, given: Mapping[SSAValue, SSAValue]) -> bool:
    value = given.get(value, value)
    op = value.owner
    if not isinstance(op, Operation) or not isinstance(value, OpResult):
        return False
    if isinstance(op, QuantizeRegionOp):
        returned = op.body.block.last_op
        assert returned is not None
        ports: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, op.inputs, strict=True))
        return _is_never_negative(returned.operands[value.index], weights, ports)
    if isinstance(op, AbsOp | ExponentialOp | LogisticOp | SqrtOp):
        return True
    bounds = Bounds()
    if bounds.then(op, weights):
        return bounds.low >= 0
    if isinstance(op, ReduceWindowOp) and body_op(op.body) is MaximumOp:
        return _is_never_negative(op.inputs[0], weights, given)
    return isinstance(op, MOVES) and all(_is_never_negative(operand, weights, given) for operand in op.operands)
