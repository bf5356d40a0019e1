"""Edges, sums and views: ops that are one kernel each, or none."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import Operation

from zeropoint.codegen.graph import View, row_major
from zeropoint.codegen.kernels.edges import DequantizeRows, QuantizeImage, QuantizeRows
from zeropoint.codegen.kernels.sum import SumParameters, WeightedSum
from zeropoint.codegen.select.movement import reshaped
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import PadOp, ReshapeOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.profile import DEFAULT_PROFILE, profile


def select_cast(selection: Selection, op: StorageCastOp) -> None:
    """The same bytes under another type."""
    if not selection.has(op.input):
        raise NoKernel
    selection.bind(op.result, selection.view(op.input))


def select_pad(selection: Selection, op: PadOp) -> None:
    """A larger window of the buffer, where the padding is there already."""
    source = selection.view(op.operand)
    wanted, there = selection.padding(op), source.halo
    if wanted is None or there is None or there.value != wanted.value or any(
        w > t for w, t in zip(wanted.sides, there.sides, strict=True)
    ):  # fmt: skip
        raise NoKernel
    _, _, row, pixel = selection.image_strides(source)
    offset = source.offset - wanted.top * row - wanted.left * pixel
    low = array_values(op.edge_padding_low)
    high = array_values(op.edge_padding_high)
    shape = tuple(size + a + b for size, a, b in zip(source.shape, low, high, strict=True))
    selection.bind(op.result, View(source.buffer, offset, shape, source.strides, source.dtype))


def select_reshape(selection: Selection, op: ReshapeOp) -> None:
    """Another shape of the same elements: without a copy where those that are more than one stay in place."""
    if not selection.has(op.operand):
        raise NoKernel
    found = reshaped(selection.view(op.operand), shape_of(op.result))
    if found is None:
        raise NoKernel
    selection.bind(op.result, found)


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


def sum_parameters(op: WeightedSumOp) -> SumParameters:
    """The parameters of a weighted sum, in the order of its operands."""
    shift, zero, low, high = (int(a.value.data) for a in (op.shift, op.zero_point, op.storage_min, op.storage_max))
    return SumParameters(array_values(op.multipliers), array_values(op.zero_points), shift, zero, low, high)


def select_sum(selection: Selection, op: WeightedSumOp) -> None:
    """A weighted sum of values that lie alike; nothing where the contraction before it has added already."""
    if selection.has(op.result):
        return
    if any(element_dtype(element_of(value)) != np.int8 for value in (*op.inputs, op.result)):
        raise NoKernel
    sources = [selection.fitting(op, value) for value in op.inputs]
    target = selection.bytes_for(op, op.result)
    found = rows_alike([*sources, target])
    if found is None or not selection.fits(op.result, target):
        raise NoKernel
    rows, length, strides = found
    kernel = WeightedSum(rows, length, tuple(strides[:-1]), strides[-1], sum_parameters(op))
    selection.graph.call(describe(op), kernel, sources, [target], elementwise=sources)


def _is_matrix(view: View) -> bool:
    """Whether rows of adjacent elements follow each other at one step."""
    if not view.shape or view.strides[-1] != 1:
        return False
    step = view.strides[-2] if len(view.shape) > 1 else 0
    return view.strides[:-1] == row_major(view.shape[:-1], step)


def _parameters(op: Operation, quantized: object) -> UniformQuantizedType:
    if not isinstance(quantized, UniformQuantizedType) or len(quantized.scales) != 1:
        raise NoKernel
    return quantized


def select_quantize(selection: Selection, op: UniformQuantizeOp) -> None:
    """Floats of the caller to stored integers."""
    type_ = _parameters(op, element_of(op.result))
    if profile(selection.program.profile or DEFAULT_PROFILE).quantize is not QuantizeBehaviour.RNE_AFTER_ZERO_POINT:
        raise NoKernel
    if not selection.has(op.operand):
        raise NoKernel
    source = selection.view(op.operand)
    if source.dtype != np.float32 or type_.storage.dtype != np.int8:
        raise NoKernel
    target = selection.bytes_for(op, op.result, narrow=True)
    parameters = (float(type_.scales[0]), int(type_.zero_points[0]), type_.storage.minimum, type_.storage.maximum)
    if selection.is_image(op.result) and selection.image_strides(target)[3] == 4:
        images, channels, rows, width = selection.image(target)
        in_image, plane, in_row, in_pixel = selection.image_strides(source)
        if in_pixel == 4:
            out_image, _, out_row, _ = selection.image_strides(target)
            kernel = QuantizeImage(
                images, rows, width, channels, in_image, plane, in_row, out_image, out_row, *parameters
            )
            return selection.graph.call(describe(op), kernel, [source], [target])
    if (
        source.dense()
        and target.strides[-1] == 1
        and target.strides[:-1] == row_major(target.shape[:-1], target.strides[-2] if len(target.shape) > 1 else 1)
    ):
        rows, length = math.prod(source.shape[:-1]), source.shape[-1]
        out_row = target.strides[-2] if len(target.shape) > 1 else length
        return selection.graph.call(
            describe(op), QuantizeRows(rows, length, 4 * length, out_row, *parameters), [source], [target]
        )
    raise NoKernel


def select_dequantize(selection: Selection, op: UniformDequantizeOp) -> None:
    """Stored integers to the caller's floats."""
    type_ = _parameters(op, element_of(op.operand))
    target = selection.output(op.result)
    if target is None or target.dtype != np.float32 or not selection.has(op.operand):
        raise NoKernel
    source = selection.view(op.operand)
    if not _is_matrix(source) or not source.activations:
        raise NoKernel
    rows, length = math.prod(source.shape[:-1]), source.shape[-1]
    in_row = source.strides[-2] if len(source.shape) > 1 else length
    kernel = DequantizeRows(rows, length, in_row, 4 * length, float(type_.scales[0]), int(type_.zero_points[0]))
    selection.graph.call(describe(op), kernel, [source], [target])
    selection.bind(op.result, target)
