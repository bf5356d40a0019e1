"""Bound the ranges of computed attention masks, as `bound_masks` bounds the numbers of constant ones.

```mlir
%s = "quant.stats"(%scores) {layerStats = dense<[-4.0, 5.0]> : tensor<2xf32>} : ...
%m = "quant.stats"(%mask) {layerStats = dense<[-1.0e9, 0.0]> : tensor<2xf32>} : ...
%0 = "quant.region"(%s, %m) ({ add }) ...
%1 = "quant.stats"(%0) {layerStats = dense<[-1.0e9, 5.0]> : tensor<2xf32>} : ...
%2 = "quant.region"(%1) ({ softmax }) ...
```
becomes the same with the range [-17, 0] of `%mask` and the range [-12, 5] of the sum, where they saturate.

The mask may be an input of the program, or computed. The bound also holds for what it is moved from (a broadcast mask)
if everything that reads that is a mask as well; of several bounds, the lowest. A constant factor of a mask, as in
`(1 - keep) * -3.4e38`, is bounded to a number that a multiplier can hold: 2^24 times what saturates, so that the least
difference of two f32 between 0.5 and 1 still hides a score.

The sum may be reshaped, and clamped from below at a number as low as a mask's (`torch.max(scores, torch.finfo.min)`),
before the softmax reads it. All of these values get the range of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConstantOp, MaximumOp, SelectOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.targets.logical_kernels import MOVEMENTS

MARGIN = 8.0
"""Distance of a hidden score below the least visible one."""
HIDDEN = -1000.0
"""The greatest number of a further mask that counts as hiding a score; no usual bias is as low."""
MOVES_ALL = ("broadcast", "reshape", "reverse", "transpose")
"""Kernels that move all elements of one operand."""
FINEST = 2.0**-24
"""A factor of a mask, as part of the greatest, that still hides a score."""


Visible = dict[SSAValue, float]
"""The least visible score of each masked sum whose range is bounded; more masks may be added to it."""


@dataclass(frozen=True)
class MaskedSum:
    """A sum of scores and a computed mask that only a softmax reads.

    `totals` are the statistics of the sum and of the ops that move or clamp it, `mask` the statistics of the mask.
    `least` is the lower bound of the mask, `shown` is the range of the sum with it.
    """

    sum: QuantizeRegionOp
    totals: tuple[StatisticsOp, ...]
    mask: StatisticsOp
    least: float
    shown: tuple[float, float]


def range_of(statistics: StatisticsOp) -> tuple[float, float]:
    """The least and the greatest number of a `quant.stats`."""
    low, high = inline_array(statistics.layer_stats).tolist()
    return low, high


def visible_range(scores: StatisticsOp, visible: Visible) -> tuple[float, float]:
    """The range of the scores that are not hidden already."""
    low, high = range_of(scores)
    return visible.get(scores.arg, low), high


def combination(op: Operation, weights: Weights) -> type[AddOp | SelectOp] | None:
    """The way in which an op, or the kernel of a region, combines scores and mask: `add` or `select`; None for anything
    else."""
    if isinstance(op, SelectOp):
        return SelectOp
    inner = _steps(op, weights) if isinstance(op, QuantizeRegionOp) else []
    return type(inner[0]) if len(inner) == 1 and isinstance(inner[0], AddOp | SelectOp) else None


def _steps(region: QuantizeRegionOp, weights: Weights) -> list[Operation]:
    """The ops of a region that change visible scores: neither broadcasts nor clamps far below them."""
    passing = BroadcastInDimOp | ConstantOp | ReturnOp | StatisticsOp
    return [op for op in region.body.block.ops if not isinstance(op, passing) and not _clamps_far(op, region, weights)]


def _clamps_far(op: Operation, region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether an op of a region only raises numbers that hide a score."""
    if not isinstance(op, MaximumOp):
        return False
    found = [numbers(_given(value, region), weights) for value in op.operands]
    return any(array is not None and bool(array.size) and bool(array.max() <= HIDDEN) for array in found)


def numbers(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a float constant or of a broadcast scalar; None otherwise."""
    array = constant_array(value, weights)
    if array is None and (number := splat_value(value, weights)) is not None:
        array = np.full(shape_of(value), number, element_dtype(element_of(value)))
    return array if array is not None and array.dtype.kind == "f" else None


def masked(op: Operation, weights: Weights) -> tuple[StatisticsOp, ...]:
    """The statistics of an op's result, and of what moves or clamps it, if only a softmax reads that, or more masks do.

    Empty otherwise.
    """
    found: list[StatisticsOp] = []
    while len(op.results) == 1 and op.results[0].has_one_use():
        (use,) = op.results[0].uses
        if isinstance(use.operation, StatisticsOp):
            found.append(use.operation)
            if not use.operation.res.has_one_use():
                return ()
            (use,) = use.operation.res.uses
        reader = use.operation
        if isinstance(reader, QuantizeRegionOp) and reader.logical_kernel.data == "softmax":
            return tuple(found) if use.index == 0 else ()
        if not _hands_on(reader, weights):
            others = [value for index, value in enumerate(reader.operands) if index != use.index]
            hides = combination(reader, weights) is not None and any(_hides(value, weights) for value in others)
            return tuple(found) if hides and masked(reader, weights) else ()
        op = reader
    return ()


def _hands_on(op: Operation, weights: Weights) -> bool:
    """Whether an op moves all elements of its operand, or only raises those far below any score."""
    if not isinstance(op, QuantizeRegionOp) or len(op.outputs) != 1:
        return False
    return op.logical_kernel.data in MOVES_ALL or not _steps(op, weights)


def _given(value: SSAValue, region: QuantizeRegionOp) -> SSAValue:
    """The operand of a region that an inner value broadcasts, or the value itself."""
    source = value.owner.operand if isinstance(value.owner, BroadcastInDimOp) else value
    return region.inputs[source.index] if isinstance(source, BlockArgument) else value


def _hides(value: SSAValue, weights: Weights) -> bool:
    """Whether a float value is a mask of 0 and very negative numbers, not a bias that visible scores have, too."""
    if isinstance(value.owner, StatisticsOp):
        low, high = range_of(value.owner)
        return low <= HIDDEN and high <= 0
    found = numbers(value, weights)
    return found is not None and bool(found.size) and bool(np.all((found == 0) | (found <= HIDDEN)))


def _masked_sum(op: Operation, weights: Weights, visible: Visible) -> MaskedSum | None:
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data != "add":
        return None
    totals = masked(op, weights)
    if not totals:
        return None
    terms = [value.owner for value in op.inputs if isinstance(value.owner, StatisticsOp)]
    for scores, mask in (terms, terms[::-1]) if len(terms) == 2 else ():
        low, high = visible_range(scores, visible)
        least = low - MARGIN - max(high, 0.0)
        hidden, above = range_of(mask)
        if hidden < least:  # the observed range of the sum is useless: beside -1e9, its upper end has no meaning
            return MaskedSum(op, totals, mask, least, (low - MARGIN, high + max(above, 0.0)))
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
    """The lowest bound; None if there is none, or one is unknown."""
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _restate(statistics: StatisticsOp, low: float, high: float) -> None:
    stated = StatisticsOp(statistics.arg, (low, high))
    stated.location = statistics.location
    Rewriter.replace_op(statistics, stated)


def state_masked(totals: tuple[StatisticsOp, ...], low: float, high: float, visible: Visible) -> None:
    """State the range of a masked sum whose visible scores are in [low, high], wherever it is moved to."""
    for statistics in totals:
        visible[statistics.arg] = low
        _restate(statistics, low - MARGIN, high)


def _bound_factor(product: StatisticsOp, largest: float, program: Program) -> None:
    """Bound the constant factor of a product that saturates at numbers of at most `largest`, in place."""
    op = product.arg.owner
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data != "multiply" or len(op.inputs) != 2:
        return
    for index, value in enumerate(op.inputs):
        other, factor = op.inputs[1 - index].owner, numbers(value, program.weights)
        if factor is None or not isinstance(other, StatisticsOp):
            continue
        greatest = max(map(abs, range_of(other)))
        most = largest / (greatest * FINEST) if greatest else 0.0
        if factor.size and 0.0 < most < float(np.abs(factor).max()):
            bounded = constant_op(
                np.clip(factor, -most, most).astype(factor.dtype), program.weights, location=op.location
            )
            program.entry.insert_op_before(bounded, op)
            op.operands[index] = bounded.output


def has_computed_masks(program: Program) -> bool:
    """Whether a program has masks that `bound_mask_ranges` changes."""
    return next(_masked_sums(program, {}), None) is not None


def _masked_sums(program: Program, visible: Visible) -> Iterator[MaskedSum]:
    weights = program.weights
    return (found for op in program.entry.ops if (found := _masked_sum(op, weights, visible)) is not None)


def bound_mask_ranges(program: Program, visible: Visible) -> None:
    """Bound the ranges of computed masks, and of the sums of scores and masks, in place; the sums are noted."""
    sums = list(_masked_sums(program, visible))
    bounds = _bounds(program, sums)
    for statistics, least in bounds.items():
        low, high = range_of(statistics)
        if low < least:
            _bound_factor(statistics, max(-least, abs(high)), program)
            _restate(statistics, least, max(high, least))
    for one in sums:
        if one.mask in bounds:
            state_masked(one.totals, one.shown[0] + MARGIN, one.shown[1], visible)
