"""Convolutions and matrix products as LiteRT's operators: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL.

LiteRT's weights are [output, height, width, input] with one scale per output channel, [1, height, width, output] where
every channel has its own window, and [output, input] of a fully connected layer. Padding other than SAME and VALID is a
PAD in front, with the zero point.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import Kernel
from zeropoint.export.litert.emission import BIAS_BITS, Emission
from zeropoint.export.litert.windows import VALID, Window, two
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, shape_of

ACTIVATIONS: Mapping[tuple[float, float], int] = {(-inf, inf): 0, (0.0, inf): 1, (-1.0, 1.0): 2, (0.0, 6.0): 3}
"""Bounds, and the fused activation function: NONE, RELU, RELU_N1_TO_1, RELU6."""


def activation(kernel: Kernel) -> int:
    """The fused activation function that a kernel's bounds are. Raises ExportError for other bounds."""
    found = ACTIVATIONS.get(kernel.bounds)
    if found is None:
        raise ExportError(f"found bounds {kernel.bounds}, expected those of RELU, RELU_N1_TO_1 or RELU6", kernel.region)
    return found


def weights_of(kernel: Kernel, emit: Emission, port: int) -> Array:
    """The float array behind a weight. Raises ExportError where it is computed."""
    array = emit.array(kernel.region.inputs[port])
    if array is None:
        raise ExportError("found computed weights, expected constant ones", kernel.region)
    return array


def with_axis(spec: Attribute, axis: int) -> Attribute:
    """A type whose channels count along another dimension."""
    if isinstance(spec, UniformQuantizedType) and spec.is_per_channel:
        return UniformQuantizedType.per_channel(
            spec.storage, axis, spec.scales, spec.zero_points, expressed_type=spec.expressed_type
        )
    return spec


def bias_of(kernel: Kernel, emit: Emission, data: int, weight: Attribute, channels: int) -> int:
    """The bias as i32, as i64 beside 16-bit activations; zeros where the kernel has none."""
    broadcasts = [op for op in kernel.ops if isinstance(op, BroadcastInDimOp)]
    ports = {id(argument): i for i, argument in enumerate(kernel.region.body.block.args)}
    port = next((ports[id(op.operand)] for op in broadcasts if id(op.operand) in ports), None)
    array = np.zeros(channels, np.float32) if port is None else weights_of(kernel, emit, port)
    source = kernel.specs[data]
    if not isinstance(source, UniformQuantizedType) or not isinstance(weight, UniformQuantizedType):
        return emit.builder.constant("bias", array)
    stored = np.zeros(channels, np.int64) if port is None else emit.stored(array, kernel.specs[port])
    wide = source.storage.type.width > BIAS_BITS // 4
    parameters = kernel.specs[port] if port is not None else emit.product_type(source, weight)
    assert isinstance(parameters, UniformQuantizedType)
    return emit.builder.constant("bias", stored.astype(np.int64 if wide else np.int32), parameters)


def convolution(kernel: Kernel, emit: Emission) -> None:
    """CONV_2D, or DEPTHWISE_CONV_2D where there are as many groups as channels."""
    op = kernel.first(ConvolutionOp)
    layout = op.dimension_numbers.data
    rank = len(layout.input_spatial_dimensions)
    if rank != 2 or layout.input_spatial_dimensions != (1, 2) or layout.output_spatial_dimensions != (1, 2):
        raise ExportError(f"found {rank} spatial dimensions, expected two in the layout [b, 0, 1, f]", kernel.region)
    if op.lhs_dilation is not None and any(step != 1 for step in array_values(op.lhs_dilation)):
        raise ExportError("found a dilated input, expected TRANSPOSE_CONV's form", kernel.region)
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    size = shape_of(op.lhs)
    array = weights_of(kernel, emit, weight)
    array = array.transpose(
        layout.kernel_output_feature_dimension, *layout.kernel_spatial_dimensions, layout.kernel_input_feature_dimension
    )
    depthwise = kernel.name == "depthwise_convolution"
    if depthwise:
        array = array.transpose(3, 1, 2, 0)
    window = Window(
        (size[1], size[2]),
        (array.shape[1], array.shape[2]),
        two(array_values(op.window_strides)),
        two(array_values(op.rhs_dilation)),
        _pairs(padding_values(op.padding, 2)),
    )
    spec = with_axis(kernel.specs[weight], 3 if depthwise else 0)
    channels = array.shape[3 if depthwise else 0]
    source = emit.operand(kernel.region.inputs[data], kernel.specs[data])
    scheme = window.scheme
    if scheme is None:
        source, scheme = padded(kernel, emit, source, window, size)
    filters = emit.constant(array, spec, f"{emit.name(kernel.region.outputs[0])}/weights")
    bias = bias_of(kernel, emit, data, spec, channels)
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    fields = {"padding": scheme, **window.strides_and_dilations, "fusedActivationFunction": activation(kernel)}
    if depthwise:
        fields["depthMultiplier"] = channels // size[3]
        emit.operator("DEPTHWISE_CONV_2D", [source, filters, bias], [result], ("DepthwiseConv2DOptions", fields), 3)
    else:
        emit.operator("CONV_2D", [source, filters, bias], [result], ("Conv2DOptions", fields), 3)


def _pairs(padding: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], tuple[int, int]]:
    first, second = padding
    return first, second


def padded(
    kernel: Kernel,
    emit: Emission,
    source: int,
    window: Window,
    shape: tuple[int, ...],
    *,
    least_of: Attribute | None = None,
) -> tuple[int, int]:
    """The image with a PAD in front, of 0 or of the least number of a type, and VALID."""
    kind = kernel.specs[0]
    made = emit.temporary(f"{emit.name(kernel.region.outputs[0])}/pad", (shape[0], *window.padded, shape[3]), kind)
    paddings = emit.builder.constant("paddings", np.asarray(window.paddings, np.int32))
    if least_of is None:
        emit.operator("PAD", [source, paddings], [made], ("PadOptions", {}), 2)
    else:
        least = emit.constant(np.full(1, -inf, np.float32), least_of, "padding_value")
        emit.operator("PADV2", [source, paddings, least], [made], ("PadV2Options", {}), 2)
    return made, VALID


def fully_connected(kernel: Kernel, emit: Emission) -> None:
    """FULLY_CONNECTED over the last dimension, any number of others before it."""
    op = kernel.first(DotGeneralOp)
    numbers = op.dot_dimension_numbers.data
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    rank = len(shape_of(op.lhs))
    if numbers.lhs_contracting_dimensions != (rank - 1,) or numbers.lhs_batching_dimensions:
        raise ExportError("found a product over another dimension than the last, expected the last", kernel.region)
    array = weights_of(kernel, emit, weight)
    if numbers.rhs_contracting_dimensions != (1,):
        array = array.T
    spec = with_axis(kernel.specs[weight], 0)
    source = emit.operand(kernel.region.inputs[data], kernel.specs[data])
    filters = emit.constant(array, spec, f"{emit.name(kernel.region.outputs[0])}/weights")
    bias = bias_of(kernel, emit, data, spec, array.shape[0])
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    fields = {"fusedActivationFunction": activation(kernel), "keepNumDims": rank > 2}
    emit.operator("FULLY_CONNECTED", [source, filters, bias], [result], ("FullyConnectedOptions", fields), 5)


def batch_matmul(kernel: Kernel, emit: Emission) -> None:
    """BATCH_MATMUL of two activations whose leading dimensions are batches."""
    op = kernel.first(DotGeneralOp)
    numbers, rank = op.dot_dimension_numbers.data, len(shape_of(op.lhs))
    batches = tuple(range(rank - 2))
    if numbers.lhs_batching_dimensions != batches or numbers.rhs_batching_dimensions != batches:
        raise ExportError("found batches in other dimensions than the first, expected the first", kernel.region)
    left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    inputs = [
        emit.operand(kernel.region.inputs[port], kernel.specs[port])
        for port in (kernel.port(op.lhs), kernel.port(op.rhs))
    ]
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    fields = {"adjX": left == (rank - 2,), "adjY": right == (rank - 1,)}
    emit.operator("BATCH_MATMUL", inputs, [result], ("BatchMatMulOptions", fields), 4)


KERNELS = {
    "batch_matmul": batch_matmul,
    "convolution": convolution,
    "depthwise_convolution": convolution,
    "fully_connected": fully_connected,
}
