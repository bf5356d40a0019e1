"""Compute channels that need a much finer scale than the others in a separate kernel.

```mlir
%c = "quant.region"(%x, %w, %b) ({ convolution, add })
%v = "quant.stats"(%c) {layerStats = [-300.0, 300.0]}
%s = "quant.region"(%v) ({ slice of channels 1 to 7 })
%q = "quant.stats"(%s) {layerStats = [-1.0, 1.0]}
%y = "quant.region"(%v, ...)
```
becomes
```mlir
%c = "quant.region"(%x, %w, %b) ({ convolution, add })
%v = "quant.stats"(%c) {layerStats = [-300.0, 300.0]}
%s = "quant.region"(%x, %w[1:8], %b[1:8]) ({ convolution, add })
%q = "quant.stats"(%s) {layerStats = [-1.0, 1.0]}
%y = "quant.region"(%v, ...)
```
A requantized value has one scale. If `%y` reads all of it, `%s` would be read at a scale 300 times too coarse. A part
of the channels of a contraction is a contraction with that part of the weights, exactly; a part of a sum, product or
depthwise convolution is that of the parts of its operands. If only parts are read and no two of them overlap, splitting
is free. Then all parts get separate kernels if one of them needs a finer scale. Otherwise the part is computed twice,
which must be worth it (`WORTH`).

A part is a `slice`, or a `gather` at constant indices, along one dimension, also behind reshapes and transposes
(`parts.py`), which are then done for each part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op, is_constant
from zeropoint.ir.contractions import output_channel_axis, weight_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.functions import is_function
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.ir.weights import Weights
from zeropoint.solve.parts import Part, is_open, parts_of, range_of, step_for
from zeropoint.solve.precision import coarser
from zeropoint.targets import Target

WORTH = 4.0
"""A part is computed twice if it would otherwise be read at a scale more than this many times too coarse: two bits."""
CUTS_OPERANDS = ("add", "depthwise_convolution", "multiply", "subtract")
"""Kernels of which a part reads the same part of each operand, at the scale of the whole operand."""


def _worth_splitting(value: SSAValue, weights: Weights) -> list[Part]:
    """The parts of a value that separate kernels should compute."""
    read, whole = list(parts_of(value, weights)), range_of(value)
    parts = [part for part in read if part is not None]
    if whole is None or not parts or len({part.axis for part in parts}) != 1:
        return []
    count = shape_of(value)[parts[0].axis]
    taken = np.concatenate([part.chosen for part in parts])
    if len(parts) == len(read):  # nothing else is read
        shared = step_for((min(part.range[0] for part in parts), max(part.range[1] for part in parts)))
        # Parts that do not overlap cost no channel twice: any gain is worth it.
        if len(set(taken.tolist())) == taken.size:
            return parts if len(parts) > 1 and any(coarser(shared, part.step) for part in parts) else []
    else:
        shared = step_for(whole)
    return [part for part in parts if shared > WORTH * part.step and part.chosen.size <= count]


@dataclass
class _Copy:
    """A copy of `maker` that computes a part of its result.

    `axes` maps values of the body to the dimension along which the part is taken; None for values that are needed
    whole.
    """

    maker: QuantizeRegionOp
    part: Part
    weights: Weights
    target: Target
    axes: dict[SSAValue, int | None] = field(default_factory=dict[SSAValue, int | None])

    def is_possible(self) -> bool:
        """Whether the part follows from parts of the operands; fills `axes`."""
        block = self.maker.body.block
        returned = block.last_op
        assert isinstance(returned, ReturnOp)
        pending: list[tuple[SSAValue, int | None]] = [(returned.operands[0], self.part.axis)]
        while pending:
            value, axis = pending.pop()
            if value in self.axes:
                if self.axes[value] != axis:
                    return False
                continue
            self.axes[value] = axis
            needed = _operands(value.op, axis) if isinstance(value, OpResult) else []
            if needed is None:
                return False
            pending += needed
        return all(self._is_divisible(*pair) for pair in zip(block.args, self.maker.inputs, strict=True))

    def _is_divisible(self, argument: SSAValue, value: SSAValue) -> bool:
        """Whether the part of an operand can be taken: of a constant, or by the same kernel as that of the result."""
        axis = self.axes.get(argument)
        if axis is None:
            return True
        if isinstance(value.owner, ConstantOp):
            # A pinned constant has the type of the whole, which a part of it would lose.
            return PINNED not in value.owner.attributes
        name = self.maker.logical_kernel.data
        if (
            self.part.moves
            or name not in CUTS_OPERANDS
            or name not in self.target.by_kernel
            or not isinstance(value.owner, StatisticsOp)
        ):
            return False
        return axis == self.part.axis and shape_of(value) == shape_of(self.part.region.inputs[0])

    def insert(self) -> None:
        """Insert the copy instead of the region that takes the part."""
        part, body = self.part.region, self.maker.body.block
        operands = [self._operand(a, value) for a, value in zip(body.args, self.maker.inputs, strict=True)]
        block = Block(arg_types=[value.type for value in operands])
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
        for op in body.ops:
            block.add_op(copy := op.clone(values))
            if isinstance(op, ConvolutionOp) and isinstance(copy, ConvolutionOp) and _is_depthwise(op):
                copy.feature_group_count = IntegerAttr(self.part.chosen.size, i64)
            for before, after in zip(op.results, copy.results, strict=True):
                values[before] = self._shortened(before, after)
        specs = list(self.maker.input_specs), list(self.maker.output_specs)
        kernel = self.maker.logical_kernel.data
        result = self._part_type(self.maker.outputs[0], self.part.axis, self.part.chosen.size)
        made = QuantizeRegionOp(operands, [result], kernel, *specs, Region(block))
        made.attributes = dict(self.maker.attributes)
        made.location = part.location
        Rewriter.replace_op(part, [made, *self._moves(made)])

    def _moves(self, made: QuantizeRegionOp) -> Iterator[Operation]:
        """The moves between the maker's part and what reads it, each after the statistics of its operand."""
        value = made.outputs[0]
        for move in self.part.moves:
            stated = StatisticsOp(value, self.part.range)
            stated.location = self.part.region.location
            yield stated
            copy = move.region.clone()
            copy.operands[0] = stated.res
            moved = self._part_type(move.region.outputs[0], move.axis, move.count)
            inner = copy.body.block.first_op
            assert inner is not None
            Rewriter.replace_value_with_new_type(copy.body.block.args[0], value.type)
            Rewriter.replace_value_with_new_type(inner.results[0], moved)
            Rewriter.replace_value_with_new_type(copy.outputs[0], moved)
            yield copy
            value = copy.outputs[0]

    @staticmethod
    def _part_type(value: SSAValue, axis: int, count: int) -> TensorType[Attribute]:
        """The type of a value with another number of elements along a dimension."""
        shape = list(shape_of(value))
        shape[axis] = count
        return with_shape(value, shape)

    def _operand(self, argument: SSAValue, value: SSAValue) -> SSAValue:
        axis, part = self.axes.get(argument), self.part.region
        if axis is None:
            return value
        array = constant_array(value, self.weights)
        if array is None:
            taken = part.clone()
            taken.operands[0] = value
        else:
            taken = constant_op(np.take(array, self.part.chosen, axis), self.weights)
            assert isinstance(value.owner, Operation)
            taken.location = value.owner.location
        assert part.parent is not None
        part.parent.insert_op_before(taken, part)
        return taken.results[0]

    def _shortened(self, before: SSAValue, after: SSAValue) -> SSAValue:
        axis = self.axes.get(before)
        if axis is None:
            return after
        return Rewriter.replace_value_with_new_type(after, self._part_type(before, axis, self.part.chosen.size))


def _operands(op: Operation, axis: int | None) -> list[tuple[SSAValue, int | None]] | None:
    """The dimension of each operand along which a part of the result along `axis` takes a part of it.

    None for ops whose parts do not follow from parts of their operands.
    """
    if axis is None:
        return [(operand, None) for operand in op.operands]
    shape = shape_of(op.results[0])
    if is_function(op):
        shapes = [shape_of(operand) for operand in op.operands]
        pairs = zip(op.operands, shapes, strict=True)
        return [(o, axis if s else None) for o, s in pairs] if {*shapes} <= {shape, ()} else None
    if isinstance(op, BroadcastInDimOp):
        dimensions: Sequence[int] = op.broadcast_dimensions.get_values()
        source = dimensions.index(axis) if axis in dimensions else None
        is_repeated = source is None or shape_of(op.operand)[source] != shape[axis]
        return [(op.operand, None if is_repeated else source)]
    if isinstance(op, ConvolutionOp) and _is_depthwise(op):
        layout = op.dimension_numbers.data
        whole = axis != layout.output_feature_dimension
        kernel = (op.rhs, layout.kernel_output_feature_dimension)
        return None if whole else [(op.lhs, layout.input_feature_dimension), kernel]
    if isinstance(op, ConvolutionOp | DotGeneralOp) and axis == output_channel_axis(op):
        channels = weight_channel_axis(op)
        groups = (op.feature_group_count, op.batch_group_count) if isinstance(op, ConvolutionOp) else ()
        if channels is not None and all(group.value.data == 1 for group in groups):
            return [(op.lhs, None), (op.rhs, channels)]
    return None


def _is_depthwise(op: ConvolutionOp) -> bool:
    """Whether a convolution computes each channel from one channel of its operand, in the same order."""
    groups = int(op.feature_group_count.value.data)
    layout = op.dimension_numbers.data
    features = shape_of(op.lhs)[layout.input_feature_dimension]
    return 1 < groups == features == shape_of(op.result)[layout.output_feature_dimension]


def split_channels(program: Program, target: Target) -> Program:
    """A copy of the calibrated program with separate kernels for channels that need a much finer scale.

    Sums and products of two values are split if `target` has the kernel: a float op does not round.
    """
    program = program.clone()
    # Readers first: a part that is taken of a sum moves to the operands of the sum.
    for op in reversed(list(program.entry.ops)):
        if not isinstance(op, QuantizeRegionOp) or not is_open(op) or len(op.outputs) != 1:
            continue
        copies = [_Copy(op, part, program.weights, target) for part in _worth_splitting(op.outputs[0], program.weights)]
        if all(is_constant(value) for value in op.inputs):
            continue
        for copy in copies:
            if copy.is_possible():
                copy.insert()
    remove_dead_ops(program.entry)
    return program
