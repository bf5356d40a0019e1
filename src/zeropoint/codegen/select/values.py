"""Sums and views: ops that are one kernel each, or none."""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.sum import SumParameters, WeightedSum
from zeropoint.codegen.select.copies import reshaped
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.ir.fxpmath import WeightedSumOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import PadOp, ReshapeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


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
