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
Several masks may be added in sequence. If the mask is computed or is an input of the program, its range is bounded
instead (`mask_ranges.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp
from zeropoint.ir.stablehlo import AddOp, PadOp
from zeropoint.ir.tensors import Array
from zeropoint.solve.masks.mask_ranges import bound_mask_ranges, has_computed_masks
from zeropoint.solve.masks.masked_scores import (
    Masked,
    MaskedScores,
    Visible,
    combination,
    numbers,
    state_masked,
    visible_range,
)


@dataclass(frozen=True)
class Mask:
    """A constant mask: operand `index` of `op`, which adds or inserts it. A softmax or maximum reads the result.

    `values` are its elements, `least` is the lower bound for them, and `shown` is the range of the scores that stay
    visible. `masked` is the path of the scores to the softmax or maximum.
    """

    op: Operation
    index: int
    values: Array
    masked: Masked
    least: float
    shown: tuple[float, float]


def _mask(op: Operation, scores_of: MaskedScores, visible: Visible) -> Mask | None:
    """The mask of an op if it has values below the bound, or if the scores are masked already; None otherwise."""
    weights = scores_of.weights
    combines = combination(op, weights)
    way = None if combines is None else scores_of.masked(op)
    if combines is None or way is None:
        return None
    scores = [value.owner for value in op.operands if isinstance(value.owner, StatisticsOp)]
    operands = [(op, i) for i in range(len(op.operands))]
    operands += [(combines, 1)] if isinstance(combines, PadOp) and combines is not op else []
    found = [
        (*operand, array)
        for operand in operands
        if (array := numbers(operand[0].operands[operand[1]], weights)) is not None
    ]
    # Without an observed range of the scores, no number is known to be low enough.
    if len(scores) != 1 or len(found) != 1:
        return None
    holder, index, values = found[0]
    low, high = visible_range(scores[0], visible)
    adds = isinstance(combines, AddOp)
    # An added mask has to move even the greatest score below the least visible one, by the margin.
    least = low - way.margin - (max(high, 0.0) if adds else 0.0)
    if not values.size or not values.max() < np.inf or (values.min() >= least and scores[0].arg not in visible):
        return None
    above = float(values.max())
    shown = (low, high + max(above, 0.0)) if adds else (low, max(high, above))
    return Mask(holder, index, values, way, least, shown)


def _has_masks(program: Program) -> bool:
    found = MaskedScores(program.weights)
    return any(_mask(op, found, {}) is not None for op in program.entry.ops)


def _bound_constants(program: Program, visible: Visible) -> None:
    found = MaskedScores(program.weights)
    for op in list(program.entry.ops):
        mask = _mask(op, found, visible)
        if mask is None:
            continue
        found = MaskedScores(program.weights)  # the change below invalidates the walk
        values = np.maximum(mask.values, np.float32(mask.least))
        bounded = constant_op(values, program.weights, location=op.location)
        assert mask.op.parent is not None
        mask.op.parent.insert_op_before(bounded, mask.op)
        mask.op.operands[mask.index] = bounded.output
        state_masked(mask.masked, *mask.shown, visible)


def bound_masks(program: Program) -> Program:
    """A copy of the calibrated program with bounded masks before softmax; the program itself if there are none."""
    if not _has_masks(program) and not has_computed_masks(program):
        return program
    program = program.for_change()
    visible: Visible = {}
    for _ in range(2):  # a constant mask may be added to a sum with a computed one, or the other way around
        _bound_constants(program, visible)
        bound_mask_ranges(program, visible)
    remove_dead_ops(program.entry)
    return program
