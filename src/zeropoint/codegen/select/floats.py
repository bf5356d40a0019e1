"""Contractions of floats: a convolution or a product with constant weights, its bias, bounds and residual addition.

From the contraction forwards: what follows joins as long as nothing else uses the value before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.arithmetic import Floats, Residual
from zeropoint.codegen.kernels.depthwise_floats import FloatDepthwise
from zeropoint.codegen.select.copies import copy
from zeropoint.codegen.select.geometry import call_for_images, has_even_rows, over_images, over_rows
from zeropoint.codegen.select.selection import NoKernel, Selection, owner_of
from zeropoint.codegen.select.windows import Windows
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ClampOp, ConvolutionOp, DotGeneralOp, MaximumOp, MinimumOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

LINE = 64
"""Bytes that rows and pixels of floats are a multiple of, as kernels write whole vectors."""


@dataclass(frozen=True)
class Tail:
    """What follows a contraction: `result` is the last value of it, `other` what is added."""

    result: SSAValue
    bias: Array | None = None
    bounds: tuple[float, float] | None = None
    bounds_last: bool = False
    other: SSAValue | None = None

    def longer(self, selection: Selection) -> Tail | None:
        """The tail with the op that follows; None where that stays by itself."""
        uses = list(self.result.uses)
        op = uses[0].operation if len(uses) == 1 else None
        if isinstance(op, AddOp):
            return self._added(selection, op, op.operands[1 - uses[0].index])
        if self.bounds is not None:
            return None
        bounds = _bounds(selection, op, uses[0].index) if op is not None else None
        if op is None or bounds is None:
            return None
        return replace(self, result=op.results[0], bounds=bounds, bounds_last=self.other is not None)

    def _added(self, selection: Selection, op: AddOp, other: SSAValue) -> Tail | None:
        bias = _bias(selection, other)
        if bias is not None and self.bias is None and self.bounds is None and self.other is None:
            return replace(self, result=op.result, bias=bias)
        if self.other is None and selection.has(other) and selection.constant(other) is None:
            return replace(self, result=op.result, other=other)
        return None

    @staticmethod
    def of(selection: Selection, value: SSAValue) -> Tail:
        """The longest tail of a value."""
        tail = Tail(value)
        while (longer := tail.longer(selection)) is not None:
            tail = longer
        return tail


def _bias(selection: Selection, value: SSAValue) -> Array | None:
    """One value a channel, broadcast."""
    op = owner_of(value)
    axis = selection.channel if selection.is_image(value) else len(shape_of(value)) - 1
    if isinstance(op, BroadcastInDimOp) and array_values(op.broadcast_dimensions) == (axis,):
        return selection.constant(op.operand)
    return None


def _bounds(selection: Selection, op: Operation, index: int) -> tuple[float, float] | None:
    """The numbers between which an op puts its operand `index`."""
    if isinstance(op, ClampOp) and index == 1:
        low, high = selection.splat(op.min), selection.splat(op.max)
        return None if low is None or high is None else (low, high)
    if isinstance(op, MaximumOp | MinimumOp):
        bound = selection.splat(op.operands[1 - index])
        if bound is not None:
            return (bound, math.inf) if isinstance(op, MaximumOp) else (-math.inf, bound)
    return None


def _is_f32(*values: SSAValue) -> bool:
    return all(element_dtype(element_of(value)) == np.float32 for value in values)


def _arithmetic(tail: Tail, row: int, pixel: int) -> Floats:
    """The arithmetic of a contraction with this tail; strides of the residual operand in bytes."""
    residual = None if tail.other is None else Residual(row, pixel, first=False, parameters=None)
    return Floats(tail.bounds, tail.bounds_last, residual)


def _biases(tail: Tail, channels: int) -> Array:
    return np.zeros(channels, np.float32) if tail.bias is None else np.broadcast_to(tail.bias, (channels,))


def lined(selection: Selection, op: Operation, value: SSAValue) -> View:
    """A value in whole lines: copied where it lies otherwise."""
    view = selection.view(value)
    inner = selection.channel if selection.is_image(value) else len(view.shape) - 1
    assert inner is not None
    outer = [step for d, step in enumerate(view.strides) if d != inner and view.shape[d] > 1]
    whole = not any(step % LINE for step in (*outer, view.offset, view.buffer.size))
    if whole and view.strides[inner] == view.itemsize and (selection.is_image(value) or has_even_rows(view)):
        return view
    made = selection.lines(view.shape, view.dtype)
    copy(selection.graph, op, view, made)
    return made


def select_float_convolution(selection: Selection, op: ConvolutionOp) -> None:
    """A convolution of f32 images by constant weights. Raises NoKernel for any other."""
    if not _is_f32(op.lhs, op.rhs, op.result) or not selection.is_image(op.result):
        raise NoKernel
    windows = Windows.of(selection, op)
    pieces = windows.pieces()
    tail = Tail.of(selection, op.result)
    if windows.depthwise or len(pieces) > 1:
        tail = without_residual(selection, op.result)
    other = None if tail.other is None else lined(selection, op, tail.other)
    source = selection.view(windows.input.source)
    if windows.depthwise or selection.image_strides(source)[1] != source.itemsize:
        source = lined(selection, op, windows.input.source)
    source = selection.surrounded(op, source, windows.padding)
    target = selection.floats_for(op, tail.result)
    for piece in pieces:
        here, there = piece.source(selection, source), piece.target(selection, target)
        if windows.depthwise:
            _depthwise(selection, op, piece.windows, here, there, tail)
        else:
            _dense(selection, op, piece.windows, here, there, tail, other)


def _dense(
    selection: Selection,
    op: ConvolutionOp,
    windows: Windows,
    source: View,
    target: View,
    tail: Tail,
    other: View | None,
) -> None:
    weights = windows.dense()
    rows, columns, inputs, channels = weights.shape
    strides = (0, 0) if other is None else selection.image_strides(other)[2:]
    arithmetic = _arithmetic(tail, *strides)
    shape = over_images(selection, windows, source, target, inputs, arithmetic)
    groups = list(shape.groups_of(selection.isa, channels))
    steps = weights.reshape(rows * columns * inputs, channels)
    parameters = selection.graph.parameters(arithmetic.pack(selection.isa, groups, steps, _biases(tail, channels)))
    sources = [source] if other is None else [source, other]
    operations = 2 * math.prod(selection.image(target)[2:]) * windows.weights.size
    call_for_images(selection, describe(op), shape, sources, target, parameters, operations)


def without_residual(selection: Selection, value: SSAValue) -> Tail:
    """The longest tail that adds no other value."""
    tail = Tail(value)
    while (longer := tail.longer(selection)) is not None and longer.other is None:
        tail = longer
    return tail


def _depthwise(
    selection: Selection, op: ConvolutionOp, windows: Windows, source: View, target: View, tail: Tail
) -> None:
    """Where taps are some elements apart, an image of every such element is seen."""
    weights = windows.weights[:, :, 0]
    _, channels, height, width = selection.image(target)
    _, _, row, pixel = selection.image_strides(source)
    in_row, in_pixel = windows.dilation[0] * row, windows.dilation[1] * pixel
    _, _, out_row, out_pixel = selection.image_strides(target)
    shape = FloatDepthwise(
        rows=height,
        width=width,
        channels=-(-channels // 16) * 16,
        in_row=in_row,
        in_pixel=in_pixel,
        tap_row=in_row,
        tap_pixel=in_pixel,
        out_row=out_row,
        out_pixel=out_pixel,
        kernel=(weights.shape[0], weights.shape[1]),
        strides=(windows.strides[0] // windows.dilation[0], windows.strides[1] // windows.dilation[1]),
        arithmetic=_arithmetic(tail, 0, 0),
    )
    parameters = selection.graph.parameters(shape.pack(selection.isa, weights, _biases(tail, channels)))
    operations = 2 * height * width * weights.size
    call_for_images(selection, describe(op), shape, [source], target, parameters, operations)


def select_float_product(selection: Selection, op: DotGeneralOp) -> None:
    """Rows of f32 times a constant matrix. Raises NoKernel for any other product."""
    if not _is_f32(op.lhs, op.rhs, op.result):
        raise NoKernel
    dimensions = op.dot_dimension_numbers.data
    weights = selection.constant(op.rhs)
    rank = len(shape_of(op.lhs))
    plain = (
        weights is not None
        and weights.ndim == 2
        and not dimensions.lhs_batching_dimensions
        and dimensions.lhs_contracting_dimensions == (rank - 1,)
        and len(dimensions.rhs_contracting_dimensions) == 1
        and rank > 1
        and not selection.is_image(op.lhs)
        and not selection.is_image(op.result)
    )
    if weights is None or not plain:
        raise NoKernel
    matrix = weights if dimensions.rhs_contracting_dimensions == (0,) else weights.T
    tail = Tail.of(selection, op.result)
    source = lined(selection, op, op.lhs)
    other = None if tail.other is None else lined(selection, op, tail.other)
    target = selection.floats_for(op, tail.result)
    inputs, channels = matrix.shape
    arithmetic = _arithmetic(tail, 0, 0 if other is None else other.strides[-2])
    shape = over_rows(selection, source, target, inputs, channels, arithmetic)
    groups = list(shape.groups_of(selection.isa, channels))
    packed = arithmetic.pack(selection.isa, groups, np.ascontiguousarray(matrix), _biases(tail, channels))
    reads = [source] if other is None else [source, other]
    parameters = selection.graph.parameters(packed)
    operations = 2 * shape.width * matrix.size
    added = [] if shape.is_blocked(selection.isa) else reads[1:]
    selection.graph.call(describe(op), shape, reads, [target], parameters, operations=operations, elementwise=added)
