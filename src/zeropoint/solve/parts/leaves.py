"""Track which operand of an uneven concatenation each element of a value comes from. These operands are called leaves.

```mlir
%c = "quant.region"(%a, %b) ({ concatenate })      leaves %a, in [-100, 100], and %b, in [-1, 1]
%p = "quant.region"(%c) ({ max pool })             leaves %a and %b, along dimension 1
%d = "quant.region"(%p, %q) ({ concatenate })      leaves %a, %b and %q
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.element_parts import NO_PART, carried, concatenated, through
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, Storage
from zeropoint.ir.stablehlo import ConcatenateOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.kernel import ADDS_ELEMENTS, is_float
from zeropoint.solve.parts.part_readers import RealRange, is_open, range_of, step_for
from zeropoint.targets import OUTPUT, Target
from zeropoint.targets.logical_kernels import MOVEMENTS

WORTH = 2.0
"""How many times coarser than needed the scale of a part may be (one bit)."""
JOIN = "concatenate"


@dataclass(frozen=True, eq=False)
class Leaf:
    """An operand of a concatenation, and its range."""

    value: SSAValue
    range: RealRange

    @property
    def step(self) -> float:
        """The scale that the operand needs at 8 bits."""
        return step_for(self.range)


@dataclass
class Leaves:
    """The leaves found so far. `of` maps each value with several leaves to the number of the leaf of each element."""

    weights: Weights
    target: Target
    found: list[Leaf] = field(default_factory=list[Leaf])
    of: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    def visit(self, op: Operation) -> None:
        """Follow the leaves through an op."""
        if isinstance(op, StatisticsOp):
            if op.arg in self.of:
                self.of[op.res] = self.of[op.arg]
        elif len(op.results) == 1 and (join := join_of(op.results[0])) is not None:
            self._join(join)
        elif any(value in self.of for value in op.operands):
            if isinstance(op, QuantizeRegionOp):
                self.of |= zip(op.results, through(op, self.of, self.weights), strict=False)
            elif (made := carried(op, self.of, self.weights)) is not None:
                self.of[op.results[0]] = made

    def _join(self, join: Join) -> None:
        """Number the operands of a concatenation. Operands that have leaves keep these."""
        fresh = [value for value in join.values if value not in self.of]
        ranges = [known_range(value, self.weights, self.target) for value in fresh]
        leaves = [Leaf(value, span) for value, span in zip(fresh, ranges, strict=True) if span is not None]
        # One scale suits even operands, so they need no leaves.
        if len(leaves) < len(fresh) or (len(fresh) == len(join.values) and is_even(leaves)):
            return
        numbers = {leaf.value: len(self.found) + number for number, leaf in enumerate(leaves)}
        self.found += leaves
        parts = [self.of[one] if one in self.of else np.array(numbers[one], np.int32) for one in join.values]
        self.of[join.op.results[0]] = concatenated(join.concatenation, parts)


@dataclass(frozen=True)
class Join:
    """A concatenation, as a region or as an op."""

    op: Operation
    concatenation: ConcatenateOp
    values: Sequence[SSAValue]

    @property
    def axis(self) -> int:
        """The dimension along which the operands are joined."""
        return int(self.concatenation.dimension.value.data)


def join_of(value: SSAValue) -> Join | None:
    """The concatenation that produces a value, or the operand of its statistics. None for one with demands on its
    ports."""
    op = value.owner
    if isinstance(op, StatisticsOp):
        op = op.operands[0].owner
    if isinstance(op, ConcatenateOp):
        return Join(op, op, op.inputs)
    region = region_of(value)
    inner = None if region is None else region.body.block.first_op
    if region is None or region.logical_kernel.data != JOIN or not isinstance(inner, ConcatenateOp):
        return None
    inputs: dict[SSAValue, SSAValue] = dict(zip(region.body.block.args, region.inputs, strict=True))
    if any(operand not in inputs for operand in inner.inputs):
        return None
    return Join(region, inner, [inputs[operand] for operand in inner.inputs])


def region_of(value: SSAValue) -> QuantizeRegionOp | None:
    """The open region of one result that produces a value, or the operand of its statistics."""
    op = value.owner
    if isinstance(op, StatisticsOp):
        op = op.operands[0].owner
    return op if isinstance(op, QuantizeRegionOp) and is_open(op) and len(op.outputs) == 1 else None


def observed(value: SSAValue) -> RealRange | None:
    """The observed range of a value, or of the value that it states the range of."""
    return range_of(value.owner.arg if isinstance(value.owner, StatisticsOp) else value)


def known_range(value: SSAValue, weights: Weights, target: Target) -> RealRange | None:
    """The range of a value: of a constant, of the type that its kernel always has, or observed.

    A value of a fixed type can take all values of that type, so its observed range does not count.
    """
    array = constant_array(value, weights)
    if array is not None and array.size:
        return float(array.min()), float(array.max())
    found = _fixed_range(value, target) or observed(value)
    maker = region_of(value)
    if found is not None or maker is None or isinstance(value.owner, StatisticsOp):
        return found
    moved = _moved(maker)
    return None if moved is None else known_range(moved, weights, target)


def _moved(maker: QuantizeRegionOp) -> SSAValue | None:
    """The value whose elements a region moves; None if it computes, or elements of its result come from elsewhere."""
    given = [value for value in maker.inputs if is_float(value)]
    kernel = maker.logical_kernel.data
    return given[0] if len(given) == 1 and kernel in MOVEMENTS and kernel not in ADDS_ELEMENTS else None


def _fixed_range(value: SSAValue, target: Target) -> RealRange | None:
    """The range of the type that a value's kernel always has, or that the kernel of the elements has if they are only
    moved."""
    maker = region_of(value)
    if maker is None:
        return None
    for row in target.by_kernel.get(maker.logical_kernel.data, ()):
        fixed = row.fixed(OUTPUT, Storage.of("i8"))
        if fixed is not None:
            storage, zero_point = fixed.storage, fixed.zero_point
            return (storage.minimum - zero_point) * fixed.scale, (storage.maximum - zero_point) * fixed.scale
    moved = _moved(maker)
    return None if moved is None else _fixed_range(moved, target)


def along_one_dimension(numbers: Array) -> tuple[int, Array] | None:
    """The dimension along which the leaves of a value differ, and the leaf of each element along it; None if several.

    An element of no leaf, such as padding, belongs to the leaf of its neighbours.
    """
    if not numbers.size:
        return None
    for axis in range(numbers.ndim):
        others = tuple(n for n in range(numbers.ndim) if n != axis)
        along = numbers.max(axis=others, keepdims=True)
        if ((numbers == along) | (numbers == NO_PART)).all():
            found = along.reshape(-1)
            return (axis, found) if (found != NO_PART).all() and np.unique(found).size > 1 else None
    return None


def is_even(leaves: Sequence[Leaf]) -> bool:
    """Whether the scales of leaves differ by at most one bit. A leaf of zeros fits any scale."""
    steps = [leaf.step for leaf in leaves if leaf.step > 0]
    return max(steps, default=0.0) <= WORTH * min(steps, default=0.0)


def span(ranges: Sequence[RealRange]) -> RealRange:
    """The smallest range that contains all given ranges."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)
