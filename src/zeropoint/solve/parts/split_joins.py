"""Compute a kernel before a concatenation instead of after it, if the scale of the concatenation is too coarse for it.

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
The batch norms of a DenseNet are such readers: they give the channels of all layers similar ranges. The concatenation
has one scale, 0.8 in the example, at which `%b` becomes -1, 0 or 1 before it is normalized. Computed before the
concatenation, each part has its own scale.

The kernel must compute each slice along one dimension from that slice of one operand and from constants. Such kernels
are products and sums with constants, grouped convolutions, and layer norms of rows. Moving the kernel is exact, and the
number of computed elements does not change. There may be other kernels between the concatenation and the reader that
keep the operands apart: poolings, functions, sums, data movement. These kernels are copied for each part as well
(`part_values.py`), and their other readers keep the originals. (A function whose operand is too coarse stays float, see
`widths/function_widths.py`.)

Let `gain` be the largest amplification of an error in a part, such as a factor. The kernel is moved if, for some part,
gain * (scale of the whole value) is more than twice as coarse as the scale of its result and as gain * (scale of the
part). These two roundings are needed in any case. Neighbouring parts whose scales differ by at most a factor of two
stay joined, so the many parts of a DenseNet become few kernels. Nested concatenations are split if their operands
differ as well. Parts that alternate, such as after a channel shuffle, are put back in order by a gather.

A part such as that of a scatter cannot be computed alone at its own scale. If the reader would lose more than three
bits of a part, it stays float, and so do the kernels between it and the concatenation (`joins.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.element_parts import NO_PART, through
from zeropoint.ir.locations import value_name
from zeropoint.ir.normalizations import NORMALIZATIONS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp, GatherDimensions, GatherOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.keep_float import keep_float
from zeropoint.solve.parts.amplification import Amplified, amplified
from zeropoint.solve.parts.divided import Divided
from zeropoint.solve.parts.joins import PART_TOLERANCE
from zeropoint.solve.parts.leaves import JOIN, WORTH, Leaf, Leaves, along_one_dimension, is_even, known_range, span
from zeropoint.solve.parts.part_readers import RealRange, is_open, range_of, step_for
from zeropoint.solve.parts.part_values import PartValues, Planned, concatenated, stated, wrapped
from zeropoint.targets import Target
from zeropoint.targets.logical_kernels import CONTRACTIONS, FUNCTIONS, PASSES_ELEMENTS

KEEPS_SIZES = frozenset({*FUNCTIONS, *PASSES_ELEMENTS})
"""Kernels that treat all elements alike. A clip at half of the range, for example, is not computed for each part."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a reader's result, for some leaves. It has the parts of all operands, and `source`, the one of the
    leaves."""

    divided: Divided
    operands: Sequence[Planned | None]
    source: Planned


@dataclass(frozen=True)
class _Reader:
    """A region whose only computed operand, number `index`, comes from several leaves along a dimension."""

    region: QuantizeRegionOp
    index: int
    axis: int
    chosen: Sequence[Array]
    """The elements of each part along the dimension of the result."""
    values: PartValues

    @staticmethod
    def of(region: QuantizeRegionOp, values: PartValues) -> _Reader | None:
        """None if the region reads no leaves of different ranges or does not keep them apart."""
        leaves, kernel = values.leaves, region.logical_kernel.data
        by_kernel = leaves.target.by_kernel
        if kernel not in by_kernel or JOIN not in by_kernel or kernel in KEEPS_SIZES or len(region.outputs) != 1:
            return None
        computed = [index for index, value in enumerate(region.inputs) if not isinstance(value.owner, ConstantOp)]
        if len(computed) != 1 or region.inputs[computed[0]] not in leaves.of or not is_open(region):
            return None
        made = through(region, leaves.of, leaves.weights)
        found = along_one_dimension(made[0]) if made else None
        if found is None:
            return None
        axis, numbers = found
        groups = _grouped(numbers, leaves.found)
        is_ordered = all(one[-1] - one[0] + 1 == one.size for one in groups)
        if len(groups) < 2 or not (is_ordered or "gather" in by_kernel):
            return None
        return _Reader(region, computed[0], axis, groups, values)

    def parts(self) -> list[_Part] | None:
        """How the region computes each part; None if one of them cannot be computed alone."""
        found: list[_Part] = []
        for chosen in self.chosen:
            one = Divided.of(self.region, self.axis, chosen, self.values.leaves.weights)
            operands = None if one is None or one.operand_cut(self.index) is None else self.values.operands(one)
            source = None if operands is None else operands[self.index]
            if one is None or operands is None or source is None:
                return None
            found.append(_Part(one, operands, source))
        return found

    def is_worth_it(self, parts: Sequence[_Part]) -> bool:
        """Whether the scale of the whole operand is too coarse for a part."""
        value, output = self.region.inputs[self.index], range_of(self.region.outputs[0])
        seen = [self._amplified(part, output) for part in parts]
        known = [one for one in seen if one is not None]
        if len(known) < len(seen):
            return False
        spans = [part.source.range for part in parts]
        shared = step_for(known_range(value, self.values.leaves.weights, self.values.leaves.target) or span(spans))
        result = step_for(output or span([one.range for one in known]))
        return any(_is_hurt(one, shared, step_for(own), result) for one, own in zip(known, spans, strict=True))

    def _amplified(self, part: _Part, output: RealRange | None) -> Amplified | None:
        """The amplification of an error in a part. Normalizations scale rows of any size to the size of the result."""
        low, high = part.source.range
        if self.region.logical_kernel.data in NORMALIZATIONS and output is not None and high > low:
            return Amplified((output[1] - output[0]) / (high - low), output)
        return amplified(part.divided, self.index, part.source.range)

    def lost(self) -> tuple[str, float] | None:
        """The name of the leaf that loses most by the operand's scale, and how many times too coarse that scale is.

        None if the loss is tolerable or the region is a contraction. The sizes of the parts of the operand are assumed
        proportional to those of the leaves.
        """
        leaves, output = self.values.leaves, range_of(self.region.outputs[0])
        numbers, value = leaves.of[self.region.inputs[self.index]], self.region.inputs[self.index]
        read = [leaves.found[int(number)] for number in np.unique(numbers) if number != NO_PART]
        whole, greatest = known_range(value, leaves.weights, leaves.target), max(leaf.step for leaf in read)
        if self.region.logical_kernel.data in CONTRACTIONS or output is None or whole is None or not greatest:
            return None
        found = [(0.0, "")]
        for chosen in self.chosen:
            one = Divided.of(self.region, self.axis, chosen, leaves.weights)
            cut = None if one is None else one.operand_cut(self.index)
            if one is None or cut is None:
                return None
            inside = [leaves.found[int(number)] for number in np.unique(np.take(numbers, cut.chosen, cut.axis))]
            size = max(leaf.step for leaf in inside) / greatest
            seen = amplified(one, self.index, (size * whole[0], size * whole[1]))
            if seen is not None and size > 0:
                least = max(seen.gain * size * step_for(whole), step_for(output))
                times = seen.gain * step_for(whole) / least if least else 0.0  # all results are 0
                found.append((times, value_name(inside[0].value)))
        times, name = max(found)
        return (name, times) if times > PART_TOLERANCE else None

    def move(self, parts: Sequence[_Part]) -> None:
        """Replace the region by the kernels of the parts and their concatenation."""
        region, bound = self.region, range_of(self.region.outputs[0])
        made: list[SSAValue] = []
        for part in parts:
            value = self.values.copy(part.divided, part.operands, region)
            # Each part gets the statistics of the whole, because the concatenation has one scale.
            made.append(value if bound is None else stated(value, bound, region))
        block = region.parent
        assert block is not None
        block.insert_op_before(joined := concatenated(made, self.axis, region.location), region)
        Rewriter.replace_op(region, [], [self._in_order(joined.outputs[0])])

    def _in_order(self, value: SSAValue) -> SSAValue:
        """The joined parts, with every element in its original place."""
        order = np.argsort(np.concatenate(self.chosen))
        if np.array_equal(order, np.arange(order.size)):
            return value
        assert self.region.parent is not None
        indices = constant_op(order.astype(np.int32), self.values.leaves.weights, location=self.region.location)
        sizes = [1 if axis == self.axis else size for axis, size in enumerate(shape_of(value))]
        others = tuple(axis for axis in range(len(sizes)) if axis != self.axis)
        dimensions = GatherDimensions(others, (self.axis,), (), (), (self.axis,), 1)
        taken = wrapped("gather", GatherOp(value, indices.output, dimensions, sizes), self.region.location)
        self.region.parent.insert_ops_before([indices, taken], self.region)
        return taken.outputs[0]


def _is_hurt(one: Amplified, shared: float, own: float, result: float) -> bool:
    """Whether the `shared` scale costs a part more than a bit, compared with its `own` scale and that of the result."""
    return one.gain * shared > WORTH * max(one.gain * own, result)


def _grouped(numbers: Array, leaves: Sequence[Leaf]) -> list[Array]:
    """Groups of elements from leaves whose scales differ by at most a bit: neighbouring runs, or whole leaves if they
    alternate."""
    runs = np.split(np.arange(numbers.size), np.flatnonzero(np.diff(numbers)) + 1)
    if len(runs) > np.unique(numbers).size:
        kinds = sorted((leaves[int(number)].step, int(number)) for number in np.unique(numbers))
        runs = [np.flatnonzero(numbers == number) for _, number in kinds]
    groups: list[list[Array]] = []
    for run in runs:
        together = [*groups[-1], run] if groups else []
        if together and is_even([leaves[int(numbers[one[0]])] for one in together]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return [np.sort(np.concatenate(group)) for group in groups]


def split_joins(program: Program, target: Target) -> Program:
    """A copy of the calibrated program with kernels moved before concatenations whose scale is too coarse for them."""
    program = drop_inner_statistics(program)  # a copy
    leaves = Leaves(program.weights, target)
    values = PartValues(leaves)
    for op in list(program.entry.ops):
        reader = _Reader.of(op, values) if isinstance(op, QuantizeRegionOp) else None
        parts = None if reader is None else reader.parts()
        if reader is not None and parts is not None and reader.is_worth_it(parts):
            reader.move(parts)
            continue
        if reader is not None and (lost := reader.lost()) is not None:
            name, times = lost
            what = f"at one scale '{name}' would be {times:.3g} times too coarse"
            keep_float(reader.region, f"it equalizes the parts that it reads, and {what}")
        leaves.visit(op)
    remove_dead_ops(program.entry)
    return program
