"""Convolutions and matrix products: CONV2D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D, MATMUL, each with a RESCALE.

```mlir
%a = tosa.conv2d %x, %weights, %bias, %x_zero, %w_zero {acc_type = i32, dilation = ..., pad = ..., stride = ...} : ...
%y = tosa.rescale %a, %multiplier, %shift, %a_zero, %y_zero {per_channel = true, rounding_mode = DOUBLE_ROUND} : ...
```
TOSA 1.0 has no fully connected operator; it becomes a convolution of one pixel. Depthwise convolutions are the only
ones with groups; other groups become a convolution each, and a CONCAT of their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

from zeropoint.export.convolutions import ConvolutionForm
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.missing import missing_in_float
from zeropoint.export.tosa.arithmetic import requantized, zero, zero_point_of
from zeropoint.export.tosa.builder import FunctionBuilder, TosaValue, integers
from zeropoint.export.tosa.emission import TosaEmission
from zeropoint.export.tosa.moves import concatenated, padded, reshaped, sliced, spread, transposed
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.arrays import PaddingPairs
from zeropoint.ir.tensors import Array, element_of, shape_of


def stored_weights(kernel: ExportKernel, emit: TosaEmission, port: int) -> Array:
    """The weights of a kernel: stored integers, or the floats of a float kernel.

    Raises ExportError for computed weights and for a zero point other than 0.
    """
    array, kind = emit.array(kernel.region.inputs[port]), kernel.specs[port]
    if array is None:
        raise ExportError("found computed weights, expected constant ones", kernel.region)
    if not isinstance(kind, UniformQuantizedType):
        return array
    if kind.zero_points.any():
        raise ExportError(f"found weights of zero points {kind.zero_points}, expected 0", kernel.region)
    return stored_array(array, kind).astype(np.int8)


def bias_of(kernel: ExportKernel, emit: TosaEmission, channels: int) -> Array:
    """The bias at the scale of the products; zeros if the kernel has none."""
    broadcasts = [op for op in kernel.ops if isinstance(op, BroadcastInDimOp)]
    arguments = kernel.region.body.block.args
    port = next((kernel.port(op.operand) for op in broadcasts if op.operand in arguments), None)
    quantized = isinstance(kernel.output_spec, UniformQuantizedType)
    if port is None:
        return np.zeros(channels, np.int32 if quantized else np.float32)
    array, kind = emit.array(kernel.region.inputs[port]), kernel.specs[port]
    if array is None:
        raise ExportError("found a computed bias, expected a constant", kernel.region)
    stored = stored_array(array, kind).astype(np.int32) if isinstance(kind, UniformQuantizedType) else array
    return np.broadcast_to(stored.reshape(-1), (channels,))


def scales_of(kernel: ExportKernel, ports: Sequence[int]) -> Array | float:
    """The scale of products of two ports, or the scales of all channels; 1 for floats."""
    kinds = [kind for port in ports if isinstance(kind := kernel.specs[port], UniformQuantizedType)]
    return np.prod(np.broadcast_arrays(*(kind.scales for kind in kinds)), axis=0) if kinds else 1.0


def accumulator(kernel: ExportKernel) -> str:
    """The element type in which products are summed."""
    return "i32" if kernel.is_quantized else "f32"


def convolution(kernel: ExportKernel, emit: TosaEmission) -> None:
    """CONV2D, DEPTHWISE_CONV2D or TRANSPOSE_CONV2D, depending on groups and the dilation of the input."""
    op = kernel.first(ConvolutionOp)
    form = ConvolutionForm(kernel, op)
    form.check()
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    image = reshaped(emit.f, emit.source(kernel, data), form.size)
    array = form.weights(stored_weights(kernel, emit, weight))
    bias, kind = bias_of(kernel, emit, len(array)), kernel.specs[data]
    if _scatters(form, array):
        total = _transposed(form, emit, image, array, bias)
    else:
        fill = np.array(kind.zero_point if isinstance(kind, UniformQuantizedType) else 0, array.dtype)
        for axis, step in enumerate(form.pair(op.lhs_dilation)):
            image = spread(emit.f, image, 1 + axis, step, fill)
        total = _gathered(form, emit, image, array, bias)
    emit.finish(kernel, requantized(kernel, emit.f, total, scales_of(kernel, (data, weight)), emit.profile))


def _zeros(kernel: ExportKernel, emit: TosaEmission, data: Attribute) -> list[TosaValue]:
    element = "i8" if kernel.is_quantized else "f32"
    return [zero_point_of(emit.f, data, element), zero(emit.f, element)]


def _scatters(form: ConvolutionForm, array: Array) -> bool:
    """Whether TRANSPOSE_CONV2D computes the convolution. It crops the full result by less than the window size."""
    apart = max(form.pair(form.op.lhs_dilation)) > 1
    single = {*form.pair(form.op.window_strides), *form.pair(form.op.rhs_dilation)} == {1}
    cuts = form.cuts(array.shape[1:3])
    fits = all(cut < size for pair, size in zip(cuts, array.shape[1:3], strict=True) for cut in pair)
    return apart and single and fits and form.op.feature_group_count.value.data == 1


def _transposed(form: ConvolutionForm, emit: TosaEmission, image: TosaValue, array: Array, bias: Array) -> TosaValue:
    """TRANSPOSE_CONV2D. The weights are reversed, because the operator scatters its input."""
    f, kernel = emit.f, form.kernel
    constants = [f.constant(np.flip(array, (1, 2))), f.constant(bias)]
    zeros = _zeros(kernel, emit, kernel.specs[kernel.port(form.op.lhs)])
    added = [-cut for pair in form.cuts(array.shape[1:3]) for cut in pair]
    attributes = {
        "acc_type": accumulator(kernel),
        "out_pad": integers(added),
        "stride": integers(form.pair(form.op.lhs_dilation)),
    }
    return f.op("transpose_conv2d", [image, *constants, *zeros], form.result, accumulator(kernel), attributes)


def _gathered(form: ConvolutionForm, emit: TosaEmission, image: TosaValue, array: Array, bias: Array) -> TosaValue:
    f, kernel, op = emit.f, form.kernel, form.op
    groups, strides, dilations = (
        op.feature_group_count.value.data,
        form.pair(op.window_strides),
        form.pair(op.rhs_dilation),
    )
    extents = [(size - 1) * step + 1 for size, step in zip(array.shape[1:3], dilations, strict=True)]
    image, pads = fitted(emit, image, extents, strides, form.padding)
    zeros = _zeros(kernel, emit, kernel.specs[kernel.port(op.lhs)])
    attributes = {
        "acc_type": accumulator(kernel),
        "dilation": integers(dilations),
        "pad": integers(pads),
        "stride": integers(strides),
    }
    if 1 < groups == image.shape[3]:
        weights = array.transpose(1, 2, 0, 3).reshape(*array.shape[1:3], groups, -1)
        operands = [image, f.constant(weights), f.constant(bias), *zeros]
        return f.op("depthwise_conv2d", operands, form.result, accumulator(kernel), attributes)
    parts: list[TosaValue] = []
    (batch, height, width, channels), count = image.shape, channels_of(form) // groups
    inputs = channels // groups
    for group in range(groups):
        part = sliced(f, image, (0, 0, 0, group * inputs), (batch, height, width, (group + 1) * inputs))
        own = slice(group * count, (group + 1) * count)
        operands = [part, f.constant(array[own]), f.constant(bias[own]), *zeros]
        parts.append(f.op("conv2d", operands, (*form.result[:3], count), accumulator(kernel), attributes))
    return concatenated(f, parts, 3)


def window_of_ones(
    f: FunctionBuilder,
    image: TosaValue,
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    kind: Attribute,
) -> TosaValue:
    """The sums over windows of an image of type `kind`: DEPTHWISE_CONV2D with weights of 1."""
    element = "i32" if isinstance(kind, UniformQuantizedType) else "f32"
    batch, *sizes, channels = image.shape
    height, width = (
        (size + sum(pads[2 * axis : 2 * axis + 2]) - window[axis]) // strides[axis] + 1
        for axis, size in enumerate(sizes)
    )
    dtype = np.int8 if element == "i32" else np.float32
    constants = [f.constant(np.ones((*window, channels, 1), dtype))]
    constants += [f.constant(np.zeros(channels, np.int32 if element == "i32" else np.float32))]
    zeros = [zero_point_of(f, kind, image.element), zero(f, image.element)]
    attributes = {
        "acc_type": element,
        "dilation": integers((1, 1)),
        "pad": integers(pads),
        "stride": integers(strides),
    }
    shape = (batch, height, width, channels)
    return f.op("depthwise_conv2d", [image, *constants, *zeros], shape, element, attributes)


def channels_of(form: ConvolutionForm) -> int:
    """The number of output channels."""
    return form.result[3]


def fitted(
    emit: TosaEmission, image: TosaValue, extents: Sequence[int], strides: Sequence[int], padding: PaddingPairs
) -> tuple[TosaValue, list[int]]:
    """The image and its padding (top, bottom, left, right), cropped so that windows cover them exactly.

    TOSA requires this; StableHLO ignores the elements after the last window.
    """
    pairs, pads = [(0, 0)], list[int]()
    for size, extent, stride, (low, high) in zip(image.shape[1:3], extents, strides, padding, strict=True):
        high -= (size + low + high - extent) % stride
        pairs.append((min(low, 0), min(high, 0)))
        pads += [max(low, 0), max(high, 0)]
    return padded(emit.f, image, [*pairs, (0, 0)], np.zeros(1, np.int8)), pads


def fully_connected(kernel: ExportKernel, emit: TosaEmission) -> None:
    """CONV2D of images of one pixel. Contracting dimensions are moved to the end first."""
    op = kernel.first(DotGeneralOp)
    numbers = op.dot_dimension_numbers.data
    data, weight = kernel.port(op.lhs), kernel.port(op.rhs)
    if numbers.lhs_batching_dimensions:
        raise ExportError("found batch dimensions in a product with constant weights, expected none", kernel.region)
    summed, over = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    array = stored_weights(kernel, emit, weight)
    free = [axis for axis in range(array.ndim) if axis not in over]
    array = array.transpose(*free, *over).reshape(prod(array.shape[axis] for axis in free), 1, 1, -1)
    source = emit.source(kernel, data)
    source = transposed(emit.f, source, [*(d for d in range(len(source.shape)) if d not in summed), *summed])
    rows = prod(source.shape) // array.shape[3] if array.shape[3] else 0
    pixels = reshaped(emit.f, source, (rows, 1, 1, array.shape[3]))
    constants = [emit.f.constant(array), emit.f.constant(bias_of(kernel, emit, len(array)))]
    operands = [pixels, *constants, *_zeros(kernel, emit, kernel.specs[data])]
    attributes = {
        "acc_type": accumulator(kernel),
        "dilation": integers((1, 1)),
        "pad": integers((0, 0, 0, 0)),
        "stride": integers((1, 1)),
    }
    total = emit.f.op("conv2d", operands, (rows, 1, 1, len(array)), accumulator(kernel), attributes)
    emit.finish(kernel, requantized(kernel, emit.f, total, scales_of(kernel, (data, weight)), emit.profile))


def batch_matmul(kernel: ExportKernel, emit: TosaEmission) -> None:
    """MATMUL of two activations."""
    op = kernel.first(DotGeneralOp)
    ports = kernel.port(op.lhs), kernel.port(op.rhs)
    element = "i8" if kernel.is_quantized else "f32"
    zeros = [zero_point_of(emit.f, kernel.specs[port], element) for port in ports]
    total = matmul(op, [emit.source(kernel, port) for port in ports], zeros, accumulator(kernel), emit)
    emit.finish(kernel, requantized(kernel, emit.f, total, scales_of(kernel, ports), emit.profile))


def matmul(
    op: DotGeneralOp, sides: Sequence[TosaValue], zeros: Sequence[TosaValue], element: str, emit: TosaEmission
) -> TosaValue:
    """MATMUL of [batch, rows, terms] and [batch, terms, columns], reshaped to the shape of the result of `op`."""
    numbers = op.dot_dimension_numbers.data
    batches = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    summed = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    free = [
        [axis for axis in range(len(side.shape)) if axis not in (*batch, *over)]
        for side, batch, over in zip(sides, batches, summed, strict=True)
    ]
    count = prod(sides[0].shape[axis] for axis in batches[0])
    terms = prod(sides[0].shape[axis] for axis in summed[0])
    rows, columns = (prod(side.shape[axis] for axis in axes) for side, axes in zip(sides, free, strict=True))
    left = transposed(emit.f, sides[0], [*batches[0], *free[0], *summed[0]])
    right = transposed(emit.f, sides[1], [*batches[1], *summed[1], *free[1]])
    operands = [reshaped(emit.f, left, (count, rows, terms)), reshaped(emit.f, right, (count, terms, columns))]
    made = emit.f.op("matmul", [*operands, *zeros], (count, rows, columns), element)
    return reshaped(emit.f, made, shape_of(op.results[0]))


def dot_general(op: DotGeneralOp, emit: TosaEmission) -> None:
    """MATMUL of floats. Integers that floats hold are floats here (`exact_contractions.py`)."""
    kind = element_of(op.results[0])
    if not isinstance(kind, AnyFloat):
        raise missing_in_float(op, "TOSA")
    sides = [emit.operand(value, element_of(value)) for value in op.operands]
    emit.define(op.results[0], kind, matmul(op, sides, [zero(emit.f, "f32")] * 2, "f32", emit))


KERNELS = {
    "batch_matmul": batch_matmul,
    "convolution": convolution,
    "depthwise_convolution": convolution,
    "fully_connected": fully_connected,
    "transpose_convolution": convolution,
}
