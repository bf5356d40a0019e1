"""Pools as MAX_POOL_2D and AVERAGE_POOL_2D. The latter divides by the number of elements without padding.

Padding that counts is added before the pool. Other padding is SAME; where it is not, the windows at every position are
averaged with padding SAME, and a STRIDED_SLICE selects those of the model. Where a window has more padding than SAME
has, windows of one size are averaged together, without padding, and a CONCATENATION joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zeropoint.export.averages import counted_padding_of
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.contractions import padded
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.maxima import maxima
from zeropoint.export.litert.padding import sliced
from zeropoint.export.litert.volume_means import volume_means
from zeropoint.export.windows import (
    ExportedWindow,
    WindowRun,
    image_padding,
    is_image_window,
    is_volume_window,
    pool_window,
)
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.tensors import shape_of


def pool(op_name: str) -> Callable[[ExportKernel, LitertEmission], None]:
    """The converter of maxima or averages over windows."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        if (other := _by_places(op_name, kernel)) is not None:
            other(kernel, emit)
            return
        source, window = emit.operand(kernel.region.inputs[0], kernel.specs[0]), pool_window(kernel)
        shape = shape_of(kernel.first(ReduceWindowOp).inputs[0])
        image = (shape[0], *window.size, shape[-1])
        if image != shape:
            source = emit.reshaped(source, image, kernel.specs[0])
        before, least = replace(window, padding=((0, 0), (0, 0))), None
        if op_name == "AVERAGE_POOL_2D":
            before = replace(window, padding=image_padding(counted_padding_of(kernel)))
        elif window.scheme is None:
            before, least = window, kernel.output_spec
        if any(map(any, before.padding)):
            source, _ = padded(kernel, emit, source, before, image, least_of=least)
            window = window.after(before)
        batch, *kept, channels = kernel.output_shape
        result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
        last = result if len(kept) == len(window.size) else _temporary(kernel, emit, (batch, 1, *kept, channels))
        every = window.at_every_position
        if window.scheme is not None:
            _pool(op_name, emit, source, last, window)
        elif _has(every, window):
            made = _temporary(kernel, emit, (batch, *every.positions, channels))
            _pool(op_name, emit, source, made, every)
            _select(kernel, emit, made, last, window, every)
        else:
            _by_runs(kernel, emit, source, last, window)
        if last != result:
            emit.reshape(last, result)

    return convert


def _by_places(op_name: str, kernel: ExportKernel) -> Callable[[ExportKernel, LitertEmission], None] | None:
    """The converter of a pool whose window is not over an image; None if it is."""
    op = kernel.first(ReduceWindowOp)
    if op_name == "MAX_POOL_2D":
        return None if is_image_window(op) else maxima
    return volume_means if is_volume_window(op) else None


def _temporary(kernel: ExportKernel, emit: LitertEmission, shape: tuple[int, ...]) -> int:
    return emit.temporary(emit.name(kernel.region.outputs[0]), shape, kernel.output_spec)


def _pool(op_name: str, emit: LitertEmission, source: int, result: int, window: ExportedWindow) -> None:
    fields = {
        "padding": window.scheme, "strideH": window.strides[0], "strideW": window.strides[1],
        "filterHeight": window.kernel[0], "filterWidth": window.kernel[1], "fusedActivationFunction": 0,
    }  # fmt: skip
    emit.operator(op_name, [source], [result], ("Pool2DOptions", fields), 2)


def _has(every: ExportedWindow, window: ExportedWindow) -> bool:
    """Whether the windows at every position include those of the model."""
    pairs = zip(every.padding, window.padding, strict=True)
    return all(own[0] <= each[0] and own[1] <= each[1] for each, own in pairs)


def _select(
    kernel: ExportKernel, emit: LitertEmission, source: int, result: int, window: ExportedWindow, every: ExportedWindow
) -> None:
    """A STRIDED_SLICE of the windows at every position."""
    batch, channels = kernel.output_shape[0], kernel.output_shape[-1]
    pairs = zip(every.padding, window.padding, strict=True)
    begin = [0, *(each[0] - own[0] for each, own in pairs), 0]
    counts = zip(begin[1:-1], window.positions, window.strides, strict=True)
    end = [batch, *(first + (count - 1) * stride + 1 for first, count, stride in counts), channels]
    parts = [emit.integers(part, "slice") for part in (begin, end, [1, *window.strides, 1])]
    emit.operator("STRIDED_SLICE", [source, *parts], [result], ("StridedSliceOptions", {}), 4)


def _by_runs(kernel: ExportKernel, emit: LitertEmission, source: int, result: int, window: ExportedWindow) -> None:
    """Averages of the windows of each size. Raises ExportError if a window is all padding."""
    runs = [window.runs(axis) for axis in (0, 1)]
    if any(run.length <= 0 for along in runs for run in along):
        raise ExportError(
            f"found a window {window.kernel} that is all padding, expected an element of the image in every window",
            kernel.region,
        )
    rows = [
        _joined(kernel, emit, [_averaged(kernel, emit, source, row, column) for column in runs[1]], 2)
        for row in runs[0]
    ]
    _joined(kernel, emit, rows, 1, result)


def _averaged(kernel: ExportKernel, emit: LitertEmission, source: int, row: WindowRun, column: WindowRun) -> int:
    """The averages of windows of one size."""
    batch, channels = kernel.output_shape[0], kernel.output_shape[-1]
    begin, end = [0, row.begin, column.begin, 0], [batch, row.end, column.end, channels]
    part = sliced(emit, source, begin, end, kernel.output_spec)
    size = (row.end - row.begin, column.end - column.begin)
    plain = ExportedWindow(size, (row.length, column.length), (row.stride, column.stride), (1, 1), ((0, 0), (0, 0)))
    made = _temporary(kernel, emit, (batch, row.count, column.count, channels))
    _pool("AVERAGE_POOL_2D", emit, part, made, plain)
    return made


def _joined(kernel: ExportKernel, emit: LitertEmission, parts: list[int], axis: int, result: int | None = None) -> int:
    """The CONCATENATION of tensors along a dimension."""
    if result is None and len(parts) == 1:
        return parts[0]
    if result is None:
        shape = [int(size) for size in emit.builder.tensors[parts[0]].shape]
        shape[axis] = sum(emit.builder.tensors[part].shape[axis] for part in parts)
        result = _temporary(kernel, emit, tuple(shape))
    emit.operator("CONCATENATION", parts, [result], ("ConcatenationOptions", {"axis": axis}), 2)
    return result
