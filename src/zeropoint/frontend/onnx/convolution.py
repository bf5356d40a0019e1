"""`Conv`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.biases import bias_of
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.windows import check_kernel_shape, window_of
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import shape_of, with_shape


def unless(default: int, values: Sequence[int]) -> Sequence[int] | None:
    """The values, or None if all have the default value, so that the attribute is omitted."""
    return values if any(value != default for value in values) else None


def convolution(node: OnnxNode, build: Builder) -> SSAValue:
    """`Conv` in 1, 2 or 3 dimensions, channels first. The bias is broadcast along dimension 1 and added.

        %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
             window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {feature_group_count = 1, batch_group_count = 1}
        %1 = stablehlo.broadcast_in_dim %bias, dims = [1]
        %2 = stablehlo.add %0, %1

    Strides and dilations of 1 and padding of 0 are omitted.
    """
    result = convolved(node, node.operand(0), node.operand(1), build)
    node.note_float_weights(result)
    if node.has(2):
        bias, features = bias_of(node, 2, build), shape_of(result)[1]
        if shape_of(bias) != (features,):
            raise NodeError(f"found a bias of shape {list(shape_of(bias))}, expected [{features}]")
        result = build.insert(AddOp(result, build.broadcast(bias, result.type, [1])))
    return result


def convolved(node: OnnxNode, data: SSAValue, kernel: SSAValue, build: Builder) -> SSAValue:
    """The `convolution` of data and kernel with a node's attributes."""
    (batch, channels, *inputs), (features, group_channels, *sizes) = _shapes(data, kernel)
    groups = node.integer("group", 1)
    if groups < 1 or channels != group_channels * groups or features % groups:
        raise NodeError(
            f"found {channels} input channels, a kernel of shape {list(shape_of(kernel))} and group {groups}, "
            f"which do not match; expected group * {group_channels} input channels, and kernels in equal groups"
        )
    check_kernel_shape(node, sizes)
    window = window_of(node, inputs, sizes)
    op = ConvolutionOp(
        data,
        kernel,
        with_shape(data, [batch, features, *window.outputs(inputs)]),
        ConvolutionLayout.channels_first(len(inputs)),
        window_strides=unless(1, window.strides),
        padding=window.padding if any(map(any, window.padding)) else None,
        rhs_dilation=unless(1, window.dilations),
        feature_group_count=groups,
    )
    return build.insert(op)


def _shapes(data: SSAValue, kernel: SSAValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shapes = shape_of(data), shape_of(kernel)
    if len(shapes[0]) < 3 or len(shapes[0]) != len(shapes[1]):
        raise NodeError(
            f"found shapes {list(shapes[0])} and {list(shapes[1])}, expected [N, C, ...] and [O, C/group, ...] of the "
            f"same rank"
        )
    return shapes
