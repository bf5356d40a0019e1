"""Convolutions of stored integers, and the sums of the windows of their input.

```mlir
%x = ... : tensor<1x2x5x5xi8>     // zero point -7
%y = stablehlo.convolution(%x, %w), pad = [[1, 1], [1, 1]] : (..., tensor<3x2x3x3xi8>) -> tensor<1x3x5x5xi8>
```
is a convolution of %x padded with -7, and its window sums are a convolution of the same numbers with ones:
```mlir
%p = stablehlo.pad %x, -7, low = [0, 0, 1, 1], high = [0, 0, 1, 1] : tensor<1x2x7x7xi8>
%s = stablehlo.convolution(%p, dense<1>) : (tensor<1x2x7x7xi8>, tensor<1x2x3x3xi8>) -> tensor<1x1x5x5xi32>
%a = stablehlo.convolution(%p, %w) : (tensor<1x2x7x7xi8>, tensor<3x2x3x3xi8>) -> tensor<1x3x5x5xi32>
```
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, i32
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, PadOp, ReshapeOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element, with_shape
from zeropoint.ir.window_padding import padding_of, pads
from zeropoint.lower.context import Lowering


@dataclass(frozen=True)
class PaddedConvolution:
    """A quantized convolution on stored integers. Its input is padded with the zero point, or the op pads with 0."""

    lowering: Lowering
    op: ConvolutionOp
    value: SSAValue
    properties: dict[str, Attribute]

    @staticmethod
    def of(lowering: Lowering, op: ConvolutionOp, value: SSAValue, zero_point: int) -> PaddedConvolution:
        """The convolution `op` on `value`, its stored input."""
        properties = dict(op.properties)
        # StableHLO pads with 0, which is correct only for zero point 0.
        if zero_point != 0:
            value = _padded(lowering, op, value, zero_point)
            properties.pop("padding", None)
            # The `pad` has both padding and input dilation now. Strides and kernel dilation stay with the convolution.
            properties.pop("lhs_dilation", None)
        return PaddedConvolution(lowering, op, value, properties)

    def sums(self, weight: SSAValue, element: IntegerType) -> SSAValue:
        """The sums of stored products."""
        made = ConvolutionOp.create(
            operands=[self.value, weight],
            result_types=[with_element(self.op.result, element)],
            properties=self.properties,
            attributes=dict(self.op.attributes),
        )
        return self.lowering.insert(made).results[0]

    def window_sums(self) -> SSAValue:
        """The sum of the stored input in each window, in i32, with one result per group of channels."""
        kernel, result = list(shape_of(self.op.rhs)), list(shape_of(self.op.result))
        axis = output_channel_axis(self.op)
        # Groups of a dynamic shape cannot be reshaped (`at_every_channel`), so there is a sum for each channel.
        count = result[axis] if self._groups > 1 and DYNAMIC_INDEX in result else self._groups
        kernel[self.op.dimension_numbers.data.kernel_output_feature_dimension] = result[axis] = count
        ones = self.lowering.constant(np.ones(kernel, element_dtype(element_of(self.value))))
        made = ConvolutionOp.create(
            operands=[self.value, ones], result_types=[TensorType(i32, result)], properties=dict(self.properties)
        )
        return self.lowering.insert(made).results[0]

    def at_every_channel(self, sums: SSAValue, like: SSAValue) -> SSAValue:
        """Numbers per group, repeated for the channels of each group. `like` has the shape of the result."""
        shape, groups, axis = shape_of(like), self._groups, output_channel_axis(self.op)
        if shape_of(sums)[axis] == shape[axis]:
            return sums
        if groups == 1:
            return self.lowering.spread(sums, like, range(len(shape)))
        apart = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
        dims = [dim for dim in range(len(apart)) if dim != axis + 1]
        wide = self.lowering.insert(BroadcastInDimOp(sums, with_shape(sums, apart), dims)).result
        return self.lowering.insert(ReshapeOp(wide, with_shape(wide, shape))).result

    @property
    def _groups(self) -> int:
        """The number of groups, of features or of batches: an op has groups of one kind at most."""
        return int(self.op.feature_group_count.value.data) * int(self.op.batch_group_count.value.data)


def _padded(lowering: Lowering, op: ConvolutionOp, value: SSAValue, zero_point: int) -> SSAValue:
    """The input padded with its zero point, also between elements if the input is dilated."""
    # Without padding, nothing has to hold the zero point.
    if not pads(op):
        return value
    # StableHLO pads and dilates with zeros; the `pad` inserts the zero point, which is the real 0.
    fill = lowering.constant(np.array(zero_point, element_dtype(element_of(value))))
    return lowering.insert(PadOp(value, fill, *padding_of(op))).result
