"""Copy a region for a part of its result: the elements along one dimension, computed from parts of its operands.

```mlir
%y = "quant.region"(%x, %scale) ({ broadcast of %scale along dimension 1, multiply })
```
The elements 4 to 7 of `%y` along dimension 1 are this region of the elements 4 to 7 of `%x` and of `%scale`. The same
holds for sums, functions of one value and depthwise convolutions. A part of a contraction needs its first operand
whole, and a part of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis, weight_channel_axis
from zeropoint.ir.functions import is_function
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.weights import Weights


def part_type(value: SSAValue, axis: int, count: int) -> TensorType[Attribute]:
    """The type of a value with another number of elements along a dimension."""
    shape = list(shape_of(value))
    shape[axis] = count
    return with_shape(value, shape)


def is_cuttable(value: SSAValue) -> bool:
    """Whether a part of a value can be taken at once: of a constant, unless it is pinned to the type of the whole."""
    return isinstance(value.owner, ConstantOp) and PINNED not in value.owner.attributes


@dataclass(frozen=True)
class Divided:
    """How the elements `chosen` of a region's only result along `axis` are computed.

    `axes` maps values of the body to the dimension along which a part of them is taken; None for values that are needed
    whole.
    """

    region: QuantizeRegionOp
    axis: int
    chosen: Array
    axes: dict[SSAValue, int | None]
    weights: Weights

    @staticmethod
    def of(region: QuantizeRegionOp, axis: int, chosen: Array, weights: Weights) -> Divided | None:
        """None if the part does not follow from parts of the operands."""
        returned = region.body.block.last_op
        assert isinstance(returned, ReturnOp)
        axes: dict[SSAValue, int | None] = {}
        pending: list[tuple[SSAValue, int | None]] = [(returned.operands[0], axis)]
        while pending:
            value, along = pending.pop()
            if value in axes:
                if axes[value] != along:
                    return None
                continue
            axes[value] = along
            needed = _operands(value.op, along) if isinstance(value, OpResult) else []
            if needed is None:
                return None
            pending += needed
        return Divided(region, axis, chosen, axes, weights)

    def operand_axis(self, index: int) -> int | None:
        """The dimension along which a part of an operand is needed; None if it is needed whole."""
        return self.axes.get(self.region.body.block.args[index])

    def constant(self, index: int) -> Operation:
        """The part of a constant operand."""
        value, axis = self.region.inputs[index], self.operand_axis(index)
        array = constant_array(value, self.weights)
        assert array is not None and axis is not None and isinstance(value.owner, Operation)
        made = constant_op(np.take(array, self.chosen, axis), self.weights)
        made.location = value.owner.location
        return made

    def copy(self, operands: Sequence[SSAValue]) -> QuantizeRegionOp:
        """The region of these operands, which have the parts already."""
        body = self.region.body.block
        block = Block(arg_types=[value.type for value in operands])
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
        for op in body.ops:
            block.add_op(copy := self._copied(op, values))
            for before, after in zip(op.results, copy.results, strict=True):
                values[before] = self._shortened(before, after)
        specs = list(self.region.input_specs), list(self.region.output_specs)
        result = part_type(self.region.outputs[0], self.axis, self.chosen.size)
        made = QuantizeRegionOp(operands, [result], self.region.logical_kernel.data, *specs, Region(block))
        made.attributes = dict(self.region.attributes)
        return made

    def _copied(self, op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
        axis = self.axes.get(op.results[0]) if op.results else None
        if isinstance(op, ConstantOp) and axis is not None:
            array = constant_array(op.output, self.weights)
            assert array is not None
            return constant_op(np.take(array, self.chosen, axis), self.weights)
        copy = op.clone(values)
        if isinstance(op, ConvolutionOp) and isinstance(copy, ConvolutionOp) and is_depthwise(op):
            copy.feature_group_count = IntegerAttr(self.chosen.size, i64)
        return copy

    def _shortened(self, before: SSAValue, after: SSAValue) -> SSAValue:
        axis = self.axes.get(before)
        if axis is None:
            return after
        return Rewriter.replace_value_with_new_type(after, part_type(before, axis, self.chosen.size))


def _operands(op: Operation, axis: int | None) -> list[tuple[SSAValue, int | None]] | None:
    """The dimension of each operand along which a part of the result along `axis` takes a part of it.

    None for ops whose parts do not follow from parts of their operands.
    """
    if axis is None:
        return [(operand, None) for operand in op.operands]
    if isinstance(op, ConstantOp):
        return []
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
    if isinstance(op, ConvolutionOp) and is_depthwise(op):
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


def is_depthwise(op: ConvolutionOp) -> bool:
    """Whether a convolution computes each channel from one channel of its operand, in the same order."""
    groups = int(op.feature_group_count.value.data)
    layout = op.dimension_numbers.data
    features = shape_of(op.lhs)[layout.input_feature_dimension]
    return 1 < groups == features == shape_of(op.result)[layout.output_feature_dimension]
