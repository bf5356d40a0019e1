"""Kernels of one op on bytes that lie side by side: forms of a loop nest that are faster than it.

`schedule_*` takes the special form if the views allow it, else the loop nest of the same op.
"""

from __future__ import annotations

import math

import numpy as np

from zeropoint.codegen.graph import View, row_major
from zeropoint.codegen.kernels.gather import GatherRows
from zeropoint.codegen.kernels.planes import DequantizePlanes, Planes, QuantizePlanes
from zeropoint.codegen.kernels.sum import WeightedSum
from zeropoint.codegen.kernels.table import Table
from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.nest import schedule_nest
from zeropoint.ir.fxpmath import TableOp, WeightedSumOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import GatherOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of

BLOCK = 64
"""Pixels of a row at least, where an image is cut into rows of our own."""


def schedule_sum(body: Body) -> None:
    """A weighted sum of bytes."""
    op, (target,) = body.root, body.outputs
    assert isinstance(op, WeightedSumOp)
    sources = [body.view(value) for value in op.inputs]
    found = rows_alike([*sources, target])
    if found is None or not body.values.fits(target):
        return schedule_nest(body)
    rows, length, strides = found
    kernel = WeightedSum(rows, length, tuple(strides[:-1]), strides[-1], op.sum)
    return body.graph.call(body.name, kernel, sources, [target], elementwise=sources)


def schedule_table(body: Body) -> None:
    """A look-up from bytes to bytes."""
    op, (source,), (target,) = body.root, body.inputs, body.outputs
    assert isinstance(op, TableOp)
    found, entries = rows_alike([source, target]), body.values.constant(op.table)
    if found is None or entries is None or not body.values.fits(target):
        return schedule_nest(body)
    rows, length, (in_row, out_row) = found
    kernel = Table(rows, length, in_row, out_row)
    parameters = body.graph.parameters(Table.pack(body.isa, entries.astype(np.int64)))
    return body.graph.call(body.name, kernel, [source], [target], parameters, elementwise=[source])


def schedule_quantize(body: Body) -> None:
    """Floats to stored integers: planes of an image."""
    op, (source,), (target,) = body.root, body.inputs, body.outputs
    type_ = element_of(op.results[0])
    assert isinstance(op, UniformQuantizeOp) and isinstance(type_, UniformQuantizedType)
    found, storage = None, type_.storage
    if body.values.is_image(op.result) and body.values.image_strides(source)[3] == 4:
        found = _planes(body, source, target, narrow=True)
    if found is None:
        return schedule_nest(body)
    numbers = float(type_.scales[0]), int(type_.zero_points[0]), storage.minimum, storage.maximum
    return body.graph.call(body.name, QuantizePlanes(found, *numbers), [source], [target])


def schedule_dequantize(body: Body) -> None:
    """Stored integers to the caller's floats."""
    op, (source,), (target,) = body.root, body.inputs, body.outputs
    assert isinstance(op, UniformDequantizeOp)
    type_, found = element_of(op.operand), None
    assert isinstance(type_, UniformQuantizedType)
    if source.activations and body.values.is_image(op.operand) and body.values.image_strides(target)[3] == 4:
        found = _planes(body, target, source)
    if found is None:
        return schedule_nest(body)
    kernel = DequantizePlanes(found, float(type_.scales[0]), int(type_.zero_points[0]))
    return body.graph.call(body.name, kernel, [source], [target])


def _planes(body: Body, reals: View, bytes_: View, *, narrow: bool = False) -> Planes | None:
    """How an image lies as planes of f32 and as pixels of bytes; None for another form of either.

    `narrow` allows pixels of 4 bytes.
    """
    images, channels, rows, width = body.values.image(bytes_)
    real_image, plane, real_row, _ = body.values.image_strides(reals)
    byte_image, byte, byte_row, pitch = body.values.image_strides(bytes_)
    if (byte != 1 and channels > 1) or (pitch % 16 and not (narrow and pitch == 4)):
        return None
    if real_row == 4 * width and byte_row == pitch * width:  # one row, which may be cut anywhere
        pixels, tile = rows * width, body.isa.width
        rows = next((n for n in range(pixels // BLOCK, 1, -1) if pixels % (n * tile) == 0), 1)
        width = pixels // rows
        real_row, byte_row = 4 * width, pitch * width
    if width < body.isa.width:
        return None
    return Planes(images, rows, width, channels, real_image, plane, real_row, byte_image, byte_row, pitch)


def schedule_gather(body: Body) -> None:
    """Rows of a table by their numbers, side by side."""
    op, (target,) = body.root, body.outputs
    assert isinstance(op, GatherOp)
    table, numbers = body.view(op.operand), body.view(op.start_indices)
    batch = len(target.shape) - len(table.shape) + 1
    plain = (
        numbers.dense()
        and table.strides[1:] == row_major(table.shape[1:], table.itemsize)
        and table.activations == target.activations
        and target.strides[batch:] == row_major(target.shape[batch:], target.itemsize)
        and target.strides[:batch] == row_major(target.shape[:batch], target.strides[batch - 1])
    )
    if not plain:
        return schedule_nest(body)
    count, length = math.prod(target.shape[:batch]), math.prod(table.shape[1:]) * table.itemsize
    index = f"i{8 * numbers.itemsize}"
    kernel = GatherRows(count, length, table.shape[0], table.strides[0], target.strides[batch - 1], index)
    return body.graph.call(body.name, kernel, [table, numbers], [target])


def rows_alike(views: list[View]) -> tuple[int, int, list[int]] | None:
    """(rows, bytes of a row, strides of rows) of views whose elements lie in the same order; padding bytes included."""
    first = views[0]
    order = sorted(range(len(first.shape)), key=lambda d: (-first.strides[d], first.shape[d] == 1))
    inner = [d for d in order if all(view.strides[d] == first.strides[d] for view in views) or first.shape[d] == 1]
    sized = [d for d in order if first.shape[d] > 1]
    if not sized:
        return 1, 16, [16] * len(views)
    length, used = 16, 0
    # From the innermost dimension outwards, as long as all views step alike and leave no gap but the pitch.
    for d in reversed(sized):
        step = first.strides[d]
        pitch = -(-length // 16) * 16 if used else 1
        if d not in inner or (used and step != pitch):
            break
        length = step * first.shape[d]
        used += 1
    length = -(-length // 16) * 16
    outer = sized[: len(sized) - used]
    if len(outer) > 1:
        return None
    rows = first.shape[outer[0]] if outer else 1
    return rows, length, [view.strides[outer[0]] if outer else length for view in views]
