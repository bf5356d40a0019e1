"""Raise the very negative numbers of attention masks to the least value that still hides a score.

```mlir
%s = "quant.stats"(%scores) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : ...
%m = stablehlo.constant dense<[[0.0, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32>
%0 = "quant.region"(%s, %m) ({ add }) ...
%1 = "quant.stats"(%0) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : ...
%2 = "quant.region"(%1) ({ softmax }) ...
```
becomes
```mlir
%m = stablehlo.constant dense<[[0.0, -17.0], [0.0, 0.0]]> : tensor<2x2xf32>
%0 = "quant.region"(%s, %m) ({ add }) ...
%1 = "quant.stats"(%0) {layerStats = dense<[-12.0, 5.0]> : tensor<2xf32>} : ...
```

A quantized sum that contains -inf has no scale. With -1e9, the scale is so coarse that every score becomes 0. The
softmax that follows depends on differences only, so a mask value need not be that low. If the exponential of a hidden
score is at most e^-8 = 0.0003 times the exponential of the least visible score, it is less than a tenth of a step of
the 8-bit output. So the pass clamps mask values from below: to (least score - greatest score - 8) where it is added, to
(least score - 8) where `select`, `pad`, `concatenate` or `scatter` inserts it. If masked scores are scaled before the
softmax, the 8 is divided by the scale. If other scores in [a, b] are added to them, b - a is added to the 8. A maximum
of masked sums hides every number below its results, so the 8 is not needed there. Values above the bound are unchanged.
Masks may be added in sequence, and combined before they are added, by a sum, a minimum, a maximum or a selection
(`mask_bounds.py`).

The mask may be computed or an input of the program, such as %m in [-1e9, 0]. Then its range is bounded, here to
[-17, 0], and numbers below saturate. The same holds for the values that it is computed from by the ops above, and for
the masked scores. A constant factor of a mask, as in `(1 - keep) * -3.4e38`, is bounded to a number that a multiplier
can hold: 2^24 times the value that saturates. So the smallest difference of two f32 numbers between 0.5 and 1 still
hides a score.
"""

from __future__ import annotations

import numpy as np
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.tensors import Array
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.masks.mask_bounds import MaskBounds
from zeropoint.solve.masks.masked_scores import Term, numbers

FINEST = 2.0**-24
"""The smallest factor of a mask, as a share of the largest, that still hides a score."""


def _ranges(found: MaskBounds) -> dict[StatisticsOp, tuple[float, float]]:
    """The bounded ranges of values that have numbers below their bound."""
    bounded: dict[StatisticsOp, tuple[float, float]] = {}
    for op in found.program.entry.ops:
        known, bound = (found.of(op.res), found.bounds.get(op.res)) if isinstance(op, StatisticsOp) else (None, None)
        if isinstance(op, StatisticsOp) and known is not None and bound is not None and known.least < bound.least:
            bounded[op] = bound.least, max(known.high, bound.least)
    return bounded


def _constants(found: MaskBounds) -> list[tuple[Term, Array]]:
    """The constant terms that have numbers below their bound, and their bounded elements."""
    bounded: list[tuple[Term, Array]] = []
    for step in found.steps.values():
        for term in step.terms:
            known, bound = found.of(term.value), found.bound(term)
            if known is None or bound is None or not bound.stated or known.least >= bound.least:
                continue
            array = numbers(term.value, found.program.weights)
            if array is not None:
                bounded.append((term, np.maximum(array, np.float32(bound.least))))
    return bounded


def _bound_factor(product: StatisticsOp, largest: float, program: Program) -> None:
    """Bound the constant factor of a product that saturates beyond `largest`, in place."""
    op = product.arg.owner
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data != "multiply" or len(op.inputs) != 2:
        return
    for index, value in enumerate(op.inputs):
        other, factor = op.inputs[1 - index].owner, numbers(value, program.weights)
        if factor is None or not isinstance(other, StatisticsOp):
            continue
        greatest = max(map(abs, stated_range(other)))
        most = largest / (greatest * FINEST) if greatest else 0.0
        if factor.size and 0.0 < most < float(np.abs(factor).max()):
            bounded = constant_op(
                np.clip(factor, -most, most).astype(factor.dtype), program.weights, location=op.location
            )
            program.entry.insert_op_before(bounded, op)
            op.operands[index] = bounded.output


def _restate(statistics: StatisticsOp, low: float, high: float) -> None:
    """Replace the range of a `quant.stats`."""
    stated = StatisticsOp(statistics.arg, (low, high))
    stated.location = statistics.location
    Rewriter.replace_op(statistics, stated)


def bound_masks(program: Program) -> Program:
    """A copy of the calibrated program with bounded masks before softmax; the program itself if there are none."""
    found = MaskBounds(program)
    if not _ranges(found) and not _constants(found):
        return program
    program = program.for_change()
    found = MaskBounds(program)
    ranges, constants = _ranges(found), _constants(found)
    for statistics, (low, high) in ranges.items():
        if statistics.arg.owner not in found.steps:
            _bound_factor(statistics, max(-low, abs(high)), program)
    for term, array in constants:
        bounded = constant_op(array, program.weights, location=term.holder.location)
        assert term.holder.parent is not None
        term.holder.parent.insert_op_before(bounded, term.holder)
        term.holder.operands[term.index] = bounded.output
    for statistics, (low, high) in ranges.items():
        _restate(statistics, low, high)
    remove_dead_ops(program.entry)
    return program
