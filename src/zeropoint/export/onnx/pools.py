"""Pools as MaxPool and AveragePool, whose windows span the dimensions after batch and channels.

An image with channels last, as those of JAX, is transposed around its pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from zeropoint.export.averages import counted_padding_of
from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values


def image_order(op: ReduceWindowOp) -> list[int]:
    """The dimensions of a pool's operand, with those that the window spans behind two or more others."""
    sizes = array_values(op.window_dimensions)
    rank = len(sizes)
    strides, pairs = array_values(op.window_strides, (1,) * rank), padding_values(op.padding, rank)
    spanned = [axis for axis in range(rank) if (sizes[axis], strides[axis]) != (1, 1) or any(pairs[axis])]
    others = [axis for axis in range(rank) if axis not in spanned]
    return list(range(rank)) if others[:2] == [0, 1] else [*others, *spanned]


def window_attributes(op: ReduceWindowOp, place: Operation, order: Sequence[int]) -> dict[str, Sequence[int]]:
    """The attributes of a pool of the operand's dimensions in an order. Raises ExportError for a window over the batch
    or the channels."""
    rank = len(order)
    sizes, strides, dilations = (
        tuple(array_values(numbers, (1,) * rank)[axis] for axis in order)
        for numbers in (op.window_dimensions, op.window_strides, op.window_dilations)
    )
    pairs = [padding_values(op.padding, rank)[axis] for axis in order]
    spread = any(step != 1 for step in array_values(op.base_dilations))
    if rank < 3 or sizes[:2] != (1, 1) or any(map(any, pairs[:2])) or spread or strides[:2] != (1, 1):
        raise ExportError(
            f"found a window {list(sizes)}, expected one over the dimensions after batch and channels", place
        )
    return {
        "kernel_shape": sizes[2:],
        "strides": strides[2:],
        "dilations": dilations[2:],
        "pads": _pads(pairs[2:]),
    }


def max_pool(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """MaxPool."""
    op = kernel.first(ReduceWindowOp)
    order = image_order(op)
    attributes = window_attributes(op, kernel.region, order)
    _put_pool(kernel, emit, "MaxPool", _image(kernel, emit, order), order, attributes)


def _image(kernel: ExportKernel, emit: OnnxEmission, order: Sequence[int]) -> Tensor:
    source = emit.operand(kernel.region.inputs[0], kernel.specs[0])
    return emit.transposed(source, order, emit.name(kernel.region.outputs[0]))


def _put_pool(
    kernel: ExportKernel,
    emit: OnnxEmission,
    op_name: str,
    source: Tensor,
    order: Sequence[int],
    attributes: Mapping[str, int | Sequence[int]],
) -> None:
    """A pool of dimensions in an order, and the transpose of its result to the order of the kernel."""
    name, shape = emit.name(kernel.region.outputs[0]), [kernel.output_shape[axis] for axis in order]
    made = emit.apply(op_name, [source], kernel.output_spec, shape, name, attributes)
    emit.put(kernel.region.outputs[0], emit.transposed(made, [int(axis) for axis in np.argsort(order)], name))


def average_pool(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """AveragePool. The divisor may include all of the padding, a part of it, or none.

    Padding that counts is concatenated if other padding does not, and for OpenVINO. Integer kernels of onnxruntime
    count what `ceil_mode` adds. OpenVINO's pad stored integers with 0 instead of the zero point.
    """
    op, name = kernel.first(ReduceWindowOp), emit.name(kernel.region.outputs[0])
    order = image_order(op)
    source = _image(kernel, emit, order)
    attributes: dict[str, int | Sequence[int]] = dict(window_attributes(op, kernel.region, order))
    padding, counted = (
        [pairs[axis] for axis in order]
        for pairs in (padding_values(op.padding, len(order)), counted_padding_of(kernel))
    )
    if counted == padding and not emit.for_openvino:
        more = {"count_include_pad": 1} if any(map(any, padding)) else {}
    else:
        more = {"pads": _pads(np.subtract(padding, counted).tolist()[2:])}
        source = emit.padded(source, counted, name)
    if all(step == 1 for step in array_values(op.window_dilations)):
        del attributes["dilations"]  # AveragePool has `dilations` only since opset 19
    else:
        emit.builder.needs(19)
    _put_pool(kernel, emit, "AveragePool", source, order, {**attributes, **more})


def _pads(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [low for low, _ in pairs] + [high for _, high in pairs]
