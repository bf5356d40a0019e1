"""Rewrite convolutions over three dimensions as convolutions over images, for which runtimes have integer kernels.

```mlir
%1 = "quant.region"(%0, %w) ({ convolution }) : (tensor<1x5x8x6x3xf32>, tensor<8x3x3x3x3xf32>) -> tensor<1x3x6x4x8xf32>
```
becomes
```mlir
%a, %b, %c = "quant.region"(%0) ({ slice })                  // 3 of 5 images: the first, second, last under the window
%d = "quant.region"(%a, %b, %c) ({ concatenate, dim = 4 })   // tensor<1x3x8x6x9xf32>
%e = "quant.region"(%d) ({ reshape })                        // tensor<3x8x6x9xf32>: each image of the result is a batch
%f = "quant.region"(%e, %v) ({ convolution })                // tensor<3x6x4x8xf32>
%1 = "quant.region"(%f) ({ reshape })
```
The images under a window are channels of one convolution, so the sums have the same terms, and are rounded once. The
channels have to be the last dimension already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.movement_regions import movement_region
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    PadOp,
    ReshapeOp,
    SliceOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

VOLUME = 3
DEPTH = 1
CHANNELS = 4


def flatten_volumes(program: Program) -> Program:
    """The program with convolutions over three dimensions rewritten as convolutions over images."""
    program = program.clone()
    for region in list(program.entry.ops):
        if isinstance(region, QuantizeRegionOp):
            op = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp)), None)
            if op is not None and _can_be_flat(region, op, program.weights):
                _Volume(region, op, program.weights).flatten()
    return program


def _can_be_flat(region: QuantizeRegionOp, op: ConvolutionOp, weights: Weights) -> bool:
    """Whether a convolution over three dimensions has constant weights, and neither reversal nor zeros in its input."""
    layout, arguments = op.dimension_numbers.data, list[SSAValue](region.body.block.args)
    inside = tuple(range(DEPTH, CHANNELS))
    if not inside == layout.input_spatial_dimensions == layout.output_spatial_dimensions:
        return False
    if op.lhs is not arguments[0] or op.rhs not in arguments or not all(map(_is_of_channels, region.body.block.ops)):
        return False
    port = arguments.index(op.rhs)
    spec = region.input_specs.data[port]
    is_plain = not isinstance(spec, UniformQuantizedType) or spec.blocks is None
    apart = {*array_values(op.lhs_dilation), op.batch_group_count.value.data} - {1}
    is_constant = constant_array(region.inputs[port], weights) is not None
    return is_plain and is_constant and not apart and not any(array_values(op.window_reversal))


def _is_of_channels(op: Operation) -> bool:
    """Whether an op repeats nothing but numbers and biases, if it is a broadcast."""
    return not isinstance(op, BroadcastInDimOp) or len(shape_of(op.operand)) <= 1


@dataclass(frozen=True)
class _Volume:
    """A convolution over three dimensions, of which the first is the depth."""

    region: QuantizeRegionOp
    op: ConvolutionOp
    weights: Weights

    @property
    def _layout(self) -> ConvolutionLayout:
        return self.op.dimension_numbers.data

    def flatten(self) -> None:
        """Replace the region."""
        region = self.region
        spec, made = region.input_specs.data[0], region.output_specs.data[0]
        images = self._merged(self._joined(spec), spec)
        array, port = self._array()
        constant = constant_op(array, self.weights)
        constant.location = region.location
        Rewriter.insert_op(constant, InsertPoint.before(region))
        inputs, specs = list(region.inputs), list(region.input_specs.data)
        kind = specs[port]
        inputs[0], inputs[port] = images, constant.output
        if isinstance(kind, UniformQuantizedType) and kind.axis is not None:
            specs[port] = UniformQuantizedType.per_channel(
                kind.storage, 0, kind.scales, kind.zero_points, expressed_type=kind.expressed_type
            )
        body = self._body([value.type for value in inputs])
        returned = body.block.last_op
        assert returned is not None
        flat = QuantizeRegionOp(
            inputs, [returned.operands[0].type], region.logical_kernel.data, specs, region.output_specs.data, body
        )
        flat.attributes.update({**region.attributes, **flat.attributes})
        region.outputs[0].replace_all_uses_with(self._split(self._inserted(flat), made))
        Rewriter.erase_op(region)

    def _joined(self, spec: Attribute) -> SSAValue:
        """The input with the images under the window as channels."""
        op, value = self.op, self.region.inputs[0]
        low, high = padding_values(op.padding, VOLUME)[0]
        if low or high:
            value = self._padded(value, spec, (low, high))
        taps = shape_of(op.rhs)[self._layout.kernel_spatial_dimensions[0]]
        step, spread = (array_values(each, (1,) * VOLUME)[0] for each in (op.window_strides, op.rhs_dilation))
        count = shape_of(op.result)[DEPTH]
        groups = op.feature_group_count.value.data if taps > 1 else 1
        parts: list[SSAValue] = []
        for tap in range(taps):
            start, limit, steps = [0] * 5, list(shape_of(value)), [1] * 5
            start[DEPTH], limit[DEPTH], steps[DEPTH] = tap * spread, tap * spread + (count - 1) * step + 1, step
            whole = (start, limit, steps) == ([0] * 5, list(shape_of(value)), [1] * 5)
            part = value if whole else self._moved(SliceOp(value, start, limit, steps), spec)
            parts.append(self._grouped(part, groups, spec))
        if taps == 1:
            return parts[0]
        axis = CHANNELS + (groups > 1)
        made = movement_region(parts, spec, lambda given: ConcatenateOp(given, axis))
        shape = list(shape_of(parts[0]))
        shape[axis] *= taps
        if groups > 1:
            shape[CHANNELS:] = [shape[CHANNELS] * shape[axis]]
        return self._reshaped(self._inserted(made), shape, spec)

    def _grouped(self, value: SSAValue, groups: int, spec: Attribute) -> SSAValue:
        """The channels as groups of channels, if there are several: each group has its images side by side."""
        *outer, channels = shape_of(value)
        apart = [*outer, groups, channels // groups]
        return value if groups == 1 else self._reshaped(value, apart, spec)

    def _merged(self, value: SSAValue, spec: Attribute) -> SSAValue:
        """The images of the depth as batches."""
        batch, depth, *image = shape_of(value)
        return self._reshaped(value, [batch * depth, *image], spec)

    def _split(self, value: SSAValue, spec: Attribute) -> SSAValue:
        """Batches as the depth of the result."""
        batch = shape_of(self.region.outputs[0])[0]
        count, *image = shape_of(value)
        return self._reshaped(value, [batch, count // batch, *image], spec)

    def _array(self) -> tuple[Array, int]:
        """The weights as [output, depth and input, height, width], and their port."""
        layout, port = self._layout, list[SSAValue](self.region.body.block.args).index(self.op.rhs)
        array = constant_array(self.region.inputs[port], self.weights)
        assert array is not None
        depth, *image = layout.kernel_spatial_dimensions
        order = (layout.kernel_output_feature_dimension, depth, layout.kernel_input_feature_dimension, *image)
        array = array.transpose(order)
        return array.reshape(array.shape[0], -1, *array.shape[3:]), port

    def _body(self, kinds: Sequence[Attribute]) -> Region:
        """The ops of the region over images."""
        block = Block(arg_types=kinds)
        arguments = self.region.body.block.args
        mapping: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
        whole = shape_of(self.op.result)
        for op in self.region.body.block.ops:
            copy = self._convolution(mapping) if op is self.op else op.clone(mapping)
            if isinstance(op, BroadcastInDimOp) and shape_of(op.result) == whole:
                places = [max(dimension - 1, 0) for dimension in array_values(op.broadcast_dimensions)]
                copy = BroadcastInDimOp(mapping[op.operand], self._flat(op.result), places)
            block.add_op(copy)
            for old, new in zip(op.results, list(copy.results), strict=True):
                is_whole = shape_of(old) == shape_of(new) == whole
                mapping[old] = Rewriter.replace_value_with_new_type(new, self._flat(old)) if is_whole else new
        return Region(block)

    def _flat(self, value: SSAValue) -> TensorType[Attribute]:
        """The type of a result as images."""
        batch, depth, *image = shape_of(value)
        return TensorType(element_of(value), [batch * depth, *image])

    def _convolution(self, mapping: dict[SSAValue, SSAValue]) -> ConvolutionOp:
        op, layout = self.op, ConvolutionLayout(0, 3, (1, 2), 1, 0, (2, 3), 0, 3, (1, 2))
        strides, dilations = (array_values(each, (1,) * VOLUME)[1:] for each in (op.window_strides, op.rhs_dilation))
        return ConvolutionOp(
            mapping[op.lhs],
            mapping[op.rhs],
            self._flat(op.result),
            layout,
            window_strides=strides,
            padding=padding_values(op.padding, VOLUME)[1:],
            rhs_dilation=dilations,
            feature_group_count=op.feature_group_count.value.data,
        )

    def _padded(self, value: SSAValue, spec: Attribute, ends: tuple[int, int]) -> SSAValue:
        """The value with images of zeros before and after it."""
        low, high = [0] * 5, [0] * 5
        low[DEPTH], high[DEPTH] = ends
        block = Block(arg_types=[value.type])
        zero = constant_op(np.zeros((), element_dtype(element_of(value))), self.weights)
        made = PadOp(block.args[0], zero.output, low, high)
        block.add_ops([zero, made, ReturnOp([made.result])])
        return self._inserted(QuantizeRegionOp([value], [made.result.type], "pad", [spec], [spec], Region(block)))

    def _reshaped(self, value: SSAValue, shape: Sequence[int], spec: Attribute) -> SSAValue:
        kind = TensorType(element_of(value), shape)
        return value if shape_of(value) == tuple(shape) else self._moved(ReshapeOp(value, kind), spec)

    def _moved(self, op: Operation, spec: Attribute) -> SSAValue:
        """An op on one value as a kernel that only moves elements."""
        (value,) = op.operands

        def placed(given: Sequence[SSAValue]) -> Operation:
            op.operands[0] = given[0]
            return op

        return self._inserted(movement_region([value], spec, placed))

    def _inserted(self, made: QuantizeRegionOp) -> SSAValue:
        made.location = self.region.location
        Rewriter.insert_op(made, InsertPoint.before(self.region))
        return made.outputs[0]
