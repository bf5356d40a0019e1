"""Raise very negative numbers in a constant that is added before a relu to a number that the relu still clamps.

```mlir
%b = stablehlo.constant dense<[0.5, -1.0e9]> : tensor<2xf32>
%0 = "quant.region"(%x, %w, %b) ({ dot_general, add, maximum with 0 })       x * w in [-6, 6] for every x in its range
```
becomes
```mlir
%b = stablehlo.constant dense<[0.5, -6.75]> : tensor<2xf32>
```
A kernel that adds -1e9 needs a scale that can represent it, at which every other number becomes 0. Let L be the lower
bound of the clamp, and H an upper bound of the sum of the other terms. H follows from the ranges of the region's
operands and from the weights of a contraction. Then all terms below L - H give L, so they are raised to L - H, minus a
margin for the rounding of operands.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ClampOp, ConvolutionOp, DotGeneralOp, MaximumOp
from zeropoint.ir.weights import Weights
from zeropoint.solve.parts.divided import is_cuttable
from zeropoint.solve.parts.leaves import known_range
from zeropoint.solve.parts.part_ranges import weighted_range
from zeropoint.solve.parts.part_readers import RealRange, is_open
from zeropoint.targets import Target

MARGIN = 1 / 16
"""The margin as a share of the range of the other terms: 16 steps of 8 bits."""
FAR = 4.0
"""A constant is changed only if its least number is this many times further below the clamp than needed (two bits)."""

LOWEST = -1e30
"""A lower bound of a clamp below this counts as none: models write the lowest f32 number for "no bound"."""


def _bound_region(region: QuantizeRegionOp, weights: Weights, target: Target) -> None:
    """Raise the constants that a region adds in sums."""
    for index, argument in enumerate(region.body.block.args):
        value = region.inputs[index]
        array = constant_array(value, weights)
        if array is None or not array.size or array.dtype.kind != "f" or not is_cuttable(value):
            continue
        sums = _readers(_spread(argument))
        if len(sums) != 1 or not isinstance(sums[0], AddOp) or not array.min() < 0:
            continue
        ranges = {inner: known_range(outer, weights, target) for inner, outer in _pairs(region)}
        least = _least(sums[0], _spread(argument), ranges, region, weights)
        if (
            least is None
            or least < LOWEST
            or array.min() >= FAR * min(least, 0.0)
            or np.isnan(array).any()
            or array.max() == np.inf
        ):
            continue
        made = constant_op(np.maximum(array, np.float32(least)), weights, location=region.location)
        assert region.parent is not None
        region.parent.insert_op_before(made, region)
        region.operands[index] = made.results[0]


def _pairs(region: QuantizeRegionOp) -> list[tuple[SSAValue, SSAValue]]:
    return list(zip(region.body.block.args, region.inputs, strict=True))


def _spread(value: SSAValue) -> SSAValue:
    """The broadcast of a value if only that reads it; the value itself otherwise."""
    readers = _readers(value)
    return readers[0].result if len(readers) == 1 and isinstance(readers[0], BroadcastInDimOp) else value


def _readers(value: SSAValue) -> list[Operation]:
    """The ops of a region that compute with a value; statistics do not count."""
    return [use.operation for use in value.uses if not isinstance(use.operation, StatisticsOp)]


KnownRanges = dict[SSAValue, RealRange | None]


def _least(
    op: Operation, term: SSAValue, ranges: KnownRanges, region: QuantizeRegionOp, weights: Weights
) -> float | None:
    """The number below which a term of a sum has no effect, because the sum is clamped; None without a clamp."""
    high = margin = 0.0
    value: SSAValue = term
    while True:
        if isinstance(op, AddOp):
            (other,) = [one for one in op.operands if one is not value] or [value]
            span = _range(other, ranges, region, weights)
            if span is None:
                return None
            high, margin, value = high + span[1], margin + MARGIN * (span[1] - span[0]), op.result
        elif isinstance(op, MaximumOp):
            low = next((number for one in op.operands if (number := splat_value(one, weights)) is not None), None)
            return None if low is None else low - high - margin
        elif isinstance(op, ClampOp):
            low = splat_value(op.min, weights)
            return None if low is None else low - high - margin
        else:
            return None
        readers = _readers(value)
        if len(readers) != 1:
            return None
        op = readers[0]


def _range(value: SSAValue, ranges: KnownRanges, region: QuantizeRegionOp, weights: Weights) -> RealRange | None:
    """The range of a value inside a region."""
    if value in ranges:
        return ranges[value]
    op = value.op if isinstance(value, OpResult) else None
    if isinstance(op, BroadcastInDimOp):
        return _range(op.operand, ranges, region, weights)
    if isinstance(op, AddOp):
        one, other = (_range(operand, ranges, region, weights) for operand in op.operands)
        return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])
    outer = dict(_pairs(region))
    if isinstance(op, ConvolutionOp | DotGeneralOp) and op.rhs in outer:
        axis, array = weight_channel_axis(op), constant_array(outer[op.rhs], weights)
        span = _range(op.lhs, ranges, region, weights)
        return None if axis is None or array is None or span is None else weighted_range(array, axis, span)
    return None


def bound_terms(program: Program, target: Target) -> Program:
    """A copy of the calibrated program in which constants added before a relu are no lower than needed."""
    program = program.for_change()
    for op in list(program.entry.ops):
        if isinstance(op, QuantizeRegionOp) and is_open(op):
            _bound_region(op, program.weights, target)
    remove_dead_ops(program.entry)
    return program
