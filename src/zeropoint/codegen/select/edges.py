"""Edges of a program: `uniform_quantize` of the caller's floats, `uniform_dequantize` to them."""

from __future__ import annotations

import math

import numpy as np

from zeropoint.codegen.graph import View, row_major
from zeropoint.codegen.kernels.edges import DequantizeRows, QuantizeImage, QuantizeRows
from zeropoint.codegen.kernels.planes import DequantizePlanes, Planes, QuantizePlanes
from zeropoint.codegen.select.expressed import select_expressed
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.profile import DEFAULT_PROFILE, profile

BLOCK = 64
"""Pixels of a row at least, where an image is cut into rows of our own."""


def select_quantize(selection: Selection, op: UniformQuantizeOp) -> None:
    """Floats of the caller to stored integers."""
    type_ = _one_scale(element_of(op.result))
    if profile(selection.program.profile or DEFAULT_PROFILE).quantize is not QuantizeBehaviour.RNE_AFTER_ZERO_POINT:
        raise NoKernel
    if not selection.has(op.operand):
        raise NoKernel
    source = selection.view(op.operand)
    if source.dtype != np.float32 or type_.storage.dtype != np.int8:
        raise NoKernel
    target = selection.bytes_for(op, op.result, narrow=True)
    parameters = (float(type_.scales[0]), int(type_.zero_points[0]), type_.storage.minimum, type_.storage.maximum)
    if selection.is_image(op.result) and selection.image_strides(source)[3] == 4:
        kernel = _quantize_image(selection, source, target, parameters)
    elif source.dense() and _is_matrix(target):
        kernel = QuantizeRows(*_rows(source.shape), 4 * source.shape[-1], _step(target), *parameters)
    else:
        raise NoKernel
    selection.graph.call(describe(op), kernel, [source], [target])


def _quantize_image(
    selection: Selection, source: View, target: View, parameters: tuple[float, int, int, int]
) -> QuantizeImage | QuantizePlanes:
    images, channels, rows, width = selection.image(target)
    in_image, plane, in_row, _ = selection.image_strides(source)
    out_image, _, out_row, pixel = selection.image_strides(target)
    if pixel == 4:
        return QuantizeImage(images, rows, width, channels, in_image, plane, in_row, out_image, out_row, *parameters)
    return QuantizePlanes(planes(selection, source, target), *parameters)


def select_dequantize(selection: Selection, op: UniformDequantizeOp) -> None:
    """Stored integers to the caller's floats."""
    element = element_of(op.operand)
    if isinstance(element, UniformQuantizedType) and element.storage.type.width == 32:
        return select_expressed(selection, op)
    type_ = _one_scale(element)
    target = selection.output(op.result)
    if target is None or target.dtype != np.float32 or not selection.has(op.operand):
        raise NoKernel
    source = selection.view(op.operand)
    if not source.activations:
        raise NoKernel
    parameters = (float(type_.scales[0]), int(type_.zero_points[0]))
    if _is_matrix(source):
        kernel = DequantizeRows(*_rows(source.shape), _step(source), 4 * source.shape[-1], *parameters)
    elif selection.is_image(op.operand) and selection.image_strides(target)[3] == 4:
        kernel = DequantizePlanes(planes(selection, target, source), *parameters)
    else:
        raise NoKernel
    selection.graph.call(describe(op), kernel, [source], [target])
    selection.bind(op.result, target)


def planes(selection: Selection, reals: View, bytes_: View) -> Planes:
    """How an image lies as planes of f32 and as pixels of bytes. Raises NoKernel for another form of either."""
    images, channels, rows, width = selection.image(bytes_)
    real_image, plane, real_row, _ = selection.image_strides(reals)
    byte_image, byte, byte_row, pitch = selection.image_strides(bytes_)
    if (byte != 1 and channels > 1) or pitch % 16:
        raise NoKernel
    if real_row == 4 * width and byte_row == pitch * width:  # one row, which may be cut anywhere
        pixels = rows * width
        tile = selection.isa.width
        rows = next((n for n in range(pixels // BLOCK, 1, -1) if pixels % (n * tile) == 0), 1)
        width = pixels // rows
        real_row, byte_row = 4 * width, pitch * width
    if width < selection.isa.width:
        raise NoKernel
    return Planes(images, rows, width, channels, real_image, plane, real_row, byte_image, byte_row, pitch)


def _is_matrix(view: View) -> bool:
    """Whether rows of adjacent elements follow each other at one step."""
    if not view.shape or view.strides[-1] != 1:
        return False
    return view.strides[:-1] == row_major(view.shape[:-1], _step(view))


def _step(view: View) -> int:
    """Bytes from a row of a matrix of bytes to the next."""
    return view.strides[-2] if len(view.strides) > 1 else math.prod(view.shape)


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, length of a row)."""
    return math.prod(shape[:-1]), shape[-1]


def _one_scale(quantized: object) -> UniformQuantizedType:
    if not isinstance(quantized, UniformQuantizedType) or len(quantized.scales) != 1:
        raise NoKernel
    return quantized
