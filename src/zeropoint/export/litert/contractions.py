"""Convolutions and matrix products as LiteRT operators: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL.

LiteRT's weights are [output, height, width, input] with one scale per output channel, [1, height, width, output] for
depthwise convolutions, and [output, input] for fully connected layers. Padding other than SAME and VALID becomes a
preceding PAD with the zero point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.convolutions import ConvolutionForm
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import BIAS_BITS, LitertEmission
from zeropoint.export.litert.filters import filters_of
from zeropoint.export.litert.padding import spread
from zeropoint.export.litert.products import matmul
from zeropoint.export.lower_bounds import is_zero_least
from zeropoint.export.windows import VALID, ExportedWindow
from zeropoint.ir.annotations import merge_name
from zeropoint.ir.constants import exact_array
from zeropoint.ir.contractions import has_computed_weights
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.channel_scales import transposed_scales
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of

ACTIVATIONS: Mapping[tuple[float, float], int] = {(-inf, inf): 0, (0.0, inf): 1, (-1.0, 1.0): 2, (0.0, 6.0): 3}
"""Fused activation functions (NONE, RELU, RELU_N1_TO_1, RELU6) by bounds."""


def activation(kernel: ExportKernel) -> int:
    """The fused activation function for a kernel's bounds. Raises ExportError if there is none."""
    found = ACTIVATIONS.get(kernel.bounds)
    if found is None:
        raise ExportError(f"found bounds {kernel.bounds}, expected those of RELU, RELU_N1_TO_1 or RELU6", kernel.region)
    return found


def weights_of(kernel: ExportKernel, emit: LitertEmission, port: int) -> Array:
    """The float array of a weight. Raises ExportError for computed weights."""
    array = emit.array(kernel.region.inputs[port])
    if array is None:
        raise ExportError("found computed weights, expected constant ones", kernel.region)
    return array


def with_axis(spec: Attribute, axis: int, order: Sequence[int] | None = None) -> Attribute:
    """The type with its scales along another dimension. Blocks follow their dimensions to the new `order`."""
    if isinstance(spec, UniformQuantizedType) and spec.is_sub_channel and order is not None:
        return transposed_scales(spec, order)
    if isinstance(spec, UniformQuantizedType) and spec.is_per_channel:
        return UniformQuantizedType.per_channel(
            spec.storage, axis, spec.scales, spec.zero_points, expressed_type=spec.expressed_type
        )
    return spec


def bias_of(kernel: ExportKernel, emit: LitertEmission, data: int, weight: Attribute, channels: int) -> int:
    """The bias as i32, or i64 for 16-bit activations; zeros if the kernel has none. Scale: s_data * s_weight."""
    broadcasts = [op for op in kernel.ops if isinstance(op, BroadcastInDimOp)]
    ports = {id(argument): i for i, argument in enumerate(kernel.region.body.block.args)}
    port = next((ports[id(op.operand)] for op in broadcasts if id(op.operand) in ports), None)
    source = kernel.specs[data]
    if port is None:
        return emit.zeros(channels, source, weight)
    array, parameters = weights_of(kernel, emit, port), kernel.specs[port]
    if not isinstance(source, UniformQuantizedType) or not isinstance(parameters, UniformQuantizedType):
        return emit.builder.part("bias", array)
    exact = exact_array(kernel.region.inputs[port], emit.weights)
    stored = emit.stored(array if exact is None else exact, parameters)
    # LiteRT's 16-bit kernels take biases of 64 bits.
    wide = source.storage.type.width > BIAS_BITS // 4
    return emit.builder.part("bias", stored.astype(np.int64 if wide else np.int32), parameters)


def _image(form: ConvolutionForm, emit: LitertEmission, port: int) -> int:
    """The input as an image."""
    tensor = emit.operand(form.kernel.region.inputs[port], form.kernel.specs[port])
    return tensor if form.rank == 2 else emit.reshaped(tensor, form.size, form.kernel.specs[port])


def _result(form: ConvolutionForm, emit: LitertEmission) -> int:
    """A tensor for the resulting image."""
    if form.rank == 2:
        return emit.declare(form.kernel.region.outputs[0], form.kernel.output_spec)
    return emit.temporary(emit.name(form.kernel.region.outputs[0]), form.result, form.kernel.output_spec)


def _finish(form: ConvolutionForm, emit: LitertEmission, image: int) -> None:
    """Reshape the resulting image to the rank of the model."""
    if form.rank != 2:
        emit.reshape(image, emit.declare(form.kernel.region.outputs[0], form.kernel.output_spec))


def convolution(kernel: ExportKernel, emit: LitertEmission) -> None:
    """CONV_2D, or DEPTHWISE_CONV_2D if there are as many groups as channels."""
    op = kernel.first(ConvolutionOp)
    form = ConvolutionForm(kernel, op)
    form.check()
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    source, size = _image(form, emit, data), form.size
    for axis, step in enumerate(form.pair(op.lhs_dilation)):
        source, size = spread(emit, source, size, 1 + axis, step, kernel.specs[data])
    array = form.weights(weights_of(kernel, emit, weight))
    depthwise = 1 < op.feature_group_count.value.data == size[3]
    if depthwise:
        # DEPTHWISE_CONV_2D takes weights as [1, height, width, channels].
        array = array.transpose(3, 1, 2, 0)
    window = ExportedWindow(
        (size[1], size[2]),
        (array.shape[1], array.shape[2]),
        form.pair(op.window_strides),
        form.pair(op.rhs_dilation),
        form.padding,
    )
    spec = with_axis(kernel.specs[weight], 3 if depthwise else 0)
    channels = array.shape[3 if depthwise else 0]
    scheme = window.scheme
    if scheme is None:
        source, scheme = padded(kernel, emit, source, window, size)
    filters = filters_of(kernel, emit, data, array, spec)
    bias = bias_of(kernel, emit, data, spec, channels)
    result = _result(form, emit)
    fields = {"padding": scheme, **window.strides_and_dilations, "fusedActivationFunction": activation(kernel)}
    if depthwise:
        fields["depthMultiplier"] = channels // size[3]
        emit.operator("DEPTHWISE_CONV_2D", [source, filters, bias], [result], ("DepthwiseConv2DOptions", fields), 3)
    else:
        emit.operator("CONV_2D", [source, filters, bias], [result], ("Conv2DOptions", fields), 3)
    _finish(form, emit, result)


def transpose_convolution(kernel: ExportKernel, emit: LitertEmission) -> None:
    """TRANSPOSE_CONV without padding, followed by a STRIDED_SLICE that crops the result.

    With groups, strides or padding beyond the window, it is a convolution of the image with zeros between its elements.
    """
    op = kernel.first(ConvolutionOp)
    form = ConvolutionForm(kernel, op)
    form.check()
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    if not form.is_transposed:
        convolution(kernel, emit)
        return
    # StableHLO convolves the dilated image. TRANSPOSE_CONV scatters its input, which reverses the window.
    array = np.flip(form.weights(weights_of(kernel, emit, weight)), (1, 2))
    strides, extents = form.pair(op.lhs_dilation), array.shape[1:3]
    cuts = form.cuts(extents)
    batch, *sizes, _ = form.size
    # The size of the full result, before the model's padding crops it.
    whole = [(n - 1) * step + extent for n, step, extent in zip(sizes, strides, extents, strict=True)]
    full = (batch, *whole, array.shape[0])
    spec = with_axis(kernel.specs[weight], 0)
    source = _image(form, emit, data)
    filters = filters_of(kernel, emit, data, array, spec)
    inputs = [emit.integers(full), filters, source, bias_of(kernel, emit, data, spec, array.shape[0])]
    cropped = any(map(any, cuts))
    name = emit.name(kernel.region.outputs[0])
    result = emit.temporary(name, full, kernel.output_spec) if cropped else _result(form, emit)
    fields = {
        "padding": VALID, "strideH": strides[0], "strideW": strides[1],
        "fusedActivationFunction": activation(kernel),
    }  # fmt: skip
    emit.operator("TRANSPOSE_CONV", inputs, [result], ("TransposeConvOptions", fields), 4)
    if cropped:
        begin = [0, *(low for low, _ in cuts), 0]
        end = [batch, *(n - high for n, (_, high) in zip(whole, cuts, strict=True)), array.shape[0]]
        image = _result(form, emit)
        parts = [emit.integers(part, "slice") for part in (begin, end, [1] * 4)]
        emit.operator("STRIDED_SLICE", [result, *parts], [image], ("StridedSliceOptions", {}), 4)
        result = image
    _finish(form, emit, result)


def padded(
    kernel: ExportKernel,
    emit: LitertEmission,
    source: int,
    window: ExportedWindow,
    shape: tuple[int, ...],
    *,
    least_of: Attribute | None = None,
) -> tuple[int, int]:
    """The image after a PAD, and the scheme VALID. The padding is 0, or the lowest value of the type `least_of`.

    If the image has no value below 0, its padding is 0 all the same. ai-edge-quantizer refuses PADV2 with -inf.
    """
    kind = kernel.specs[0]
    made = emit.temporary(f"{emit.name(kernel.region.outputs[0])}/pad", (shape[0], *window.padded, shape[3]), kind)
    paddings = emit.builder.part("paddings", np.asarray(window.paddings, np.int32))
    if least_of is None or is_zero_least(kernel.region.inputs[0], kind, kernel.weights):
        emit.operator("PAD", [source, paddings], [made], ("PadOptions", {}), 2)
    else:
        # -inf saturates to the smallest integer, so that the padding never is the only maximum.
        least = emit.part("padding_value", np.full(1, -inf, np.float32), least_of)
        emit.operator("PADV2", [source, paddings, least], [made], ("PadV2Options", {}), 2)
    return made, VALID


def fully_connected(kernel: ExportKernel, emit: LitertEmission) -> None:
    """FULLY_CONNECTED over the last dimension. Contracting dimensions are moved there first."""
    op = kernel.first(DotGeneralOp)
    numbers = op.dot_dimension_numbers.data
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    if numbers.lhs_batching_dimensions:
        raise ExportError("found batch dimensions in a product with constant weights, expected none", kernel.region)
    shape, summed, over = shape_of(op.lhs), numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    kept = [axis for axis in range(len(shape)) if axis not in summed]
    array = weights_of(kernel, emit, weight)
    free = [axis for axis in range(array.ndim) if axis not in over]
    terms = prod(shape[axis] for axis in summed)
    spec = with_axis(kernel.specs[weight], 0, (*free, *over))
    array = array.transpose(*free, *over).reshape(-1, terms)
    kind, name = kernel.specs[data], emit.name(kernel.region.outputs[0])
    source = emit.operand(kernel.region.inputs[data], kind)
    source = emit.transposed(source, [*kept, *summed], kind)
    rows = [shape[axis] for axis in kept]
    if len(summed) != 1:
        source = emit.reshaped(source, (*rows, terms), kind, merge_name(kernel.region) or "")
    filters = filters_of(kernel, emit, data, array, spec)
    bias = bias_of(kernel, emit, data, spec, array.shape[0])
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    plain = len(free) == 1 and len(rows) > 0
    made = result if plain else emit.temporary(name, (*(rows or [1]), array.shape[0]), kernel.output_spec)
    fields = {"fusedActivationFunction": activation(kernel), "keepNumDims": len(rows) > 1}
    emit.operator("FULLY_CONNECTED", [source, filters, bias], [made], ("FullyConnectedOptions", fields), 5)
    if not plain:
        emit.reshape(made, result)


def batch_matmul(kernel: ExportKernel, emit: LitertEmission) -> None:
    """BATCH_MATMUL of two activations, or a FULLY_CONNECTED if an imported file has that."""
    op = kernel.first(DotGeneralOp)
    ports = kernel.port(op.lhs), kernel.port(op.rhs)
    if has_computed_weights(kernel.region):
        _computed_layer(kernel, emit, op, ports)
        return
    sides = [emit.operand(kernel.region.inputs[port], kernel.specs[port]) for port in ports]
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    matmul(op, sides, [*(kernel.specs[port] for port in ports), kernel.output_spec], result, emit)


def _computed_layer(kernel: ExportKernel, emit: LitertEmission, op: DotGeneralOp, ports: tuple[int, int]) -> None:
    """FULLY_CONNECTED whose weights are computed. Summed dimensions are moved to the end first."""
    numbers = op.dot_dimension_numbers.data
    sides: list[int] = []
    for port, summed in zip(
        ports, (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions), strict=True
    ):
        shape, kind = shape_of(kernel.region.inputs[port]), kernel.specs[port]
        kept = [axis for axis in range(len(shape)) if axis not in summed]
        moved = emit.transposed(emit.operand(kernel.region.inputs[port], kind), [*kept, *summed], kind)
        terms = prod(shape[axis] for axis in summed)
        sides.append(emit.reshaped(moved, (prod(shape[axis] for axis in kept), terms), kind))
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    rows, columns = (emit.builder.tensors[side].shape[0] for side in sides)
    plain = kernel.output_shape == (rows, columns)
    made = result if plain else emit.temporary(emit.name(kernel.region.outputs[0]), (rows, columns), kernel.output_spec)
    fields = {"fusedActivationFunction": activation(kernel), "keepNumDims": False}
    # -1: no bias
    emit.operator("FULLY_CONNECTED", [*sides, -1], [made], ("FullyConnectedOptions", fields), 5)
    if not plain:
        emit.reshape(made, result)


KERNELS = {
    "batch_matmul": batch_matmul,
    "convolution": convolution,
    "depthwise_convolution": convolution,
    "fully_connected": fully_connected,
    "transpose_convolution": transpose_convolution,
}
