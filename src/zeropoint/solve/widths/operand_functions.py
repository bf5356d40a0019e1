"""Write an op as an elementwise function of one operand, to measure the error caused by rounding that operand."""

from __future__ import annotations

from math import sqrt

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.functions import evaluate_chain, is_function
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, has_floats
from zeropoint.solve.widths.distribution import RealFunction
from zeropoint.solve.widths.rounding_noise import RoundingNoise


def operand_function(op: Operation, index: int, noise: RoundingNoise, *, spread: bool = False) -> RealFunction | None:
    """An op as an elementwise function of operand `index`, with the other operands set to their RMS; None if it is not
    one.

    With `spread`, the function is evaluated at all points of the other operand, if there is exactly one. Both are
    needed: a clamp at 3 hides the noise of 8 / x near 0, but not that of 0.1 / x.
    """
    if len(op.results) != 1:
        return None
    region = op if isinstance(op, QuantizeRegionOp) else None
    arguments = op.operands if region is None else region.body.block.args
    result = op.results[0] if region is None else _returned(region)
    if region is not None and not _is_computed(result, noise):
        return None  # before the other operands are examined, because a join may have very many
    others: dict[SSAValue, Array] = {}
    for other, (argument, value) in enumerate(zip(arguments, op.operands, strict=True)):
        if other != index and argument is not arguments[index]:
            size = _usual_size(value, noise)
            if size is None:
                return None
            seen = noise.seen(value) if spread and len(op.operands) == 2 and size else None
            others[argument] = np.array([size]) if seen is None else seen.points
    for inner in () if region is None else region.body.block.ops:
        if isinstance(inner, BroadcastInDimOp) and inner.operand in others:
            others[inner.result] = others[inner.operand]
    dtype = element_dtype(element_of(arguments[index]))

    def evaluate(points: Array) -> Array:
        count = max((array.size for array in others.values()), default=1)
        domain = np.repeat(points.astype(dtype), count)
        known = {argument: np.resize(array.astype(dtype), domain.shape) for argument, array in others.items()}
        return evaluate_chain(result, arguments[index], domain, noise.weights, known)

    try:
        with np.errstate(all="ignore"):
            evaluate(np.ones(1, np.float32))
    except ValueError:
        return None
    return evaluate


def _usual_size(value: SSAValue, noise: RoundingNoise) -> float | None:
    """The RMS of an operand; None if it is unknown."""
    if not has_floats(value):
        return None
    array = constant_array(value, noise.weights)
    if array is not None:
        return sqrt(float((array.astype(np.float64) ** 2).mean())) if array.size else None
    seen = noise.estimated(value)
    return None if seen is None else sqrt(seen.power)


def _is_computed(value: SSAValue, noise: RoundingNoise) -> bool:
    """Whether an inner value is an elementwise function of the region's operands. The result of a join, for example, is
    not."""
    if not isinstance(value, OpResult) or is_function(value.op) or isinstance(value.op, BroadcastInDimOp):
        return True
    return splat_value(value, noise.weights) is not None


def _returned(region: QuantizeRegionOp) -> SSAValue:
    terminator = region.body.block.last_op
    assert terminator is not None
    return terminator.operands[0]
