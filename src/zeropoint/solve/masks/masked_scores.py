"""Find masked scores, from the op that adds or inserts a mask to the kernel that hides the masked numbers.

```mlir
%0 = "quant.region"(%scores, %mask) ({ add })          the masked scores: some are -1e9
%1 = "quant.region"(%0) ({ reshape })                  moved
%2 = "quant.region"(%1, %half) ({ multiply })          scaled: hidden scores are half as far below the visible ones
%3 = "quant.region"(%2, %bias) ({ add })               visible in [-2, 3]: a hidden score may come nearer by 5
%4 = "quant.region"(%3) ({ softmax })                  hides scores that are 8 below the others
```
The last kernel is a softmax, or a maximum of sums (masked max pooling), which hides all numbers but the largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.masks import HIDDEN
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
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.widths.keep_tested import is_kept

MARGIN = 8.0
"""How far below the least visible score a hidden score must be where the softmax reads them."""
MOVES_ALL = ("broadcast", "reshape", "reverse", "transpose")
"""Kernels that move all elements of one operand."""
Visible = dict[SSAValue, float]
"""The least visible score of each masked sum with a bounded range. More masks may be added to such a sum."""


INSERTS = SelectOp | PadOp | ConcatenateOp | ScatterOp
"""Ops that write hidden scores beside visible ones."""


@dataclass(frozen=True)
class Way:
    """The map from scores to what is read: they are multiplied by `scale`, and numbers between `low` and `high` are
    added."""

    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0

    def then(self, other: Way) -> Way:
        """This map, followed by another."""
        low, high = self.low * other.scale + other.low, self.high * other.scale + other.high
        return Way(self.scale * other.scale, low, high)


@dataclass(frozen=True, eq=False)
class Masked:
    """Masked scores that only a softmax or a maximum reads.

    `way` is the map from the scores to that reader, and `apart` is how far below the least visible score a hidden score
    must be there. `statistics` are those of the scores, if they have any. `step` is the map of the next op, and `rest`
    describes the scores after it; `rest` is None if the next op hides the scores or applies another mask.
    """

    way: Way
    apart: float
    statistics: StatisticsOp | None
    rest: Masked | None = None
    step: Way = Way()

    def totals(self) -> Iterator[tuple[StatisticsOp, Way]]:
        """The statistics of the scores, and of the ops that move, scale or clamp them, each with the map up to it."""
        one, way = self, Way()
        while one is not None:
            if one.statistics is not None:
                yield one.statistics, way
            one, way = one.rest, way.then(one.step)

    @property
    def margin(self) -> float:
        """How far below the least visible score a hidden score must be where the mask is applied."""
        # A later addend may raise a hidden score by `high` and change a visible one by only `low`. A factor scales the
        # distance.
        return (self.apart + self.way.high - self.way.low) / self.way.scale


def visible_range(scores: StatisticsOp, visible: Visible) -> tuple[float, float]:
    """The range of the scores that are not hidden already."""
    low, high = stated_range(scores)
    return visible.get(scores.arg, low), high


def combination(op: Operation, weights: Weights) -> Operation | None:
    """The op that adds a mask to scores or inserts hidden scores, directly or in a region; None for anything else."""
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
    """The ops of a region that change visible scores: all but broadcasts and clamps far below the scores."""
    passing = BroadcastInDimOp | ConstantOp | ReturnOp | StatisticsOp
    return [op for op in region.body.block.ops if not isinstance(op, passing) and not _clamps_far(op, region, weights)]


def _clamps_far(op: Operation, region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether an op of a region only raises numbers that are low enough to hide a score."""
    if not isinstance(op, MaximumOp):
        return False
    found = [different_numbers(_given(value, region), weights) for value in op.operands]
    return any(array is not None and bool(array.size) and bool(array.max() <= HIDDEN) for array in found)


def numbers(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a float constant or of a broadcast scalar; None otherwise."""
    found = different_numbers(value, weights)
    if found is None or constant_array(value, weights) is not None:
        return found
    return np.full(shape_of(value), found.flat[0] if found.size else 0, found.dtype)


def different_numbers(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a float constant, or the number of a broadcast scalar as an array of one element; None otherwise."""
    array = constant_array(value, weights)
    if array is None and (number := splat_value(value, weights)) is not None:
        # Once, because the value may be as large as an activation.
        array = np.full(min(1, prod(shape_of(value))), number, element_dtype(element_of(value)))
    return array if array is not None and array.dtype.kind == "f" else None


class MaskedScores:
    """Finds masked scores in a program. The program must not change in the meantime.

    Results are cached per op, so a chain of sums is walked once, not once per sum.
    """

    def __init__(self, weights: Weights):
        self.weights = weights
        self._found: dict[_Reached, Masked | None] = {}

    def masked(self, op: Operation) -> Masked | None:
        """The path of an op's result to a softmax or maximum if only that and further masks read it; None otherwise."""
        # Iterative, because a chain may be as long as the program.
        reached, behind = self._start(op), list[_Step]()
        while reached not in self._found:
            step = self._step(reached)
            if not isinstance(step, _Step):
                self._found[reached] = step
            else:
                behind.append(step)
                reached = step.to
        found = self._found[reached]
        for step in reversed(behind):
            found = None if found is None else step.before(found)
            self._found[step.start] = found
        return found

    def _start(self, op: Operation) -> _Reached:
        return _Reached(op, isinstance(combination(op, self.weights), AddOp), stated=False)

    def _step(self, start: _Reached) -> _Step | Masked | None:
        """What the only reader of an op's result does: pass the scores on, or hide them. None if neither."""
        found = _only_reader(start.op)
        if found is None:
            return None
        statistics, use = found
        reader, weights = use.operation, self.weights
        stated = start.stated or statistics is not None
        if (apart := _hides_below(reader, start.adds)) is not None:
            return Masked(Way(), apart, statistics) if stated and use.index == 0 else None
        others = [value for index, value in enumerate(reader.operands) if index != use.index]
        if combination(reader, weights) is not None and any(_hides(value, weights) for value in others):
            return _Step(start, statistics, None, self._start(reader)) if stated else None
        way = Way() if _hands_on(reader, weights) else _scaled_or_moved(reader, use.index, weights)
        return None if way is None else _Step(start, statistics, way, _Reached(reader, start.adds, stated))


@dataclass(frozen=True)
class _Reached:
    """An op that masked scores reach. `adds`: the mask was added, not inserted. `stated`: a value on the path had
    statistics."""

    op: Operation
    adds: bool
    stated: bool


@dataclass(frozen=True)
class _Step:
    """The step from one op to the next. `way` is the map of the next op for the scores, or None if it applies another
    mask."""

    start: _Reached
    statistics: StatisticsOp | None
    way: Way | None
    to: _Reached

    def before(self, found: Masked) -> Masked:
        """The scores at `start`, given those at the next op."""
        if self.way is None:
            return Masked(found.way, found.apart, self.statistics)
        return Masked(self.way.then(found.way), found.apart, self.statistics, found, self.way)


def _only_reader(op: Operation) -> tuple[StatisticsOp | None, Use] | None:
    """The only use of an op's result, and the statistics in between; None if there are more uses."""
    if len(op.results) != 1 or not op.results[0].has_one_use():
        return None
    (use,) = op.results[0].uses
    if not isinstance(use.operation, StatisticsOp):
        return None, use
    # Another reader might use the hidden numbers themselves, so their range must not be changed.
    if not use.operation.res.has_one_use():
        return None
    (behind,) = use.operation.res.uses
    return use.operation, behind


def _hides_below(op: Operation, adds: bool) -> float | None:
    """How far below the visible scores a hidden score must be for a reader to hide it; None if it hides none.

    A maximum of values with inserted numbers needs no bound, because `value_ranges/read_ranges.py` narrows its operand.
    """
    if not isinstance(op, QuantizeRegionOp) or is_kept(op):
        return None
    if op.logical_kernel.data == "softmax":
        return MARGIN
    seen = [use.operation for use in op.outputs[0].uses if isinstance(use.operation, StatisticsOp)]
    hides = adds and op.logical_kernel.data == "reduce_max" and seen and stated_range(seen[0])[0] > HIDDEN
    return 0.0 if hides else None


def _scaled_or_moved(op: Operation, index: int, weights: Weights) -> Way | None:
    """The map of a region for operand `index`, if it multiplies by a positive number or adds ordinary scores."""
    factor = _factor(op, index, weights)
    return Way(factor) if factor is not None else _shift(op, index, weights)


def _shift(op: Operation, index: int, weights: Weights) -> Way | None:
    """The map of a region that only adds something to operand `index`; None for anything else."""
    steps = _steps(op, weights) if isinstance(op, QuantizeRegionOp) and len(op.outputs) == 1 else []
    if len(steps) != 1 or not isinstance(steps[0], AddOp) or len(op.operands) != 2:
        return None
    other = op.operands[1 - index]
    if isinstance(other.owner, StatisticsOp):
        low, high = stated_range(other.owner)
    elif (array := different_numbers(other, weights)) is not None and array.size:
        low, high = float(array.min()), float(array.max())
    else:
        return None
    # Only numbers of ordinary size: an addend as large as a mask would itself hide scores, or reveal hidden ones.
    return Way(1.0, low, high) if low > HIDDEN and high < -HIDDEN else None


def _factor(op: Operation, index: int, weights: Weights) -> float | None:
    """The positive number that a region multiplies operand `index` by; None if it does anything else."""
    steps = _steps(op, weights) if isinstance(op, QuantizeRegionOp) and len(op.outputs) == 1 else []
    if len(steps) != 1 or not isinstance(steps[0], MultiplyOp | DivideOp):
        return None
    assert isinstance(op, QuantizeRegionOp)
    given = [different_numbers(_given(value, op), weights) for value in steps[0].operands]
    scored = next((number for number, array in enumerate(given) if array is None), 0)
    factors = given[1 - scored]
    if steps[0].operands[scored] is not op.body.block.args[index] or (isinstance(steps[0], DivideOp) and scored):
        return None
    # One positive factor for all elements: a negative one would reverse the order of the scores, and different ones
    # would change their distances.
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
    """Whether a float value is a mask of 0 and very negative numbers, and not a bias of visible scores."""
    if isinstance(value.owner, StatisticsOp):
        # At most 0, so that adding the mask cannot raise a visible score.
        low, high = stated_range(value.owner)
        return low <= HIDDEN and high <= 0
    found = different_numbers(value, weights)
    return found is not None and bool(found.size) and bool(np.all((found == 0) | (found <= HIDDEN)))


def restate(statistics: StatisticsOp, low: float, high: float) -> None:
    """Replace the range of a `quant.stats`."""
    stated = StatisticsOp(statistics.arg, (low, high))
    stated.location = statistics.location
    Rewriter.replace_op(statistics, stated)


def state_masked(found: Masked, low: float, high: float, visible: Visible) -> None:
    """State the range of masked scores whose visible values are in [low, high], at each value on their path."""
    for statistics, way in found.totals():
        # Recorded before the range is extended downwards, because a further mask is placed below the visible scores
        # only.
        visible[statistics.arg] = low * way.scale + way.low
        restate(statistics, (low - found.margin) * way.scale + way.low, high * way.scale + way.high)
