"""Sums over dimensions or windows, as convolutions with weights of 1.

The reference kernel of SUM in LiteRT 2.3.0 is wrong for 8 bits. CONV_2D and DEPTHWISE_CONV_2D with weights of 1 compute
what SUM should: they sum the integers and requantize the sum by s_in / s_out, with two roundings.
"""

from __future__ import annotations

from math import prod

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.contractions import padded
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.windows import VALID, ExportedWindow
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import shape_of

ONE = UniformQuantizedType.per_layer(Storage.of("i8", -127), 1.0)
"""The type of the weights. Its scale is 1, so that the real number 1 is stored as 1."""


def sum_(kernel: ExportKernel, emit: LitertEmission) -> None:
    """The converter of a sum over dimensions or windows."""
    if any(isinstance(op, ReduceWindowOp) for op in kernel.ops):
        window_sum(kernel, emit)
    elif kernel.is_quantized:
        dimension_sum(kernel, emit)
    else:
        reduction(kernel, emit, "SUM", 2)


def reduction(kernel: ExportKernel, emit: LitertEmission, op_name: str, version: int) -> None:
    """SUM, MEAN, REDUCE_MAX or REDUCE_MIN over constant axes. A RESHAPE follows if the result has ones elsewhere."""
    op, wanted = kernel.first(ReduceOp), kernel.output_shape
    shape, axes = shape_of(op.inputs[0]), array_values(op.dimensions)
    left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    kept = wanted == tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    plain = kept or wanted == left
    made = result if plain else emit.temporary(emit.name(kernel.region.outputs[0]), left, kernel.output_spec)
    inputs = [emit.operand(kernel.region.inputs[0], kernel.specs[0]), emit.integers(axes, "axes")]
    emit.operator(op_name, inputs, [made], ("ReducerOptions", {"keepDims": kept and wanted != left}), version)
    if not plain:
        emit.reshape(made, result)


def dimension_sum(kernel: ExportKernel, emit: LitertEmission) -> None:
    """TRANSPOSE the summed dimensions to the end, CONV_2D with a window of ones over them, RESHAPE."""
    op = kernel.first(ReduceOp)
    shape, summed = shape_of(op.inputs[0]), array_values(op.dimensions)
    kept = [axis for axis in range(len(shape)) if axis not in summed]
    order = [*kept, *summed]
    source, kind = emit.operand(kernel.region.inputs[0], kernel.specs[0]), kernel.specs[0]
    name = emit.name(kernel.region.outputs[0])
    source = emit.transposed(source, order, kind)
    rows, terms = prod(shape[axis] for axis in kept), prod(shape[axis] for axis in summed)
    source = emit.reshaped(source, (rows, 1, 1, terms), kind)
    inputs = [source, _ones((1, 1, 1, terms), emit), emit.zeros(1, kind, ONE)]
    sums = emit.temporary(name, (rows, 1, 1, 1), kernel.output_spec)
    options = ("Conv2DOptions", {"padding": VALID, "strideH": 1, "strideW": 1})
    emit.operator("CONV_2D", inputs, [sums], options, 3)
    emit.reshape(sums, emit.declare(kernel.region.outputs[0], kernel.output_spec))


def window_sum(kernel: ExportKernel, emit: LitertEmission) -> None:
    """DEPTHWISE_CONV_2D with windows of ones."""
    op = kernel.first(ReduceWindowOp)
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    rank = len(shape)
    if rank not in (3, 4) or sizes[0] != 1 or sizes[-1] != 1 or not kernel.is_quantized:
        raise ExportError(
            f"found sums over windows {list(sizes)}, expected quantized ones over the dimensions before the channels",
            kernel.region,
        )
    between = [(1,) * rank] * (4 - rank)
    strides, dilations = (array_values(a, (1,) * rank) for a in (op.window_strides, op.window_dilations))
    pairs = padding_values(op.padding, rank)
    if between:
        shape, sizes, strides, dilations = ((a[0], 1, *a[1:]) for a in (shape, sizes, strides, dilations))
        pairs = (pairs[0], (0, 0), *pairs[1:])
    window = ExportedWindow(shape[1:3], sizes[1:3], strides[1:3], dilations[1:3], (pairs[1], pairs[2]))  # pyright: ignore[reportArgumentType] (slices of two)
    kind, name = kernel.specs[0], emit.name(kernel.region.outputs[0])
    source = emit.operand(kernel.region.inputs[0], kind)
    source = emit.reshaped(source, shape, kind) if between else source
    scheme = window.scheme
    if scheme is None:
        source, scheme = padded(kernel, emit, source, window, shape)
    weights = _ones((1, *sizes[1:3], shape[3]), emit)
    fields = {"padding": scheme, **window.strides_and_dilations, "depthMultiplier": 1, "fusedActivationFunction": 0}
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec)
    batch, *image, channels = kernel.output_shape
    made = emit.temporary(name, (batch, 1, *image, channels), kernel.output_spec) if between else result
    inputs = [source, weights, emit.zeros(channels, kind, ONE)]
    emit.operator("DEPTHWISE_CONV_2D", inputs, [made], ("DepthwiseConv2DOptions", fields), 3)
    if between:
        emit.reshape(made, result)


def _ones(shape: tuple[int, ...], emit: LitertEmission) -> int:
    return emit.builder.part("weights", np.ones(shape, np.int8), ONE)
