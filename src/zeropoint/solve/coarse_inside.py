"""Decide whether a user's composite would be far too coarse inside if its inner types were derived from its ports.

The types of the ports bound every value inside. The bound may be loose: in `max(x, y) - exp(min(x, y))`, exp(min(x, y))
is only large if both x and y are large. Calibration has observed the values inside. If a bound is more than `MOST`
times as wide as the observed range, the composite is split into kernels of the target, which use the observed ranges
(`split_composites.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, UniformQuantizedType, dequantize
from zeropoint.ir.stablehlo import AddOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.solve.composed import ANNOTATIONS, MOVEMENTS, sources

MOST = 4.0
"""How many times as wide as the observed range a derived range may be: 2 of 8 bits."""
POINTS = 256


def is_coarse_inside(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a rounded value inside was observed in less than 1 / `MOST` of the range derived from the ports."""
    found = sources(region, weights)
    if isinstance(found, str):
        return False
    points: dict[SSAValue, Array] = {}
    for argument, spec in zip(region.body.block.args, region.input_specs, strict=True):
        assert isinstance(spec, UniformQuantizedType)
        points[argument] = dequantize(np.arange(spec.storage.minimum, spec.storage.maximum + 1, dtype=np.int32), spec)
    *body, returned = region.body.block.ops
    for op in body:
        result = op.results[0]
        if result not in found:
            continue
        if isinstance(op, StatisticsOp) and op.arg not in returned.operands and result not in returned.operands:
            is_rounded = found[result] in (op.arg, result) or _feeds_arithmetic(result, found)
            if is_rounded and _width(points[op.arg]) > MOST * _width(inline_array(op.layer_stats)):
                return True
        points[result] = _points(op, found[result], points, weights)
    return False


def _points(op: Operation, source: SSAValue, points: Mapping[SSAValue, Array], weights: Weights) -> Array:
    """Values that a result can have: a function at the points of its operand; for other ops, points spaced evenly in
    the range."""
    read = [operand for operand in op.operands if operand in points]
    if isinstance(op, (*ANNOTATIONS, *MOVEMENTS)):
        return points[read[0]]
    if source is not op.results[0]:
        given = {operand: points[operand] for operand in read}
        with np.errstate(all="ignore"):
            return evaluate_chain(op.results[0], source, points[source], weights, given)
    (a, b), (c, d) = (_ends(points[operand]) for operand in op.operands)
    if isinstance(op, MultiplyOp):
        corners = (a * c, a * d, b * c, b * d)
        low, high = min(corners), max(corners)
    elif isinstance(op, AddOp | SubtractOp):
        low, high = (a + c, b + d) if isinstance(op, AddOp) else (a - d, b - c)
    else:
        low, high = min(a, c), max(b, d)
    return np.linspace(low, high, POINTS).astype(element_dtype(element_of(op.results[0])))


def _feeds_arithmetic(value: SSAValue, found: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether an op that is not a function of one value reads `value`. At its operand, the value is rounded to 8
    bits."""
    results = [result for use in value.uses for result in use.operation.results]
    return any(found.get(result) is result for result in results)


def _ends(values: Array) -> tuple[float, float]:
    finite = values[np.isfinite(values)].astype(np.float64)
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _width(values: Array) -> float:
    """The width of the smallest range with all values and 0. Every quantized type contains 0."""
    low, high = _ends(values)
    return max(high, 0.0) - min(low, 0.0)
