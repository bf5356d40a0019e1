"""Pools as MAX_POOL_2D and AVERAGE_POOL_2D. The latter divides by the number of elements without padding.

Padding that counts is added before the pool. Other padding is SAME; where it is not, the windows at every position are
averaged with padding SAME, and a STRIDED_SLICE selects those of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zeropoint.export.averages import counted_padding_of
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.contractions import padded
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.windows import ExportedWindow, image_padding, pool_window
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.tensors import shape_of


def pool(op_name: str) -> Callable[[ExportKernel, LitertEmission], None]:
    """The converter of maxima or averages over windows."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
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
        computed = window if window.scheme is not None else window.at_every_position
        batch, *kept, channels = kernel.output_shape
        result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
        last = result if len(kept) == len(window.size) else _temporary(kernel, emit, (batch, 1, *kept, channels))
        made = last if computed is window else _temporary(kernel, emit, (batch, *computed.positions, channels))
        fields = {
            "padding": computed.scheme, "strideH": computed.strides[0], "strideW": computed.strides[1],
            "filterHeight": window.kernel[0], "filterWidth": window.kernel[1], "fusedActivationFunction": 0,
        }  # fmt: skip
        emit.operator(op_name, [source], [made], ("Pool2DOptions", fields), 2)
        if made != last:
            _select(kernel, emit, made, last, window, computed)
        if last != result:
            emit.reshape(last, result)

    return convert


def _temporary(kernel: ExportKernel, emit: LitertEmission, shape: tuple[int, ...]) -> int:
    return emit.temporary(emit.name(kernel.region.outputs[0]), shape, kernel.output_spec)


def _select(
    kernel: ExportKernel, emit: LitertEmission, source: int, result: int, window: ExportedWindow, every: ExportedWindow
) -> None:
    """A STRIDED_SLICE of the windows at every position. Raises ExportError if some of the model's are not there."""
    pairs = list(zip(every.padding, window.padding, strict=True))
    if any(own[0] > each[0] or own[1] > each[1] for each, own in pairs):
        raise ExportError(
            f"found padding {window.padding} that does not count in means over windows {window.kernel}, expected at "
            "most half a window",
            kernel.region,
        )
    batch, channels = kernel.output_shape[0], kernel.output_shape[-1]
    begin = [0, *(each[0] - own[0] for each, own in pairs), 0]
    counts = zip(begin[1:-1], window.positions, window.strides, strict=True)
    end = [batch, *(first + (count - 1) * stride + 1 for first, count, stride in counts), channels]
    parts = [emit.integers(part, "slice") for part in (begin, end, [1, *window.strides, 1])]
    emit.operator("STRIDED_SLICE", [source, *parts], [result], ("StridedSliceOptions", {}), 4)
