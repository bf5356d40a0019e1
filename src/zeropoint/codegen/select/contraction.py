"""Requantized sums of products: `requantize(add(convolution | dot_general | sum of values, bias))` as one kernel.

The program spells an accumulation out; here its ops are read backwards from the `fxpmath.requantize` that ends it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.arithmetic import Integers
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.requantize import Epilogue, Output
from zeropoint.codegen.select.geometry import call_for_images, has_even_rows, over_images, over_rows
from zeropoint.codegen.select.residual import Addition, addition_of
from zeropoint.codegen.select.selection import NoKernel, Selection, owner_of
from zeropoint.codegen.select.windows import Windows
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.numerics.arrays import IntArray

LARGEST_WINDOW = 64
"""Taps of a pooling window that the depthwise kernel lays out."""


@dataclass(frozen=True)
class Accumulation:
    """What is summed, and the bias of every channel."""

    source: SSAValue
    bias: Array | None


def select_requantize(selection: Selection, op: RequantizeOp) -> None:
    """One kernel for a requantize and the accumulation that it ends."""
    if element_dtype(element_of(op.result)) != np.int8 or element_dtype(element_of(op.accumulator)) != np.int32:
        raise NoKernel
    accumulation = accumulation_of(selection, op.accumulator)
    source = owner_of(accumulation.source)
    if isinstance(source, ConvolutionOp):
        return _convolution(selection, op, source, accumulation.bias)
    if isinstance(source, DotGeneralOp):
        return _product(selection, op, source, accumulation.bias)
    pooled = _pooled(selection, accumulation.source)
    if pooled is not None and accumulation.bias is None:
        return _pool(selection, op, pooled)
    raise NoKernel


def accumulation_of(selection: Selection, value: SSAValue) -> Accumulation:
    """Take the biases off: constants of one value a channel, broadcast and added one after the other."""
    total: Array | None = None
    while (found := _bias_and_rest(selection, value)) is not None:
        bias, value = found
        total = bias.astype(np.int64) if total is None else total + bias
    return Accumulation(value, total)


def _bias_and_rest(selection: Selection, value: SSAValue) -> tuple[Array, SSAValue] | None:
    """A constant of one value a channel, and what it is added to."""
    op = owner_of(value)
    if not isinstance(op, AddOp):
        return None
    axis = selection.channel if selection.is_image(value) else len(shape_of(value)) - 1
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        broadcast = owner_of(other)
        if isinstance(broadcast, BroadcastInDimOp):
            bias = selection.constant(broadcast.operand)
            if bias is not None and (bias.size == 1 or array_values(broadcast.broadcast_dimensions) == (axis,)):
                return bias.reshape(-1), operand
    return None


def output_of(selection: Selection, op: RequantizeOp, channels: int) -> Output:
    """The multipliers, one a channel, the zero point and the bounds of a requantize."""
    parts = [selection.constant(operand) for operand in op.operands[1:]]
    image = selection.is_image(op.result)
    axis = selection.channel if image else len(shape_of(op.result)) - 1
    one = all(part is not None and part.size == 1 for part in parts)
    if any(part is None for part in parts) or not (one or (op.axis is not None and int(op.axis.value.data) == axis)):
        raise NoKernel
    if op.behaviour.data == RequantizeBehaviour.EXACT.value:
        raise NoKernel
    every = [np.broadcast_to(np.asarray(part).reshape(-1), (channels,)) for part in parts]
    multiplier = Multiplier(RequantizeBehaviour(op.behaviour.data), *every)
    zero, low, high = (int(a.value.data) for a in (op.zero_point, op.storage_min, op.storage_max))
    return Output(multiplier, zero, low, high)


def _epilogue(selection: Selection, output: Output, weights: Array, bias: IntArray) -> Epilogue:
    """The epilogue for the accumulators that these weights (..., channels) and biases can give.

    Raises NoKernel where these have no room for the rounding term that is added to the biases.
    """
    reach = 128 * np.abs(weights.astype(np.int64)).reshape(-1, weights.shape[-1]).sum(0) + np.abs(bias)
    made = Epilogue.of(output, reach, selection.isa)
    if not made.has_room(output.multiplier, reach):
        raise NoKernel
    return made


def halves_of(selection: Selection, weights: Array) -> int:
    """2 where products of these weights could saturate inside the dot product, which then takes them in halves."""
    return 2 if int(np.abs(weights.astype(np.int16)).max(initial=0)) > selection.isa.weight_limit else 1


def _convolution(selection: Selection, op: RequantizeOp, convolution: ConvolutionOp, bias: Array | None) -> None:
    windows = Windows.of(selection, convolution)
    if element_dtype(element_of(windows.input.source)) != np.int8:
        raise NoKernel
    pieces = windows.pieces()
    source = selection.fitting(op, windows.input.source, 16 if windows.depthwise else 4)
    source = selection.surrounded(op, source, windows.padding)
    channels = windows.weights.shape[3]
    biases = biases_of(bias, channels)
    output = output_of(selection, op, channels)
    addition = addition_of(selection, op) if len(pieces) == 1 and not windows.depthwise else None
    target = selection.bytes_for(op, op.result if addition is None else addition.op.result)
    for piece in pieces:
        here, there = piece.source(selection, source), piece.target(selection, target)
        added = biases + piece.beside(piece.windows.weights)
        if windows.depthwise:
            _depthwise(selection, op, piece.windows, here, there, added, output)
        else:
            _dense(selection, op, piece.windows, here, there, added, output, addition)


def padded_weights(windows: Windows) -> Array:
    """(rows, columns, input channels rounded up to 4, output channels)."""
    weights = windows.dense()
    return np.pad(weights, ((0, 0), (0, 0), (0, -weights.shape[2] % 4), (0, 0)))


def _dense(
    selection: Selection,
    op: RequantizeOp,
    windows: Windows,
    source: View,
    target: View,
    biases: IntArray,
    output: Output,
    addition: Addition | None,
) -> None:
    channels = windows.weights.shape[3]
    padded = padded_weights(windows)
    groups, steps = padded.shape[2] // 4, padded.reshape(-1, 4, channels)
    residual = None if addition is None else addition.residual(*selection.image_strides(addition.other)[2:])
    arithmetic = Integers(halves_of(selection, padded), _epilogue(selection, output, padded, biases), residual)
    shape = over_images(selection, windows, source, target, groups, arithmetic)
    packed = arithmetic.pack(selection.isa, list(shape.groups_of(selection.isa, channels)), steps, biases, output)
    sources = [source] if addition is None else [source, addition.other]
    operations = 2 * math.prod(selection.image(target)[2:]) * windows.weights.size
    parameters = selection.graph.parameters(packed)
    call_for_images(selection, describe(op), shape, sources, target, parameters, operations)


def _depthwise(
    selection: Selection,
    op: RequantizeOp,
    windows: Windows,
    source: View,
    target: View,
    bias: IntArray,
    output: Output,
) -> None:
    """Where taps are some elements apart, an image of every such element is seen."""
    _, _, row, pixel = selection.image_strides(source)
    apart = windows.dilation[0] * row, windows.dilation[1] * pixel
    strides = windows.strides[0] // windows.dilation[0], windows.strides[1] // windows.dilation[1]
    _sum_windows(selection, op, source, apart, target, windows.weights[:, :, 0], strides, bias, output)


def _sum_windows(
    selection: Selection,
    op: RequantizeOp,
    source: View,
    apart: tuple[int, int],
    target: View,
    weights: Array,
    strides: tuple[int, int],
    bias: IntArray,
    output: Output,
) -> None:
    """Weights (kernel rows, kernel columns, channels); `apart` are bytes between rows and pixels of the source."""
    _, channels, height, width = selection.image(target)
    in_row, in_pixel = apart
    _, _, out_row, out_pixel = selection.image_strides(target)
    rows, columns, _ = weights.shape
    shape = Depthwise(
        rows=height,
        width=width,
        channels=-(-channels // 16) * 16,
        in_row=in_row,
        in_pixel=in_pixel,
        out_row=out_row,
        out_pixel=out_pixel,
        kernel=(rows, columns),
        strides=strides,
        halves=halves_of(selection, weights),
        epilogue=_epilogue(selection, output, weights, bias),
    )
    parameters = selection.graph.parameters(shape.pack(selection.isa, weights, bias, output))
    operations = 2 * height * width * weights.size
    call_for_images(selection, describe(op), shape, [source], target, parameters, operations)


def product_of(selection: Selection, op: Operation, product: DotGeneralOp) -> tuple[View, Array]:
    """Rows of activations (rows, K) and the constant weights i8 that they meet, (K rounded up to 4, channels).

    Raises NoKernel for any other product; `op` is the one that asks.
    """
    dimensions = product.dot_dimension_numbers.data
    weights = selection.constant(product.rhs)
    if weights is None or weights.dtype != np.int8 or weights.ndim != 2 or selection.is_image(product.result):
        raise NoKernel
    if element_dtype(element_of(product.lhs)) != np.int8 or selection.is_image(product.lhs):
        raise NoKernel
    source = selection.fitting(op, product.lhs, 4)
    plain = (
        not dimensions.lhs_batching_dimensions
        and dimensions.lhs_contracting_dimensions == (len(source.shape) - 1,)
        and len(dimensions.rhs_contracting_dimensions) == 1
        and has_even_rows(source)
    )
    if not plain:
        raise NoKernel
    matrix = weights if dimensions.rhs_contracting_dimensions == (0,) else weights.T
    return source, np.pad(matrix, ((0, -len(matrix) % 4), (0, 0)))


def biases_of(bias: Array | None, channels: int) -> IntArray:
    """One bias a channel, 0 where there is none."""
    return np.zeros(channels, np.int64) if bias is None else np.broadcast_to(bias.astype(np.int64), (channels,))


def _product(selection: Selection, op: RequantizeOp, product: DotGeneralOp, bias: Array | None) -> None:
    source, padded = product_of(selection, op, product)
    groups, channels = len(padded) // 4, padded.shape[1]
    output = output_of(selection, op, channels)
    biases = biases_of(bias, channels)
    addition = addition_of(selection, op)
    if addition is not None and not has_even_rows(addition.other):
        addition = None
    target = selection.bytes_for(op, op.result if addition is None else addition.op.result)
    residual = None if addition is None else addition.residual(0, addition.other.strides[-2])
    arithmetic = Integers(halves_of(selection, padded), _epilogue(selection, output, padded, biases), residual)
    shape = over_rows(selection, source, target, groups, channels, arithmetic)
    steps = padded.reshape(groups, 4, channels)
    packed = arithmetic.pack(selection.isa, list(shape.groups_of(selection.isa, channels)), steps, biases, output)
    parameters = selection.graph.parameters(packed)
    reads = [source] if addition is None else [source, addition.other]
    operations = 2 * shape.width * math.prod(shape_of(product.rhs))
    selection.graph.call(describe(op), shape, reads, [target], parameters, operations=operations, elementwise=reads[1:])


@dataclass(frozen=True)
class _Pooled:
    """Windows of an image that are summed: (value - zero) over kernel positions."""

    image: SSAValue
    kernel: tuple[int, int]
    strides: tuple[int, int]
    zero: int


def _pooled(selection: Selection, value: SSAValue) -> _Pooled | None:
    """reduce or reduce_window (sum) of convert(x) - zero over the image dimensions, perhaps reshaped."""
    op = owner_of(value)
    if isinstance(op, ReshapeOp):
        op = owner_of(op.operand)
    if not isinstance(op, ReduceOp | ReduceWindowOp) or len(op.operands) != 2:
        return None
    adds = isinstance(op.body.block.first_op, AddOp)
    centred = owner_of(op.operands[0])
    if not adds or selection.splat(op.operands[1]) != 0 or not isinstance(centred, SubtractOp):
        return None
    converted, zero = owner_of(centred.lhs), selection.splat(centred.rhs)
    if not isinstance(converted, ConvertOp) or zero is None or not selection.is_image(converted.operand):
        return None
    image = converted.operand
    shape = shape_of(image)
    y, x = (2, 3) if selection.channel == 1 else (1, 2)
    if isinstance(op, ReduceOp):
        if array_values(op.dimensions) != (y, x):
            return None
        return _Pooled(image, (shape[y], shape[x]), (1, 1), int(zero))
    sizes = array_values(op.window_dimensions)
    strides = array_values(op.window_strides, (1,) * 4)
    ones = (1,) * 4
    plain = (
        all(sizes[d] == strides[d] == 1 for d in range(4) if d not in (y, x))
        and array_values(op.window_dilations, ones) == array_values(op.base_dilations, ones) == ones
        and not any(side for pair in padding_values(op.padding, 4) for side in pair)
    )
    return _Pooled(image, (sizes[y], sizes[x]), (strides[y], strides[x]), int(zero)) if plain else None


def _pool(selection: Selection, op: RequantizeOp, pooled: _Pooled) -> None:
    """A sum of a window is a depthwise convolution by ones."""
    rows, columns = pooled.kernel
    if rows * columns > LARGEST_WINDOW:
        raise NoKernel
    if element_dtype(element_of(pooled.image)) != np.int8:
        raise NoKernel
    source = selection.fitting(op, pooled.image)
    channels = selection.image(source)[1]
    output = output_of(selection, op, channels)
    target = selection.bytes_for(op, op.result)
    weights = np.ones((rows, columns, channels), np.int8)
    bias = np.full(channels, -rows * columns * pooled.zero, np.int64)
    if len(target.shape) != 4:  # reduced to (N, C)
        n, c = target.shape
        strides = (target.strides[0], 1, 0, 0)
        image = (n, c, 1, 1)
        if selection.channel != 1:
            strides, image = (target.strides[0], 0, 0, 1), (n, 1, 1, c)
        target = View(target.buffer, target.offset, image, strides, target.dtype)
    apart = selection.image_strides(source)[2:]
    _sum_windows(selection, op, source, apart, target, weights, pooled.strides, bias, output)
