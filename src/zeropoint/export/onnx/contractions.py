"""Convolutions and matrix products: Conv, ConvTranspose, Gemm, MatMul.

ONNX is channels-first; other layouts are transposed before and after the op. A clamp after the product is omitted if
the storage range of the result enforces it already, for example a relu whose zero point is the storage minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import CLIP, OnnxEmission, Tensor
from zeropoint.export.onnx.graph import Attributes
from zeropoint.export.onnx.kernel_bounds import clamped
from zeropoint.export.onnx.weight_forms import written_type
from zeropoint.export.onnx.wrong_groups import ungrouped
from zeropoint.export.onnx.wrong_padding import is_padded_wrong
from zeropoint.ir.annotations import PINNED, SHARED_BIAS
from zeropoint.ir.constants import exact_array
from zeropoint.ir.contractions import adds_pairs
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.quant.channel_scales import transposed_blocks
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.stablehlo.attributes import ConvolutionLayout
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.materialize.product_chains import is_in_chain

PRODUCT = "/product"
"""The end of the name of a product whose bias is a node of its own."""


def _source(kernel: ExportKernel, emit: OnnxEmission, port: int) -> Tensor:
    return emit.operand(kernel.region.inputs[port], kernel.specs[port])


def _data(kernel: ExportKernel, emit: OnnxEmission, port: int, *, by_layer: bool = False) -> Tensor:
    """The data operand of a product. If the product is float, it is dequantized with a scale per channel.

    Between a `DequantizeLinear` with one scale and a `QuantizeLinear`, onnxruntime's optimizer
    (`WeightBiasQuantization`) quantizes float weights to 8 bits per tensor, and a float bias to the steps of the
    products. It skips products whose data has a scale per channel, even if all scales are equal. `by_layer`: the
    product is a MatMul with stored weights, of which it makes a MatMulIntegerToFloat, which takes one scale only.
    """
    is_safe = emit.for_openvino or kernel.is_quantized or by_layer
    by_channel = None if is_safe else emit.real_by_channel(kernel.region.inputs[port])
    return by_channel or _source(kernel, emit, port)


def _with_axis(kind: UniformQuantizedType, axis: int) -> UniformQuantizedType:
    if not kind.is_per_channel:
        return kind
    return UniformQuantizedType.per_channel(
        kind.storage, axis, kind.scales, kind.zero_points, expressed_type=kind.expressed_type
    )


def _weights(
    kernel: ExportKernel,
    emit: OnnxEmission,
    port: int,
    order: Sequence[int],
    flipped: Sequence[int] = (),
    pairs: Sequence[int] | None = None,
) -> Tensor:
    """A weight with its dimensions reordered, and those in `flipped` reversed. Constants are transposed at export.

    `pairs` lists the written dimensions in the order in which the kernel adds pairs of products (`weight_forms`).
    """
    value, kind = kernel.region.inputs[port], kernel.specs[port]
    quantized = isinstance(kind, UniformQuantizedType)
    named = not isinstance(value.owner, Operation) or emit.name(value) != value.owner.name
    name = emit.name(value) if named else f"{_name(kernel, emit)}/weights"
    array = emit.array(value)
    if array is None:
        if flipped:
            raise ExportError("found computed weights with window reversal, expected constant ones", kernel.region)
        return emit.transposed(_source(kernel, emit, port), order, name)
    kind = kind if quantized else _pinned(value) or kind
    written = np.flip(array.transpose(order), tuple(flipped))
    if isinstance(kind, UniformQuantizedType):
        kind = _turned(kind, order)
        kind = written_type(written, kind, kernel.specs[0], emit.weight_form, pairs) if quantized else kind
    return emit.constant(written, kind, name)


def _pinned(value: SSAValue) -> UniformQuantizedType | None:
    """The storage type pinned for a constant that is used in float. A range that fits 4 bits gets a 4-bit type."""
    kind = value.owner.attributes.get(PINNED) if isinstance(value.owner, Operation) else None
    if not isinstance(kind, UniformQuantizedType):
        return None
    storage, narrow = kind.storage, Storage.of("i4" if kind.storage.type.signed else "u4")
    small = narrow.minimum <= storage.minimum and storage.maximum <= narrow.maximum
    return UniformQuantizedType(replace(kind.data, storage=narrow)) if small else kind


def _turned(kind: UniformQuantizedType, order: Sequence[int]) -> UniformQuantizedType:
    """The type of a tensor whose dimensions are reordered."""
    if kind.blocks is None:
        return kind if kind.axis is None else _with_axis(kind, list(order).index(kind.axis))
    return transposed_blocks(kind, order)


def _name(kernel: ExportKernel, emit: OnnxEmission) -> str:
    """The name of the node that computes the kernel's product. The importer names it after a product of `_as_batch`."""
    for op in kernel.ops:
        if isinstance(op, ConvolutionOp | DotGeneralOp):
            return emit.name(op.results[0], PRODUCT)
    return emit.name(kernel.region.outputs[0])


def _bias(kernel: ExportKernel, emit: OnnxEmission, *, zeros: bool = True) -> Tensor | None:
    """The bias as i32, or f32 for a float product; None if the kernel has none. `zeros`: one of zeros counts."""
    arguments = kernel.region.body.block.args
    ports = {id(argument): index for index, argument in enumerate(arguments)}
    for op in kernel.ops:
        if isinstance(op, BroadcastInDimOp) and id(op.operand) in ports and len(shape_of(op.operand)) == 1:
            port = ports[id(op.operand)]
            name = f"{_name(kernel, emit)}/bias"
            array = emit.array(kernel.region.inputs[port])
            if array is not None and not zeros and not array.any():
                return None
            if array is None:
                return _source(kernel, emit, port)
            exact = exact_array(kernel.region.inputs[port], emit.weights)
            if exact is not None and isinstance(kernel.specs[port], UniformQuantizedType):
                array = exact
            # OpenVINO adds a bias that two convolutions share in another kernel, with what follows it.
            is_shared = not emit.for_openvino or SHARED_BIAS in kernel.region.attributes
            return emit.constant(array, kernel.specs[port], name, shared=is_shared)
    return None


def channels_first(numbers: ConvolutionLayout) -> tuple[list[int], list[int], list[int]]:
    """The permutations that bring input, weights and result to NCHW, OIHW and NCHW."""
    return (
        [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions],
        [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
        [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions],
    )


def convolution(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Conv, or ConvTranspose if the input is dilated."""
    op = kernel.first(ConvolutionOp)
    numbers = op.dimension_numbers.data
    rank = len(numbers.input_spatial_dimensions)
    dilated = any(step != 1 for step in array_values(op.lhs_dilation, (1,) * rank))
    if op.batch_group_count.value.data != 1:
        raise ExportError("found a convolution with batch groups, expected none", kernel.region)
    orders = channels_first(numbers)
    reversal = array_values(op.window_reversal, (False,) * rank)
    flipped = [2 + axis for axis, turned in enumerate(reversal) if turned]
    name, data = _name(kernel, emit), kernel.port(op.lhs)
    shape = [shape_of(op.result)[axis] for axis in orders[2]]
    if dilated:
        weights, attributes = _transposed_convolution(kernel, op, orders[1], flipped, emit)
    else:
        pairs = [0, *range(2, 2 + rank), 1] if adds_pairs(op) else None
        weights = _weights(kernel, emit, kernel.port(op.rhs), orders[1], flipped, pairs)
        attributes = conv_attributes(op, weights.shape[2:], kernel.region)
    source = emit.transposed(_data(kernel, emit, data), orders[0], name)
    if emit.for_openvino and not dilated and is_padded_wrong(source, attributes):
        pads = padding_values(op.padding, rank)
        source = emit.padded(source, [(0, 0), (0, 0), *pads], f"{name}/padding")
        attributes = {**attributes, "pads": [0] * (2 * rank)}
    inputs = [source, weights, *([] if (bias := _bias(kernel, emit)) is None else [bias])]
    kind, is_real = kernel.output_spec, emit.is_real(kernel.region.outputs[0])
    given = element_of(kernel.region.outputs[0]) if is_real else kind
    inputs, attributes = ungrouped(inputs, given, attributes, emit)
    made = emit.apply("ConvTranspose" if dilated else "Conv", inputs, given, shape, name, attributes)
    if is_real and isinstance(kind, UniformQuantizedType):
        emit.builder.annotate(made.name, *emit.parameters(kind, made.name))
    made = clamped(kernel, made, emit, f"{name}{CLIP}")
    back = [orders[2].index(axis) for axis in range(len(shape))]
    emit.put(kernel.region.outputs[0], emit.transposed(made, back, f"{name}/back"))


def conv_attributes(op: ConvolutionOp, extents: Sequence[int], place: Operation) -> Attributes:
    """The attributes of Conv with a window of the given size. Raises ExportError for negative padding."""
    window = _window(op, extents, len(extents))
    if min(window["pads"], default=0) < 0:
        raise ExportError(f"found negative padding {window['pads']}, expected none", place)
    return {**window, "group": op.feature_group_count.value.data}


def _window(op: ConvolutionOp, extents: Sequence[int], rank: int) -> dict[str, list[int]]:
    pairs = padding_values(op.padding, rank)
    return {
        "kernel_shape": list(extents),
        "strides": list(array_values(op.window_strides, (1,) * rank)),
        "dilations": list(array_values(op.rhs_dilation, (1,) * rank)),
        "pads": [low for low, _ in pairs] + [high for _, high in pairs],
    }


def _transposed_convolution(
    kernel: ExportKernel,
    op: ConvolutionOp,
    order: Sequence[int],
    flipped: Sequence[int],
    emit: OnnxEmission,
) -> tuple[Tensor, Attributes]:
    """The weights and attributes of ConvTranspose.

    Its weights are [input, output / groups, ...], reversed in the spatial dimensions. Its padding crops the result.
    """
    name, rank = _name(kernel, emit), len(order) - 2
    groups = op.feature_group_count.value.data
    array = emit.array(kernel.region.inputs[kernel.port(op.rhs)])
    if array is None or kernel.is_quantized or any(s != 1 for s in array_values(op.window_strides)):
        raise ExportError(
            "found a transposed convolution that is quantized, with strides or computed weights, expected a float one "
            "with constant weights and dilated input",
            kernel.region,
        )
    # ConvTranspose reverses the window, so a window with reversal is written as it is.
    turned = [axis for axis in range(2, 2 + rank) if axis not in flipped]
    weights = np.flip(array.transpose(order), tuple(turned))
    weights = _per_input(weights, groups)
    window = _window(op, weights.shape[2:], rank)
    extents = [(size - 1) * step + 1 for size, step in zip(window["kernel_shape"], window["dilations"], strict=True)]
    pads = window["pads"]
    # StableHLO pads the dilated input with p elements; ConvTranspose crops n - 1 - p from the full result.
    cuts = [n - 1 - pad for n, pad in zip(extents * 2, pads, strict=True)]
    strides = array_values(op.lhs_dilation, (1,) * rank)
    lacking = [max(-cut, 0) for cut in cuts[rank:]]
    if min(cuts[:rank]) < 0 or any(more >= step for more, step in zip(lacking, strides, strict=True)):
        raise ExportError(
            f"found padding {pads} of a transposed convolution, expected at most the window size - 1", kernel.region
        )
    attributes: Attributes = {
        "kernel_shape": window["kernel_shape"],
        "strides": list(strides),
        "dilations": window["dilations"],
        "pads": [max(cut, 0) for cut in cuts],
        # Rows and columns beyond the full result. StableHLO gets them by more padding at the high end.
        "output_padding": lacking,
        "group": groups,
    }
    kind = None if emit.for_openvino else _pinned_per_input(kernel.region.inputs[kernel.port(op.rhs)], order, groups)
    kind = kind or kernel.specs[kernel.port(op.rhs)]
    return emit.constant(weights, kind, f"{name}/weights"), attributes


def _pinned_per_input(value: SSAValue, order: Sequence[int], groups: int) -> UniformQuantizedType | None:
    """The type pinned for weights, in the order of ConvTranspose; None if it cannot have it.

    A scale per output channel is one per element of the second dimension, unless there are groups.
    """
    kind = _pinned(value)
    if kind is None or kind.is_per_layer:
        return kind
    kind = _turned(kind, order)
    return _with_axis(kind, 1) if kind.blocks is None and kind.axis == 0 and groups == 1 else None


def _per_input(weights: Array, groups: int) -> Array:
    """Weights from [output, input / groups, ...] to [input, output / groups, ...]."""
    outputs, inputs, *window = weights.shape
    grouped = weights.reshape(groups, outputs // groups, inputs, *window).swapaxes(1, 2)
    # ConvTranspose takes the input channels first, then the outputs of one group.
    return grouped.reshape(groups * inputs, outputs // groups, *window)


def fully_connected(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Gemm with a bias, MatMul without. Several contracting dimensions are flattened into one first.

    For OpenVINO, a product without a bias and one in a chain (`product_chains.py`) are a MatMul of a batch of one. On
    one thread, also in each stream of its throughput mode, OpenVINO 2026.4.1 fuses small products of matrices that
    follow each other into one kernel, whose results are wrong if a product has no bias. It does not fuse batches.
    """
    op = kernel.first(DotGeneralOp)
    numbers = op.dot_dimension_numbers.data
    if numbers.lhs_batching_dimensions:
        raise ExportError("found batch dimensions in a product with constant weights, expected none", kernel.region)
    name, shape = _name(kernel, emit), shape_of(op.lhs)
    summed, over = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    kept = [axis for axis in range(len(shape)) if axis not in summed]
    port = kernel.port(op.rhs)
    free = [axis for axis in range(len(shape_of(op.rhs))) if axis not in over]
    terms = prod(shape[axis] for axis in summed)
    outputs = prod(shape_of(op.rhs)[axis] for axis in free)
    bias = _bias(kernel, emit, zeros=not emit.for_openvino)
    batched = emit.for_openvino and (bias is None or is_in_chain(kernel.region))
    plain = len(free) == 1 and len(over) == 1
    if plain:
        # Gemm takes B transposed (transB), so the constant keeps the model's order.
        turned = bias is not None and list(free) < list(over) and not batched
        order, pairs = ([*free, *over], [0, 1]) if turned else ([*over, *free], [1, 0])
        weights = _weights(kernel, emit, port, order, pairs=pairs)
    else:
        turned, weights = False, _flat(kernel, emit, port, [*over, *free], (terms, outputs))
    by_layer = bias is None and weights.quantized is not None
    source = _data(kernel, emit, kernel.port(op.lhs), by_layer=by_layer)
    source = emit.transposed(source, [*kept, *summed], name)
    rows = prod(shape[axis] for axis in kept)
    if batched:
        made = _as_batch(kernel, source, weights, bias, (rows, terms, outputs), emit)
    elif bias is None:
        source = emit.reshaped(source, (rows, terms), name)
        made = emit.apply("MatMul", [source, weights], kernel.output_spec, (rows, outputs), name)
    else:
        source, bias = emit.reshaped(source, (rows, terms), name), _wide(bias, outputs)
        attributes = {"transB": 1} if turned else {}
        made = emit.apply("Gemm", [source, weights, bias], kernel.output_spec, (rows, outputs), name, attributes)
    made = clamped(kernel, made, emit, f"{name}{CLIP}")
    emit.put(kernel.region.outputs[0], emit.reshaped(made, shape_of(kernel.region.outputs[0]), name))


def _as_batch(
    kernel: ExportKernel,
    source: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    sizes: tuple[int, int, int],
    emit: OnnxEmission,
) -> Tensor:
    """The product of a batch of one matrix."""
    name, (rows, terms, outputs) = _name(kernel, emit), sizes
    source = emit.reshaped(source, (1, rows, terms), name)
    if bias is None:
        return emit.apply("MatMul", [source, weights], kernel.output_spec, (1, rows, outputs), name)
    product = emit.apply("MatMul", [source, weights], f32, (1, rows, outputs), f"{name}{PRODUCT}")
    return emit.apply("Add", [product, _wide(bias, outputs)], kernel.output_spec, (1, rows, outputs), name)


def _wide(bias: Tensor, outputs: int) -> Tensor:
    if bias.shape != (outputs,):
        raise ExportError(f"found a bias of shape {list(bias.shape)}, expected [{outputs}]")
    return bias


def _flat(kernel: ExportKernel, emit: OnnxEmission, port: int, order: Sequence[int], shape: tuple[int, int]) -> Tensor:
    """Weights of higher rank as a matrix. Raises ExportError for computed ones and for scales per channel."""
    array, kind = emit.array(kernel.region.inputs[port]), kernel.specs[port]
    if array is None or (isinstance(kind, UniformQuantizedType) and not kind.is_per_layer):
        raise ExportError(
            "found weights of more than two dimensions that are computed or have a scale per channel, "
            "expected constant ones with one scale",
            kernel.region,
        )
    return emit.constant(array.transpose(order).reshape(shape), kind, f"{_name(kernel, emit)}/weights")


def batch_matmul(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """MatMul of two activations."""
    op = kernel.first(DotGeneralOp)
    sides = [_source(kernel, emit, kernel.port(value)) for value in (op.lhs, op.rhs)]
    product = matmul(op, sides, kernel.output_spec, emit, _name(kernel, emit))
    made = clamped(kernel, product, emit, f"{product.name}{CLIP}")
    emit.put(kernel.region.outputs[0], made)


def matmul(op: DotGeneralOp, sides: Sequence[Tensor], kind: object, emit: OnnxEmission, name: str) -> Tensor:
    """MatMul. Batches come first. The contracting dimension is last on the left, and second to last on the right."""
    numbers = op.dot_dimension_numbers.data
    left, right = sides
    batches = (numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions)
    summed = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
    free = [
        [axis for axis in range(len(side.shape)) if axis not in (*batches[i], *summed[i])]
        for i, side in enumerate((left, right))
    ]
    orders = [[*batches[0], *free[0], *summed[0]], [*batches[1], *summed[1], *free[1]]]
    left, right = (emit.transposed(side, order, name) for side, order in zip((left, right), orders, strict=True))
    size = [prod(side.shape[axis] for axis in axes) for side, axes in ((sides[0], free[0]), (sides[1], free[1]))]
    terms = prod(sides[0].shape[axis] for axis in summed[0])
    batch = [sides[0].shape[axis] for axis in batches[0]]
    left = emit.reshaped(left, (*batch, size[0], terms), name)
    right = emit.reshaped(right, (*batch, terms, size[1]), name)
    made = emit.apply("MatMul", [left, right], cast("Attribute", kind), (*batch, *size), name)
    return emit.reshaped(made, shape_of(op.result), name)


KERNELS = {
    "batch_matmul": batch_matmul,
    "convolution": convolution,
    "depthwise_convolution": convolution,
    "fully_connected": fully_connected,
    "transpose_convolution": convolution,
}
