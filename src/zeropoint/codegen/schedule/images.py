"""Schedules quantize and dequantize between the caller's float planes and stored pixels.

Views that do not fit the kernels become a loop nest.
"""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.planes import DequantizePlanes, Planes, QuantizePlanes
from zeropoint.codegen.kernels.quantize import Dequantize
from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.elementwise import quantize_by
from zeropoint.codegen.schedule.nest import schedule_nest
from zeropoint.ir.annotations import profile_of
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of

BLOCK = 64
"""The minimum number of pixels of a row if an image is split into rows that threads share."""


def schedule_quantize(body: Body) -> None:
    """Append the step of a `uniform_quantize` of an image."""
    op, (source,), (target,) = body.root, body.inputs, body.outputs
    type_ = element_of(op.results[0])
    assert isinstance(op, UniformQuantizeOp) and isinstance(type_, UniformQuantizedType)
    found = None
    if body.values.is_image(op.result) and body.values.image_strides(source)[3] == 4:
        found = _planes(body, source, target, narrow=True)
    if found is None:
        return schedule_nest(body)
    by, _ = quantize_by(type_, profile_of(op, body.values.program.profile).quantize, np.dtype(np.float32))
    return body.graph.call(body.name, QuantizePlanes(found, by), [source], [target])


def schedule_dequantize(body: Body) -> None:
    """Append the step of a `uniform_dequantize` to floats of the caller."""
    op, (source,), (target,) = body.root, body.inputs, body.outputs
    assert isinstance(op, UniformDequantizeOp)
    type_, found = element_of(op.operand), None
    assert isinstance(type_, UniformQuantizedType)
    if source.activations and body.values.is_image(op.operand) and body.values.image_strides(target)[3] == 4:
        found = _planes(body, target, source)
    if found is None:
        return schedule_nest(body)
    kernel = DequantizePlanes(found, Dequantize(type_.scale, type_.zero_point))
    return body.graph.call(body.name, kernel, [source], [target])


def _planes(body: Body, reals: View, bytes_: View, *, narrow: bool = False) -> Planes | None:
    """The layout of an image as f32 planes and as pixels of 8-bit integers; None if a view does not fit.

    `narrow` allows pixels of 4 bytes.
    """
    images, channels, rows, width = body.values.image(bytes_)
    real_image, plane, real_row, _ = body.values.image_strides(reals)
    byte_image, byte, byte_row, pitch = body.values.image_strides(bytes_)
    # The kernels read and write whole vectors of a pixel's channels.
    if (byte != 1 and channels > 1) or (pitch % 16 and not (narrow and pitch == 4)):
        return None
    if real_row == 4 * width and byte_row == pitch * width:  # without gaps between rows, any split is possible
        pixels, tile = rows * width, body.isa.width
        # Threads share the work by rows, so use as many rows of whole vectors as possible.
        rows = next((n for n in range(pixels // BLOCK, 1, -1) if pixels % (n * tile) == 0), 1)
        width = pixels // rows
        real_row, byte_row = 4 * width, pitch * width
    if width < body.isa.width:
        return None
    return Planes(images, rows, width, channels, real_image, plane, real_row, byte_image, byte_row, pitch)
