"""Compute a contraction of an uneven concatenation as a sum of contractions of its parts.

```mlir
%c = "quant.region"(%a, %b) ({ concatenate })            %a observed in [-100, 100], %b in [-1, 1]
%v = "quant.stats"(%c) {layerStats = [-100.0, 100.0]}
%d = "quant.region"(%v, %w, %bias) ({ convolution, add, relu })       %w is 100 times as large for the channels of %b
```
becomes
```mlir
%p = "quant.region"(%a, %w[:, 0:4], %bias) ({ convolution, add })
%q = "quant.region"(%b, %w[:, 4:8]) ({ convolution })
%d = "quant.region"(%p, %q) ({ add, relu })
```
The concatenation has one scale, at which `%b` becomes -1, 0 or 1. `scale_parts.py` scales its operands to similar
ranges if possible. It is not possible if another kernel reads the concatenation as well, or if an operand does not come
from a contraction of its own. This pass then reads the parts at their own scales. The number of products does not
change, and each additional part adds a sum. Parts of similar ranges stay together, wherever they are.

The groups of a grouped convolution become separate kernels: runs of groups that read parts of similar ranges, and
groups that read several parts.

The contraction is split if this reduces the noise of the results by more than a bit, including one more rounding per
part. If the parts cannot be computed alone and the contraction would lose more than three bits, it stays float, with
the reason. Products whose weights are the first operand, or have several contracted dimensions, are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_op
from zeropoint.ir.contractions import output_channel_axis, weight_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.element_parts import NO_PART
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.equalizable import bounds_of, input_axis, own_array
from zeropoint.solve.keep_float import keep_float
from zeropoint.solve.parts.cuts import Cut
from zeropoint.solve.parts.divided import Divided
from zeropoint.solve.parts.joins import PART_TOLERANCE
from zeropoint.solve.parts.leaves import WORTH, Leaves, along_one_dimension, is_even, known_range
from zeropoint.solve.parts.part_ranges import weighted_range
from zeropoint.solve.parts.part_readers import RealRange, is_open, range_of, step_for
from zeropoint.solve.parts.part_values import PartValues, Planned, bounded, concatenated, located, stated
from zeropoint.targets import Target

SUM = "add"
MOST_KERNELS = 16
"""The maximum number of kernels that a grouped convolution is split into."""


@dataclass(frozen=True, eq=False)
class _Mixed:
    """A contraction whose input channels come from several leaves.

    It reads the channels `read` of `value` along `axis`. `leaf_of` has the leaf of each of these channels.
    """

    region: QuantizeRegionOp
    value: SSAValue
    axis: int
    read: Array
    leaf_of: Array
    values: PartValues

    @staticmethod
    def of(region: QuantizeRegionOp, values: PartValues) -> _Mixed | None:
        """None for any other kernel, or if the contraction cannot be split."""
        leaves = values.leaves
        if not region.inputs or region.inputs[0] not in leaves.of or not is_open(region):
            return None
        is_known = region.logical_kernel.data in leaves.target.by_kernel and SUM in leaves.target.by_kernel
        axis = input_axis(region, leaves.weights)
        found = along_one_dimension(leaves.of[region.inputs[0]])
        if not is_known or axis is None or found is None or found[0] != axis or len(region.outputs) != 1:
            return None
        if bounds_of(region, leaves.weights) is None:
            return None
        numbers = found[1]
        return _Mixed(region, region.inputs[0], axis, np.arange(numbers.size), numbers, values)

    def parts(self) -> list[Array]:
        """The channels of leaves of similar scales, as indices into `read`."""
        leaves = self.values.leaves.found
        kinds = sorted((leaves[int(number)].step, int(number)) for number in np.unique(self.leaf_of))
        groups: list[list[int]] = []
        for _, number in kinds:
            if groups and is_even([leaves[one] for one in (*groups[-1], number)]):
                groups[-1].append(number)
            else:
                groups.append([number])
        return [np.flatnonzero(np.isin(self.leaf_of, group)) for group in groups]

    def planned(self, parts: Sequence[Array]) -> list[Planned] | None:
        """How each part is computed; None if one of them cannot be computed alone."""
        found = [self.values.part(self.value, Cut(self.axis, self.read[part])) for part in parts]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else None

    def likely(self, parts: Sequence[Array]) -> list[float]:
        """The scales that the parts need if their sizes are in proportion to those of their leaves."""
        leaves = self.values.leaves
        whole = known_range(self.value, leaves.weights, leaves.target)
        sizes = [max(leaves.found[int(n)].step for n in np.unique(self.leaf_of[part])) for part in parts]
        numbers = np.unique(leaves.of[self.value])
        greatest = max(leaves.found[int(number)].step for number in numbers if number != NO_PART)
        return [0.0 if whole is None else step_for(whole) * size / greatest for size in sizes]

    def noise(self, parts: Sequence[Array], steps: Sequence[float], result: RealRange | None) -> float:
        """12 times the noise of the results if each part is read at its own scale of `steps`.

        `result` is the range of the results. It is None if only floats read them, because they are then not rounded.
        """
        squares, outputs = _squares(self.region, self.values.leaves.weights)
        rounding = 0.0 if result is None else step_for(result) ** 2 * outputs
        read = sum(step**2 * squares[part].sum() for step, part in zip(steps, parts, strict=True))
        return float(read) + (len(parts) + 1 if len(parts) > 1 else 1) * rounding

    def rewrite(self) -> bool:
        """Split the contraction if that is worth it, and return True. A contraction that cannot be split may be kept
        float."""
        groups = self.groups() if _groups(self.region) > 1 else None
        pieces = groups or [self]
        whole = known_range(self.value, self.values.leaves.weights, self.values.leaves.target)
        if whole is None:
            return False
        result, parts = range_of(self.region.outputs[0]), [piece.parts() for piece in pieces]
        shared = sum(piece.noise([np.arange(piece.read.size)], [step_for(whole)], result) for piece in pieces)
        likely = sum(piece.noise(part, piece.likely(part), result) for piece, part in zip(pieces, parts, strict=True))
        if shared <= WORTH**2 * likely:
            return False
        planned = [piece.planned(part) for piece, part in zip(pieces, parts, strict=True)]
        known = [one for one in planned if one is not None]
        if len(known) == len(planned) and (groups or _groups(self.region) == 1):
            apart = sum(
                piece.noise(part, [step_for(plan.range) for plan in plans], result)
                for piece, part, plans in zip(pieces, parts, known, strict=True)
            )
            if shared > WORTH**2 * apart:
                self._apply(pieces, parts, known, result)
                return True
        _keep_noisy_float(self.region, shared, likely)
        return False

    def _apply(
        self,
        pieces: Sequence[_Mixed],
        parts: Sequence[Sequence[Array]],
        planned: Sequence[Sequence[Planned]],
        result: RealRange | None,
    ) -> None:
        """Insert the kernels of all parts of all pieces."""
        if pieces[0] is not self:
            self._join(pieces, result)
        for piece, part, plans in zip(pieces, parts, planned, strict=True):
            if len(part) > 1:
                piece.split(part, plans)

    def groups(self) -> list[_Mixed] | None:
        """Kernels for runs of groups that read leaves of similar scales, and for single groups that read several
        leaves.

        None if there are too many of them, or if one cannot be computed alone.
        """
        op, leaves = self.region.body.block.first_op, self.values.leaves
        assert isinstance(op, ConvolutionOp)
        count, runs = _groups(self.region), list[list[int]]()
        channels = self.read.reshape(count, -1)
        filters = np.arange(shape_of(op.result)[output_channel_axis(op)]).reshape(count, -1)

        def is_one(groups: Sequence[int]) -> bool:
            return is_even([leaves.found[int(number)] for number in np.unique(self.leaf_of[channels[groups]])])

        for group in range(count):
            if runs and is_one([*runs[-1], group]):
                runs[-1].append(group)
            else:
                runs.append([group])
        if len(runs) > MOST_KERNELS:
            return None
        made: list[_Mixed] = []
        for run in runs:
            divided = Divided.of(self.region, output_channel_axis(op), filters[run].reshape(-1), leaves.weights)
            operands = None if divided is None else self.values.operands(divided)
            if divided is None or operands is None:
                return None
            region = self.values.copy(divided, operands, self.region).owner
            read = channels[run].reshape(-1)
            assert isinstance(region, QuantizeRegionOp)
            made.append(_Mixed(region, self.value, self.axis, read, self.leaf_of[read], self.values))
        return made

    def _join(self, pieces: Sequence[_Mixed], result: RealRange | None) -> None:
        """Replace the region by the concatenation of the results of its groups."""
        op = self.region.body.block.first_op
        assert isinstance(op, ConvolutionOp) and self.region.parent is not None
        made: list[SSAValue] = [piece.region.outputs[0] for piece in pieces]
        if result is not None:
            made = [stated(value, result, self.region) for value in made]
        joined = concatenated(made, output_channel_axis(op), self.region.location)
        self.region.parent.insert_op_before(joined, self.region)
        Rewriter.replace_op(self.region, [], [joined.outputs[0]])

    def split(self, parts: Sequence[Array], planned: Sequence[Planned]) -> None:
        """Insert the contractions of the parts and their sum instead of the region."""
        total: SSAValue | None = None
        bound: RealRange = 0.0, 0.0
        for number, (part, plan) in enumerate(zip(parts, planned, strict=True)):
            made, own = self._contracted(part, plan, with_bias=number == 0)
            bound = bound[0] + own[0], bound[1] + own[1]
            if total is None:
                total = bounded(made, own, self.region)
                continue
            is_last = number == len(parts) - 1
            total = self._inserted(self._sum(total, bounded(made, own, self.region), is_last=is_last))
            total = total if is_last else bounded(total, bound, self.region)
        assert total is not None
        Rewriter.replace_op(self.region, [], [total])

    def _contracted(self, part: Array, plan: Planned, *, with_bias: bool) -> tuple[SSAValue, RealRange]:
        """The contraction of a part without clamps, and a bound of its results."""
        region, weights = self.region, self.values.leaves.weights
        operand = plan.value(region)
        array = own_array(region.inputs[1], weights)
        held = defining_op(region.inputs[1])
        first, *others, returned = region.body.block.ops
        assert array is not None and held is not None
        assert isinstance(first, ConvolutionOp | DotGeneralOp) and isinstance(returned, ReturnOp)
        array = np.take(array, part, _contracted_axis(first))
        constant = constant_op(array, weights, location=held.location)
        assert region.parent is not None
        region.parent.insert_op_before(constant, region)
        biases = list(region.inputs[2:]) if with_bias else []
        block = Block(arg_types=[value.type for value in (operand, constant.output, *biases)])
        values: dict[SSAValue, SSAValue] = dict(zip(region.body.block.args, block.args, strict=False))
        kept = [first, *(op for op in others if with_bias and _adds_bias(op, region))]
        for op in kept:
            block.add_op(copy := op.clone(values))
            values |= zip(op.results, copy.results, strict=True)
        block.add_op(ReturnOp([values[kept[-1].results[0]]]))
        made = self._like([operand, constant.output, *biases], region.logical_kernel.data, block)
        made.location = located(region.location, operand)
        low, high = weighted_range(array, _channel_axis(first), plan.range)
        bias = own_array(biases[0], weights) if biases else np.zeros(1)
        assert bias is not None
        return self._inserted(made), (low + float(bias.min()), high + float(bias.max()))

    def _sum(self, first: SSAValue, second: SSAValue, *, is_last: bool) -> QuantizeRegionOp:
        """The sum of two results. The last sum has the clamps of the region."""
        block = Block(arg_types=[first.type, second.type])
        block.add_op(total := AddOp(block.args[0], block.args[1]))
        total.location = self.region.location
        contraction, *others, returned = self.region.body.block.ops
        before = contraction.results[0]
        values: dict[SSAValue, SSAValue] = {before: total.result}
        for op in others:
            if _adds_bias(op, self.region):
                values[op.results[0]] = total.result
            elif is_last:
                block.add_op(copy := op.clone(values))
                values |= zip(op.results, copy.results, strict=True)
        block.add_op(ReturnOp([values[returned.operands[0]] if is_last else total.result]))
        made = self._like([first, second], SUM, block)
        made.location = self.region.location
        return made

    def _like(self, operands: Sequence[SSAValue], kernel: str, block: Block) -> QuantizeRegionOp:
        elements = [element_of(value) for value in operands]
        (result,) = self.region.outputs
        return QuantizeRegionOp(operands, [result.type], kernel, elements, [element_of(result)], Region(block))

    def _inserted(self, made: QuantizeRegionOp) -> SSAValue:
        assert self.region.parent is not None
        self.region.parent.insert_op_before(made, self.region)
        return made.outputs[0]


def _keep_noisy_float(region: QuantizeRegionOp, shared: float, likely: float) -> None:
    """Keep a contraction float if its noise `shared` is more than three bits above `likely`, that of separate parts."""
    if shared > PART_TOLERANCE**2 * likely:
        times = sqrt(shared / likely) if likely else inf
        why = f"its results would be {times:.3g} times as noisy as with a scale for each part of its operand"
        keep_float(region, f"it reads parts of different ranges that cannot be computed apart: {why}")


def _judge_unsplit(region: QuantizeRegionOp, leaves: Leaves) -> None:
    """Keep a product float if this pass does not split its form and one scale is too coarse for a part of its operand.

    These are products whose weights are the first operand, or have several contracted dimensions.
    """
    op = region.body.block.first_op
    inner: list[SSAValue] = list(region.body.block.args)
    if not isinstance(op, DotGeneralOp) or not is_open(region) or not {op.lhs, op.rhs} <= {*inner}:
        return
    dimensions = op.dot_dimension_numbers.data
    sides = (
        (region.inputs[inner.index(op.lhs)], list(dimensions.lhs_contracting_dimensions)),
        (region.inputs[inner.index(op.rhs)], list(dimensions.rhs_contracting_dimensions)),
    )
    for (value, axes), (other, weight_axes) in (sides, sides[::-1]):
        array = own_array(other, leaves.weights)
        found = along_one_dimension(leaves.of[value]) if value in leaves.of else None
        whole = known_range(value, leaves.weights, leaves.target)
        if array is None or found is None or whole is None or found[0] not in axes:
            continue
        moved = np.moveaxis(array, weight_axes[axes.index(found[0])], 0).reshape(found[1].size, -1)
        squares = np.square(moved.astype(np.float64)).sum(axis=1)
        sizes = np.array([leaves.found[int(number)].step for number in found[1]])
        outputs = array.size / np.prod([array.shape[axis] for axis in weight_axes])
        result = range_of(region.outputs[0])
        rounding = 0.0 if result is None else step_for(result) ** 2 * float(outputs)
        steps = step_for(whole) * sizes / sizes.max()
        _keep_noisy_float(
            region,
            step_for(whole) ** 2 * float(squares.sum()) + rounding,
            float((steps**2 * squares).sum()) + rounding,
        )


def _groups(region: QuantizeRegionOp) -> int:
    op = region.body.block.first_op
    return int(op.feature_group_count.value.data) if isinstance(op, ConvolutionOp) else 1


def _squares(region: QuantizeRegionOp, weights: Weights) -> tuple[Array, int]:
    """The sum of squares of the weights of each input channel, and the number of output channels."""
    op, array = region.body.block.first_op, own_array(region.inputs[1], weights)
    assert array is not None and isinstance(op, ConvolutionOp | DotGeneralOp)
    ends = _channel_axis(op), _contracted_axis(op)
    moved = np.moveaxis(array, ends, (0, 1)).astype(np.float64)
    by_group = moved.reshape(_groups(region), -1, moved.shape[1], np.prod(moved.shape[2:], dtype=np.int64))
    return np.square(by_group).sum(axis=(1, 3)).reshape(-1), moved.shape[0]


def _adds_bias(op: Operation, region: QuantizeRegionOp) -> bool:
    """Whether an op of a contraction's body adds the bias or broadcasts it."""
    return isinstance(op, AddOp) or (isinstance(op, BroadcastInDimOp) and op.operand in region.body.block.args[2:])


def _contracted_axis(op: ConvolutionOp | DotGeneralOp) -> int:
    """The dimension of the weights with the input channels."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.kernel_input_feature_dimension
    (axis,) = op.dot_dimension_numbers.data.rhs_contracting_dimensions
    return axis


def _channel_axis(op: ConvolutionOp | DotGeneralOp) -> int:
    found = weight_channel_axis(op)
    assert found is not None
    return found


def split_contractions(program: Program, target: Target) -> Program:
    """A copy of the calibrated program in which contractions read parts of uneven concatenations at the parts' own
    scales."""
    program = drop_inner_statistics(program)  # a copy
    leaves = Leaves(program.weights, target)
    values = PartValues(leaves)
    for op in list(program.entry.ops):
        mixed = _Mixed.of(op, values) if isinstance(op, QuantizeRegionOp) else None
        if mixed is None and isinstance(op, QuantizeRegionOp):
            _judge_unsplit(op, leaves)
        if mixed is None or not mixed.rewrite():
            leaves.visit(op)
    remove_dead_ops(program.entry)
    return program
