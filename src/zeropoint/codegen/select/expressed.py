"""Sums of products that floats read: `uniform_dequantize(add(convolution | dot_general, bias))` as one kernel.

Backwards to the contraction as for a requantize, forwards over what joins a contraction of floats.
"""

from __future__ import annotations

import math

import numpy as np

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.arithmetic import Expressed, Floats, Residual
from zeropoint.codegen.select.contraction import (
    accumulation_of,
    biases_of,
    halves_of,
    padded_weights,
    product_of,
)
from zeropoint.codegen.select.floats import Tail, lined, without_residual
from zeropoint.codegen.select.geometry import call_for_images, over_images, over_rows
from zeropoint.codegen.select.selection import NoKernel, Selection, owner_of
from zeropoint.codegen.select.windows import Windows
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp, UniformDequantizeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.arrays import FloatArray, IntArray


def select_expressed(selection: Selection, op: UniformDequantizeOp) -> None:
    """A contraction whose accumulators become f32. Raises NoKernel where accumulators are of anything else."""
    cast, type_ = owner_of(op.operand), element_of(op.operand)
    if not isinstance(cast, StorageCastOp) or not isinstance(type_, UniformQuantizedType) or type_.zero_points.any():
        raise NoKernel
    if element_dtype(element_of(op.result)) != np.float32:
        raise NoKernel
    accumulation = accumulation_of(selection, cast.input)
    contraction = owner_of(accumulation.source)
    channels = _channels(selection, op, type_)
    scales = np.broadcast_to(type_.scales, (channels,))
    biases = biases_of(accumulation.bias, channels)
    if isinstance(contraction, DotGeneralOp):
        return _product(selection, op, contraction, biases, scales)
    if isinstance(contraction, ConvolutionOp):
        return _convolution(selection, op, contraction, biases, scales)
    raise NoKernel


def _channels(selection: Selection, op: UniformDequantizeOp, type_: UniformQuantizedType) -> int:
    shape = shape_of(op.result)
    axis = selection.channel if selection.is_image(op.result) else len(shape) - 1
    if axis is None or (type_.is_per_channel and type_.axis != axis):
        raise NoKernel
    return shape[axis]


def _arithmetic(selection: Selection, weights: Array, tail: Tail, row: int, pixel: int) -> Expressed:
    if tail.bias is not None:
        raise NoKernel
    residual = None if tail.other is None else Residual(row, pixel, first=False, parameters=None)
    return Expressed(halves_of(selection, weights), Floats(tail.bounds, tail.bounds_last, residual))


def _product(
    selection: Selection, op: UniformDequantizeOp, product: DotGeneralOp, biases: IntArray, scales: FloatArray
) -> None:
    source, weights = product_of(selection, op, product)
    tail = Tail.of(selection, op.result)
    other = None if tail.other is None else lined(selection, op, tail.other)
    arithmetic = _arithmetic(selection, weights, tail, 0, 0 if other is None else other.strides[-2])
    target = selection.floats_for(op, tail.result)
    groups, channels = len(weights) // 4, weights.shape[1]
    shape = over_rows(selection, source, target, groups, channels, arithmetic)
    steps = weights.reshape(groups, 4, channels)
    packed = arithmetic.pack(selection.isa, list(shape.groups_of(selection.isa, channels)), steps, biases, scales)
    reads = [source] if other is None else [source, other]
    operations = 2 * shape.width * math.prod(shape_of(product.rhs))
    parameters = selection.graph.parameters(packed)
    selection.graph.call(describe(op), shape, reads, [target], parameters, operations=operations, elementwise=reads[1:])


def _convolution(
    selection: Selection,
    op: UniformDequantizeOp,
    convolution: ConvolutionOp,
    biases: IntArray,
    scales: FloatArray,
) -> None:
    windows = Windows.of(selection, convolution)
    pieces = windows.pieces()
    if element_dtype(element_of(windows.input.source)) != np.int8 or windows.depthwise:
        raise NoKernel
    source = selection.surrounded(op, selection.fitting(op, windows.input.source, 4), windows.padding)
    tail = Tail.of(selection, op.result) if len(pieces) == 1 else without_residual(selection, op.result)
    other = None if tail.other is None else lined(selection, op, tail.other)
    target = selection.floats_for(op, tail.result)
    for piece in pieces:
        here, there = piece.source(selection, source), piece.target(selection, target)
        added = biases + piece.beside(piece.windows.weights)
        _dense(selection, op, piece.windows, (here, other, there), tail, added, scales)


def _dense(
    selection: Selection,
    op: UniformDequantizeOp,
    windows: Windows,
    views: tuple[View, View | None, View],
    tail: Tail,
    biases: IntArray,
    scales: FloatArray,
) -> None:
    source, other, target = views
    weights = padded_weights(windows)
    channels = weights.shape[3]
    strides = (0, 0) if other is None else selection.image_strides(other)[2:]
    arithmetic = _arithmetic(selection, weights, tail, *strides)
    shape = over_images(selection, windows, source, target, weights.shape[2] // 4, arithmetic)
    steps = weights.reshape(-1, 4, channels)
    packed = arithmetic.pack(selection.isa, list(shape.groups_of(selection.isa, channels)), steps, biases, scales)
    sources = [source] if other is None else [source, other]
    operations = 2 * math.prod(selection.image(target)[2:]) * windows.weights.size
    parameters = selection.graph.parameters(packed)
    call_for_images(selection, describe(op), shape, sources, target, parameters, operations)
