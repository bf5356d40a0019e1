"""Compute a kernel before a concatenation instead of after it if the concatenation's scale would be too coarse for it.

```mlir
%c = "quant.region"(%a, %b) ({ concatenate })            %a observed in [-100, 100], %b in [-1, 1]
%v = "quant.stats"(%c) {layerStats = [-100.0, 100.0]}
%n = "quant.region"(%v, %scale) ({ multiply channels })   %scale is 0.01 for the channels of %a, 1 for those of %b
%s = "quant.stats"(%n) {layerStats = [-1.0, 1.0]}
```
becomes
```mlir
%m = "quant.region"(%a, %scale[0:4]) ({ multiply channels })
%n = "quant.region"(%b, %scale[4:8]) ({ multiply channels })
%c = "quant.region"(%m, %n) ({ concatenate })             every operand has the statistics of the whole, [-1.0, 1.0]
%s = "quant.stats"(%c) {layerStats = [-1.0, 1.0]}
```
The batch norms of a DenseNet are such readers: they give the channels of all layers one size. A concatenation has one
scale, 0.8 for the example, at which `%b` becomes -1, 0 or 1 before it is normalized. The parts have their own scales.

The kernel must compute each slice along the concatenated dimension from that slice of one operand and from constants:
products and sums with constants, depthwise convolutions. It is exact to move it, and it computes as many elements as
before. (A function of a value that is too coarse for it stays float: `function_widths.py`.)

Let `gain` be the most that the kernel amplifies an error in a part, such as a factor. The kernel is moved if, for some
part, gain * (scale of the concatenation) is more than twice as coarse as the scale of its result, and as gain * (scale
of the part), which are needed in any case. Neighbours whose scales differ by no more than that stay joined, so that a
DenseNet's many parts become few kernels. Concatenations of concatenations are taken apart if their operands differ as
well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import location_of, location_text, name_location, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp, Storage
from zeropoint.ir.stablehlo import ConcatenateOp, ConstantOp
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.ir.weights import Weights
from zeropoint.solve.amplification import Amplified, amplified
from zeropoint.solve.divided import Divided, is_cuttable
from zeropoint.solve.parts import Range, is_open, range_of, step_for
from zeropoint.targets import OUTPUT, Target
from zeropoint.targets.logical_kernels import FUNCTIONS, MOVEMENTS

WORTH = 2.0
"""How many times coarser than needed the scale of a part may be: one bit."""
JOIN = "concatenate"


@dataclass(frozen=True, eq=False)
class _Operand:
    """An operand of a concatenation: its range, and its place along the concatenated dimension."""

    value: SSAValue
    range: Range
    first: int
    last: int

    @property
    def step(self) -> float:
        return step_for(self.range)


def _region_of(value: SSAValue) -> QuantizeRegionOp | None:
    """The open region of one result that makes a value, also before its statistics."""
    op = value.owner
    if isinstance(op, StatisticsOp):
        op = op.operands[0].owner
    return op if isinstance(op, QuantizeRegionOp) and is_open(op) and len(op.outputs) == 1 else None


def _join_of(value: SSAValue) -> tuple[list[SSAValue], int] | None:
    """The operands of the concatenation that makes a value, and its dimension."""
    region = _region_of(value)
    op = None if region is None else region.body.block.first_op
    if region is None or region.logical_kernel.data != JOIN or not isinstance(op, ConcatenateOp):
        return None
    inputs: dict[SSAValue, SSAValue] = dict(zip(region.body.block.args, region.inputs, strict=True))
    if any(operand not in inputs for operand in op.inputs):
        return None
    return [inputs[operand] for operand in op.inputs], op.dimension.value.data


@dataclass(frozen=True)
class _Reader:
    """A region that reads a concatenation as its only computed operand, the one with number `index`."""

    region: QuantizeRegionOp
    index: int
    axis: int
    parts: Sequence[Sequence[_Operand]]
    weights: Weights

    @staticmethod
    def of(region: QuantizeRegionOp, weights: Weights, target: Target) -> _Reader | None:
        """None if the region reads no concatenation of parts of different size, or computes anything else."""
        kernel = region.logical_kernel.data
        if kernel not in target.by_kernel or kernel in FUNCTIONS or len(region.outputs) != 1 or not is_open(region):
            return None
        computed = [index for index, value in enumerate(region.inputs) if not isinstance(value.owner, ConstantOp)]
        joined = _join_of(region.inputs[computed[0]]) if len(computed) == 1 else None
        if joined is None or JOIN not in target.by_kernel:
            return None
        values, axis = joined
        operands = list(_operands(values, axis, weights, target))
        parts, size = _grouped(operands), sum(shape_of(value)[axis] for value in values)
        shape = shape_of(region.outputs[0])
        is_known = bool(operands) and operands[-1].last == size and axis < len(shape) and shape[axis] == size
        computes = all(any(not isinstance(one.value.owner, ConstantOp) for one in part) for part in parts)
        return _Reader(region, computed[0], axis, parts, weights) if len(parts) > 1 and is_known and computes else None

    def divided(self) -> list[Divided] | None:
        """How the region computes each part; None if it does not keep them apart."""
        found: list[Divided] = []
        for part in self.parts:
            chosen = np.arange(part[0].first, part[-1].last)
            one = Divided.of(self.region, self.axis, chosen, self.weights)
            if one is None or one.operand_axis(self.index) != self.axis:
                return None
            inputs = enumerate(self.region.inputs)
            cut = [value for index, value in inputs if index != self.index and one.operand_axis(index) is not None]
            if not all(map(is_cuttable, cut)):
                return None
            found.append(one)
        return found

    def is_worth_it(self, divided: Sequence[Divided]) -> bool:
        """Whether the scale of the concatenation is too coarse for a part."""
        spans = [_union(part) for part in self.parts]
        seen = [amplified(one, self.index, span) for one, span in zip(divided, spans, strict=True)]
        known = [one for one in seen if one is not None]
        if len(known) < len(seen):
            return False
        shared = step_for(_observed(self.region.inputs[self.index]) or _span(spans))
        result = step_for(range_of(self.region.outputs[0]) or _span([one.range for one in known]))
        return any(_is_hurt(one, shared, step_for(span), result) for one, span in zip(known, spans, strict=True))

    def move(self, divided: Sequence[Divided]) -> None:
        """Insert the kernels of the parts and their concatenation instead of the region."""
        block = self.region.parent
        assert block is not None
        made: list[SSAValue] = []
        for part, one in zip(self.parts, divided, strict=True):
            values = [operand.value for operand in part]
            if len(values) > 1:
                joined = _concatenated(values, self.axis, location_of(self.region.inputs[self.index]))
                stated = StatisticsOp(joined.outputs[0], _union(part))
                stated.location = joined.location
                block.insert_ops_before([joined, stated], self.region)
                values = [stated.res]
            made.append(self._computed(one, values[0]))
        joined = _concatenated(made, self.axis, self.region.location)
        block.insert_op_before(joined, self.region)
        self.region.outputs[0].replace_all_uses_with(joined.outputs[0])
        self.region.detach()
        self.region.erase()

    def _computed(self, one: Divided, value: SSAValue) -> SSAValue:
        """The result of the region for a part, with the statistics of the whole: its concatenation has one scale."""
        ops: list[Operation] = []
        operands: list[SSAValue] = []
        for index, operand in enumerate(self.region.inputs):
            if index != self.index and one.operand_axis(index) is not None:
                ops.append(taken := one.constant(index))
                operand = taken.results[0]
            operands.append(value if index == self.index else operand)
        ops.append(copy := one.copy(operands))
        if (name := location_text(self.region.location)) is not None:
            copy.location = name_location(f"{name}/{value_name(value)}")
        if (observed := range_of(self.region.outputs[0])) is not None:
            ops.append(stated := StatisticsOp(copy.outputs[0], observed))
            stated.location = copy.location
        assert self.region.parent is not None
        self.region.parent.insert_ops_before(ops, self.region)
        return ops[-1].results[0]


def _is_hurt(one: Amplified, shared: float, own: float, result: float) -> bool:
    """Whether the `shared` scale costs a part more than a bit, beside its own scale and that of the result."""
    return one.gain * shared > WORTH * max(one.gain * own, result)


def _operands(
    values: Sequence[SSAValue], axis: int, weights: Weights, target: Target, first: int = 0
) -> Iterator[_Operand]:
    """The operands of a concatenation up to one of unknown range; its own if an operand is an uneven concatenation."""
    for value in values:
        last, inner = first + shape_of(value)[axis], _join_of(value)
        within = list(_operands(inner[0], axis, weights, target, first)) if inner and inner[1] == axis else []
        if within and within[-1].last == last and len(_grouped(within)) > 1:
            yield from within
        elif (span := _known_range(value, weights, target)) is None:
            return
        else:
            yield _Operand(value, span, first, last)
        first = last


def _observed(value: SSAValue) -> Range | None:
    """The observed range of a value, also behind the op that states it."""
    return range_of(value.owner.arg if isinstance(value.owner, StatisticsOp) else value)


def _known_range(value: SSAValue, weights: Weights, target: Target) -> Range | None:
    """The range of a value: observed, of a constant, or of the type that its kernel always has."""
    array = constant_array(value, weights)
    if array is not None and array.size:
        return float(array.min()), float(array.max())
    maker = _region_of(value)
    if maker is None or isinstance(value.owner, StatisticsOp):
        return _observed(value)
    for row in target.by_kernel.get(maker.logical_kernel.data, ()):
        fixed = row.fixed(OUTPUT, Storage.of("i8"))
        if fixed is not None:
            storage, zero_point = fixed.storage, fixed.zero_point
            return (storage.minimum - zero_point) * fixed.scale, (storage.maximum - zero_point) * fixed.scale
    return _known_range(maker.inputs[0], weights, target) if maker.logical_kernel.data in MOVEMENTS else None


def _grouped(operands: Sequence[_Operand]) -> list[list[_Operand]]:
    """Neighbours whose scales differ by no more than a bit; zeros fit to all."""
    groups: list[list[_Operand]] = []
    for operand in operands:
        steps = [one.step for one in (*groups[-1], operand) if one.step > 0] if groups else []
        if groups and max(steps, default=0.0) <= WORTH * min(steps, default=0.0):
            groups[-1].append(operand)
        else:
            groups.append([operand])
    return groups


def _span(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _union(part: Sequence[_Operand]) -> Range:
    return _span([operand.range for operand in part])


def _concatenated(values: Sequence[SSAValue], axis: int, location: LocationAttr) -> QuantizeRegionOp:
    """A region that concatenates values; it lists each value once."""
    distinct = list(dict.fromkeys(values))
    shape = list(shape_of(values[0]))
    shape[axis] = sum(shape_of(value)[axis] for value in values)
    result = with_shape(values[0], shape)
    elements = [result.element_type] * len(distinct)
    made = QuantizeRegionOp(distinct, [result], JOIN, elements, [result.element_type])
    inner = dict(zip(distinct, made.body.block.args, strict=True))
    made.body.block.add_op(joined := ConcatenateOp([inner[value] for value in values], axis))
    made.body.block.add_op(ReturnOp([joined.result]))
    made.location = joined.location = location
    return made


def split_joins(program: Program, target: Target) -> Program:
    """A copy of the calibrated program with kernels moved before concatenations that would be too coarse for them."""
    program = program.clone()
    for op in list(program.entry.ops):
        reader = _Reader.of(op, program.weights, target) if isinstance(op, QuantizeRegionOp) else None
        divided = None if reader is None else reader.divided()
        if reader is not None and divided is not None and reader.is_worth_it(divided):
            reader.move(divided)
    remove_dead_ops(program.entry)
    return program
