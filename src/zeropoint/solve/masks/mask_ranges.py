"""Bound the ranges of computed attention masks, as `bound_masks` bounds the numbers of constant ones.

```mlir
%s = "quant.stats"(%scores) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : ...
%m = "quant.stats"(%mask) {layerStats = dense<[-1.0e9, 0.0]> : tensor<2xf32>} : ...
%0 = "quant.region"(%s, %m) ({ add }) ...
%1 = "quant.stats"(%0) {layerStats = dense<[-1.0e9, 5.0]> : tensor<2xf32>} : ...
%2 = "quant.region"(%1) ({ softmax }) ...
```
The pass changes the range of `%mask` to [-17, 0] and that of the sum to [-12, 5]. Values beyond saturate.

The mask may be an input of the program, or computed. The bound also applies to the value that the mask is moved from
(before a broadcast) if that value is only read as a mask. Of several bounds, the lowest applies. A constant factor of a
mask, as in `(1 - keep) * -3.4e38`, is bounded to a number that a multiplier can hold: 2^24 times the value that
saturates. So the smallest difference of two f32 numbers between 0.5 and 1 still hides a score.

The sum may be reshaped, scaled by a positive number, and clamped from below at a number as low as a mask's
(`torch.max(scores, torch.finfo.min)`) before the softmax reads it. All of these values get the range of the sum, scaled
accordingly. If the softmax reads the sum times 0.5, a hidden score is twice as far below the visible ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, Use

from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.masks.masked_scores import (
    Masked,
    MaskedScores,
    Visible,
    numbers,
    restate,
    state_masked,
    visible_range,
)
from zeropoint.targets.logical_kernels import MOVEMENTS

FINEST = 2.0**-24
"""The smallest factor of a mask, as a share of the largest, that still hides a score."""


@dataclass(frozen=True)
class MaskedSum:
    """A sum of scores and a computed mask that only a softmax reads.

    `mask` has the statistics of the mask, and `least` is the lower bound for its values. `shown` is the range of the
    visible sums.
    """

    sum: QuantizeRegionOp
    masked: Masked
    mask: StatisticsOp
    least: float
    shown: tuple[float, float]


def _masked_sum(op: Operation, scores_of: MaskedScores, visible: Visible) -> MaskedSum | None:
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data != "add":
        return None
    found = scores_of.masked(op)
    if found is None:
        return None
    terms = [value.owner for value in op.inputs if isinstance(value.owner, StatisticsOp)]
    for scores, mask in (terms, terms[::-1]) if len(terms) == 2 else ():
        low, high = visible_range(scores, visible)
        least = low - found.margin - max(high, 0.0)
        hidden, above = stated_range(mask)
        # The other way around, masked scores are not a mask for the scores that are added to them. The observed range
        # of the sum is not used: with -1e9 in it, its ends say nothing about visible scores.
        if hidden < least and mask.arg not in visible:
            return MaskedSum(op, found, mask, least, (low, high + max(above, 0.0)))
    return None


def _bounds(program: Program, sums: list[MaskedSum]) -> dict[StatisticsOp, float]:
    """The lower bound of every value that is only read as a mask."""
    of_sum: dict[Operation, MaskedSum] = {one.sum: one for one in sums}
    found: dict[StatisticsOp, float] = {}

    def bound(use: Use) -> float | None:
        reader = use.operation
        if one := of_sum.get(reader):
            return one.least if reader.operands[use.index].owner is one.mask else None
        if not isinstance(reader, QuantizeRegionOp) or reader.logical_kernel.data not in MOVEMENTS:
            return None
        moved = [other.operation for result in reader.outputs for other in result.uses]
        least = [found.get(other) if isinstance(other, StatisticsOp) else None for other in moved]
        return _least(least)

    for op in reversed(list(program.entry.ops)):
        if isinstance(op, StatisticsOp) and op.arg.has_one_use():
            least = _least([bound(use) for use in op.res.uses])
            if least is not None:
                found[op] = least
    return found


def _least(bounds: list[float | None]) -> float | None:
    """The lowest bound; None if there are none or one is unknown."""
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known and len(known) == len(bounds) else None


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


def has_computed_masks(program: Program) -> bool:
    """Whether a program has masks that `bound_mask_ranges` would bound."""
    return next(_masked_sums(program, {}), None) is not None


def _masked_sums(program: Program, visible: Visible) -> Iterator[MaskedSum]:
    scores_of = MaskedScores(program.weights)
    return (found for op in program.entry.ops if (found := _masked_sum(op, scores_of, visible)) is not None)


def bound_mask_ranges(program: Program, visible: Visible) -> None:
    """Bound the ranges of computed masks, and of sums of scores and masks, in place. Records the sums in `visible`."""
    sums = list(_masked_sums(program, visible))
    bounds = _bounds(program, sums)
    for statistics, least in bounds.items():
        low, high = stated_range(statistics)
        if low < least:
            _bound_factor(statistics, max(-least, abs(high)), program)
            restate(statistics, least, max(high, least))
    for one in sums:
        if one.mask in bounds:
            state_masked(one.masked, *one.shown, visible)
