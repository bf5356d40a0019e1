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

The sum may be reshaped, scaled by a positive number, and clamped from below at a number as low as a mask's
(`torch.max(scores, torch.finfo.min)`) before the softmax reads it. All of these values get the range of the sum, scaled
as they are. If the softmax reads the sum times 0.5, a hidden score is twice as far below the visible ones.
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
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    DivideOp,
    MaximumOp,
    MultiplyOp,
    PadOp,
    ScatterOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.targets.logical_kernels import MOVEMENTS

MARGIN = 8.0
"""Distance of a hidden score below the least visible one where the softmax reads them."""
HIDDEN = -1000.0
"""The greatest number of a further mask that counts as hiding a score; no usual bias is as low."""
MOVES_ALL = ("broadcast", "reshape", "reverse", "transpose")
"""Kernels that move all elements of one operand."""
FINEST = 2.0**-24
"""A factor of a mask, as part of the greatest, that still hides a score."""


Visible = dict[SSAValue, float]
"""The least visible score of each masked sum whose range is bounded; more masks may be added to it."""


INSERTS = SelectOp | PadOp | ConcatenateOp | ScatterOp
"""Ops that write hidden scores beside visible ones."""


@dataclass(frozen=True)
class Masked:
    """Masked scores that only a softmax reads.

    `totals` are the statistics of the scores and of the ops that move, scale or clamp them, each with the factor so
    far. `scale` is the factor of the scores where the softmax reads them.
    """

    totals: tuple[tuple[StatisticsOp, float], ...]
    scale: float

    @property
    def margin(self) -> float:
        """Distance of a hidden score below the least visible one where the mask is put on."""
        return MARGIN / self.scale


@dataclass(frozen=True)
class MaskedSum:
    """A sum of scores and a computed mask that only a softmax reads.

    `mask` are the statistics of the mask. `least` is the lower bound of the mask, `shown` is the range of the visible
    sums.
    """

    sum: QuantizeRegionOp
    masked: Masked
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


def combination(op: Operation, weights: Weights) -> Operation | None:
    """The op, maybe inside a region, that adds a mask to scores or inserts hidden scores; None for anything else."""
    if isinstance(op, ScatterOp):
        return op if _overwrites(op) else None
    if isinstance(op, INSERTS):
        return op
    inner = _steps(op, weights) if isinstance(op, QuantizeRegionOp) else []
    return inner[0] if len(inner) == 1 and isinstance(inner[0], AddOp | INSERTS) else None


def _overwrites(op: ScatterOp) -> bool:
    """Whether a scatter of one tensor replaces the elements at its positions."""
    block = op.update_computation.block
    last = block.last_op
    return len(op.inputs) == 1 and last is not None and list(last.operands) == [block.args[1]]


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


def masked(op: Operation, weights: Weights) -> Masked | None:
    """The way of an op's result to a softmax if only that reads it, or more masks do; None otherwise."""
    found: list[tuple[StatisticsOp, float]] = []
    scale = 1.0
    while len(op.results) == 1 and op.results[0].has_one_use():
        (use,) = op.results[0].uses
        if isinstance(use.operation, StatisticsOp):
            found.append((use.operation, scale))
            if not use.operation.res.has_one_use():
                return None
            (use,) = use.operation.res.uses
        reader = use.operation
        if isinstance(reader, QuantizeRegionOp) and reader.logical_kernel.data == "softmax":
            return Masked(tuple(found), scale) if found and use.index == 0 else None
        factor = 1.0 if _hands_on(reader, weights) else _factor(reader, use.index, weights)
        if factor is None:
            others = [value for index, value in enumerate(reader.operands) if index != use.index]
            hides = combination(reader, weights) is not None and any(_hides(value, weights) for value in others)
            further = masked(reader, weights) if found and hides else None
            return None if further is None else Masked(tuple(found), scale * further.scale)
        op, scale = reader, scale * factor
    return None


def _factor(op: Operation, index: int, weights: Weights) -> float | None:
    """The positive number that a region multiplies its operand `index` by; None if it does anything else."""
    steps = _steps(op, weights) if isinstance(op, QuantizeRegionOp) and len(op.outputs) == 1 else []
    if len(steps) != 1 or not isinstance(steps[0], MultiplyOp | DivideOp):
        return None
    assert isinstance(op, QuantizeRegionOp)
    given = [numbers(_given(value, op), weights) for value in steps[0].operands]
    scored = next((place for place, array in enumerate(given) if array is None), 0)
    factors = given[1 - scored]
    if steps[0].operands[scored] is not op.body.block.args[index] or (isinstance(steps[0], DivideOp) and scored):
        return None
    if factors is None or not factors.size or factors.min() != factors.max() or not 0 < factors.min() < np.inf:
        return None
    factor = float(factors.flat[0])
    return 1.0 / factor if isinstance(steps[0], DivideOp) else factor


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
    found = masked(op, weights)
    if found is None:
        return None
    terms = [value.owner for value in op.inputs if isinstance(value.owner, StatisticsOp)]
    for scores, mask in (terms, terms[::-1]) if len(terms) == 2 else ():
        low, high = visible_range(scores, visible)
        least = low - found.margin - max(high, 0.0)
        hidden, above = range_of(mask)
        if hidden < least:  # the observed range of the sum is useless: beside -1e9, its upper end has no meaning
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
    """The lowest bound; None if there is none, or one is unknown."""
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _restate(statistics: StatisticsOp, low: float, high: float) -> None:
    stated = StatisticsOp(statistics.arg, (low, high))
    stated.location = statistics.location
    Rewriter.replace_op(statistics, stated)


def state_masked(found: Masked, low: float, high: float, visible: Visible) -> None:
    """State the range of masked scores that are visible in [low, high], wherever they are moved to."""
    for statistics, factor in found.totals:
        visible[statistics.arg] = low * factor
        _restate(statistics, (low - found.margin) * factor, high * factor)


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
            state_masked(one.masked, *one.shown, visible)
