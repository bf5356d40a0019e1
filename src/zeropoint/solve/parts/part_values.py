"""Compute a part of a value that comes from an uneven concatenation, without the concatenation.

```mlir
%c = "quant.region"(%a, %b) ({ concatenate })
%h = "quant.region"(%c) ({ hard swish })
%p = "quant.region"(%h) ({ average pool })
```
The part of `%p` that comes from `%b` is the pool of the hard swish of `%b`. Each kernel on the path is copied for the
part (`divided.py`), with the corresponding part of its constants. A part of an operand that does not come from the
concatenation, such as the gate of a product, is a slice. If the scale of the whole operand is too coarse for the slice,
the part is computed separately, with a part of a contraction's weights. It is then computed twice if others read the
contraction as well. Readers of the same part share the copies.

The range of a part was not observed. It is bounded by the range that follows from the operands' ranges, and by the
range of the whole value. If there are samples, calibration then observes it (`calibrate/bounded.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import AnyFloat, LocationAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import BOUNDED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.locations import location_of, location_text, name_location, value_name
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConcatenateOp, SliceOp
from zeropoint.ir.tensors import element_of, shape_of, with_shape
from zeropoint.ir.weights import Weights
from zeropoint.solve.equalizable import own_contraction, readers_of
from zeropoint.solve.parts.cuts import Cut, copied, needed
from zeropoint.solve.parts.divided import Divided, is_cuttable
from zeropoint.solve.parts.leaves import JOIN, Join, Leaves, join_of, known_range, observed, span
from zeropoint.solve.parts.part_ranges import op_range, region_range
from zeropoint.solve.parts.part_readers import RealRange, is_open, step_for
from zeropoint.solve.parts.split_channels import WORTH as WORTH_TWICE

LONGEST = 24
"""The maximum number of kernels between a concatenation and a reader that are copied for each part."""


@dataclass(eq=False)
class Planned:
    """A part of a value: its range, and how to make it before an op. It is made at most once."""

    range: RealRange
    make: Callable[[Operation], SSAValue]
    made: SSAValue | None = None

    def value(self, before: Operation) -> SSAValue:
        """The part. Its ops are inserted before `before` if they do not exist yet."""
        if self.made is None:
            self.made = self.make(before)
        return self.made


@dataclass
class PartValues:
    """The parts that are planned so far, for all values."""

    leaves: Leaves
    planned: dict[tuple[SSAValue, int, bytes], Planned | None] = field(
        default_factory=dict[tuple[SSAValue, int, bytes], Planned | None]
    )

    def part(self, value: SSAValue, cut: Cut, depth: int = 0) -> Planned | None:
        """A part of a value; None if it cannot be computed alone or its range is unknown."""
        key = (value, *cut.key)
        if key not in self.planned:
            self.planned[key] = None if depth > LONGEST else self._plan(value, cut, depth)
        return self.planned[key]

    def _plan(self, value: SSAValue, cut: Cut, depth: int) -> Planned | None:
        weights, op = self.leaves.weights, value.owner
        if cut.is_all_of(value):
            whole = known_range(value, weights, self.leaves.target)
            return None if whole is None else Planned(whole, lambda _: value)
        if (array := constant_array(value, weights)) is not None:
            taken = np.take(array, cut.chosen, cut.axis)
            made = constant_op(taken, weights, location=location_of(value))
            floats = isinstance(element_of(value), AnyFloat)
            numbers = (float(taken.min()), float(taken.max())) if taken.size and floats else (0.0, 0.0)
            return Planned(numbers, lambda before: _inserted([made], before)) if is_cuttable(value) else None
        if isinstance(op, StatisticsOp):
            return self._stated(op, cut, depth)
        join = join_of(value)
        if join is not None and join.axis == cut.axis:
            return self._joined(join, cut, depth)
        if isinstance(op, Operation) and (value in self.leaves.of or isinstance(op, BroadcastInDimOp)):
            is_region = isinstance(op, QuantizeRegionOp)
            return self._region(op, cut, depth + 1) if is_region else self._op(op, cut, depth + 1)
        recomputed = self._recomputed(op, cut, depth + 1) if isinstance(op, QuantizeRegionOp) else None
        return recomputed or self._sliced(value, cut)

    def _recomputed(self, region: QuantizeRegionOp, cut: Cut, depth: int) -> Planned | None:
        """A part of another value, computed by a copy of its kernel; None if a slice of the value is as good.

        The part is computed twice, which must be worth it, as in `split_channels.py`. A contraction that nothing else
        reads is only divided, which is free.
        """
        part, value = self._region(region, cut, depth), region.outputs[0]
        if part is None or (_is_divided(region, cut, self.leaves.weights) and len(list(readers_of(value))) == 1):
            return part
        whole = self._region(region, Cut(cut.axis, np.arange(shape_of(value)[cut.axis])), depth)
        return part if whole is not None and step_for(whole.range) > WORTH_TWICE * step_for(part.range) else None

    def _stated(self, op: StatisticsOp, cut: Cut, depth: int) -> Planned | None:
        """A part of a value with statistics, with statistics that state the bound of the part."""
        part = self.part(op.arg, cut, depth)
        whole = known_range(op.res, self.leaves.weights, self.leaves.target)
        if part is None or whole is None:
            return None
        low, high = max(part.range[0], whole[0]), min(part.range[1], whole[1])
        bound = (low, high) if low <= high else part.range

        def make(before: Operation) -> SSAValue:
            inner = part.value(before)
            return inner if observed(inner) is not None else bounded(inner, bound, before)

        return Planned(bound, make)

    def _joined(self, join: Join, cut: Cut, depth: int) -> Planned | None:
        """A part of a concatenation along its dimension: parts of some operands, joined if there are several."""
        ends = np.cumsum([shape_of(value)[cut.axis] for value in join.values])
        operands = np.searchsorted(ends, cut.chosen, "right")
        runs = np.split(np.arange(cut.chosen.size), np.flatnonzero(np.diff(operands)) + 1)
        found: list[Planned] = []
        for run in runs:
            number = int(operands[run[0]])
            first = int(ends[number]) - shape_of(join.values[number])[cut.axis]
            part = self.part(join.values[number], Cut(cut.axis, cut.chosen[run] - first), depth)
            if part is None:
                return None
            found.append(part)
        bound = span([part.range for part in found])

        def make(before: Operation) -> SSAValue:
            values = [part.value(before) for part in found]
            if len(values) == 1:
                return values[0]
            joined = concatenated(values, cut.axis, join.op.location)
            return bounded(_inserted([joined], before), bound, before)

        return Planned(bound, make)

    def _region(self, region: QuantizeRegionOp, cut: Cut, depth: int) -> Planned | None:
        """The part of a region's result, computed from parts of its operands."""
        if not is_open(region) or len(region.outputs) != 1:
            return None
        divided = Divided.of(region, cut.axis, cut.chosen, self.leaves.weights)
        operands = None if divided is None else self.operands(divided, depth)
        if divided is None or operands is None:
            return None
        bound = region_range(divided, [part and part.range for part in operands], self.leaves.target)
        return None if bound is None else Planned(bound, lambda before: self.copy(divided, operands, before))

    def operands(self, divided: Divided, depth: int = 0) -> list[Planned | None] | None:
        """The parts of a region's operands, None for those that are needed whole. Returns None if a part cannot be
        computed."""
        found: list[Planned | None] = []
        for index, value in enumerate(divided.region.inputs):
            cut = divided.operand_cut(index)
            part = None if cut is None else self.part(value, cut, depth)
            if cut is not None and part is None:
                return None
            found.append(part)
        return found

    def copy(self, divided: Divided, operands: Sequence[Planned | None], before: Operation) -> SSAValue:
        """A copy of the region that reads the parts."""
        region = divided.region
        values = [
            value if part is None else part.value(before) for value, part in zip(region.inputs, operands, strict=True)
        ]
        made = divided.copy(values)
        made.location = located(
            region.location, next(value for value, part in zip(values, operands, strict=True) if part)
        )
        return _inserted([made], before)

    def _op(self, op: Operation, cut: Cut, depth: int) -> Planned | None:
        """The part of the result of an op without a kernel, computed from parts of its operands."""
        read = needed(op, cut)
        if read is None or op.regions:
            return None
        found = [(value, None if one is None else self.part(value, one, depth)) for value, one in read]
        if any(part is None and one is not None for (_, part), (_, one) in zip(found, read, strict=True)):
            return None
        ranges = [
            part.range if part else known_range(value, self.leaves.weights, self.leaves.target) for value, part in found
        ]
        bound = op_range(op, ranges)
        if bound is None:
            return None

        def make(before: Operation) -> SSAValue:
            values = {value: part.value(before) for value, part in found if part is not None}
            return _inserted([copied(op, cut, values, self.leaves.weights)], before)

        return Planned(bound, make)

    def _sliced(self, value: SSAValue, cut: Cut) -> Planned | None:
        """A slice of a value that does not come from a concatenation, at the scale of the whole value."""
        whole = known_range(value, self.leaves.weights, self.leaves.target)
        steps = set(np.diff(cut.chosen).tolist()) or {1}
        if whole is None or len(steps) != 1 or min(steps) < 1 or "slice" not in self.leaves.target.by_kernel:
            return None
        sizes = shape_of(value)
        start, limit, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
        start[cut.axis], limit[cut.axis] = int(cut.chosen[0]), int(cut.chosen[-1]) + 1
        (strides[cut.axis],) = steps

        def make(before: Operation) -> SSAValue:
            inner = SliceOp(value, start, limit, strides)
            return _inserted([wrapped("slice", inner, located(location_of(value), value))], before)

        return Planned(whole, make)


def _is_divided(region: QuantizeRegionOp, cut: Cut, weights: Weights) -> bool:
    """Whether a part of a contraction takes only a part of its weights."""
    op = own_contraction(region, weights)
    return op is not None and output_channel_axis(op) == cut.axis


def stated(value: SSAValue, bound: RealRange, before: Operation) -> SSAValue:
    """The value with statistics that state a range."""
    made = StatisticsOp(value, bound)
    made.location = location_of(value)
    return _inserted([made], before)


def bounded(value: SSAValue, bound: RealRange, before: Operation) -> SSAValue:
    """The value with statistics that state a bound, which was not observed."""
    made = stated(value, bound, before)
    assert isinstance(made.owner, StatisticsOp)
    made.owner.attributes[BOUNDED] = UnitAttr()
    return made


def concatenated(values: Sequence[SSAValue], axis: int, location: LocationAttr) -> QuantizeRegionOp:
    """A region that concatenates values. A value that occurs twice becomes one operand."""
    return wrapped(JOIN, ConcatenateOp(values, axis), location)


def wrapped(kernel: str, op: Operation, location: LocationAttr) -> QuantizeRegionOp:
    """A region around one op of one result. A value that occurs twice becomes one operand."""
    distinct = list(dict.fromkeys(op.operands))
    (result,) = op.results
    elements = [element_of(value) for value in distinct]
    made = QuantizeRegionOp(distinct, [with_shape(result, shape_of(result))], kernel, elements, [element_of(result)])
    inner = dict(zip(distinct, made.body.block.args, strict=True))
    op.operands = [inner[value] for value in op.operands]
    made.body.block.add_ops([op, ReturnOp([result])])
    made.location = op.location = location
    return made


def located(location: LocationAttr, part: SSAValue) -> LocationAttr:
    """The location of a copy. Its name ends with the name of the part."""
    name = location_text(location)
    return location if name is None else name_location(f"{name}/{value_name(part)}")


def _inserted(ops: Sequence[Operation], before: Operation) -> SSAValue:
    assert before.parent is not None
    before.parent.insert_ops_before(list(ops), before)
    return ops[-1].results[0]
