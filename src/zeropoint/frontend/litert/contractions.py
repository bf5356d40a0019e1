"""LiteRT's convolutions and matrix products: channels last, weights [output, height, width, input].

Source: the LiteRT schema and TensorFlow's definition of SAME and VALID.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.litert.graph import LiteRtTensor
from zeropoint.frontend.litert.windows import LiteRtWindow, window_of
from zeropoint.frontend.onnx.convolution import unless
from zeropoint.ir.annotations import COMPUTED_WEIGHTS
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.dimensions import DotDimensions
from zeropoint.ir.tensors import shape_of, with_shape

GREATEST_BIAS = (1 << 39) - 1
"""The greatest bias of 16x8 models, as in the rows of LiteRT's table."""
TRANSPOSE_CONV_BIAS = struct.Struct("<3i")
TRANSPOSED_SAME = 1
"""SAME in the options of Convolution2DTransposeBias (TfLitePadding)."""
SPATIAL = (1, 2)
OHWI = ConvolutionLayout(0, 3, SPATIAL, 3, 0, SPATIAL, 0, 3, SPATIAL)
"""`[b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]`."""
IHWO = ConvolutionLayout(0, 3, SPATIAL, 0, 3, SPATIAL, 0, 3, SPATIAL)
"""`[b, 0, 1, f]x[i, 0, 1, o]->[b, 0, 1, f]`: depthwise convolutions, with one input channel per group."""


def _image(call: Call, index: int) -> tuple[int, ...]:
    shape = shape_of(call.operand(index))
    if len(shape) != 4:
        raise NodeError(f"found shape {list(shape)}, expected 4 dimensions")
    return shape


def _with_bias(call: Call, value: SSAValue, index: int, data: int = 0) -> SSAValue:
    """Add the bias along the last dimension, then apply the activation function."""
    if call.has(index):
        _check_width(call.tensor(index))
        bias, channels = call.bias(index, data, 1), shape_of(value)[-1]
        if shape_of(bias) != (channels,):
            raise NodeError(f"found a bias of shape {list(shape_of(bias))}, expected [{channels}]")
        last = len(shape_of(value)) - 1
        value = call.build.insert(AddOp(value, call.build.broadcast(bias, value.type, [last])))
    return call.bounded(value)


def _check_width(bias: LiteRtTensor) -> None:
    """Raise NodeError for a bias of more than 40 bits. From about 46 bits on, LiteRT's results are 0 or overflow."""
    stored = bias.data
    if stored is None or stored.dtype.kind != "i" or not stored.size:
        return
    low, high = int(stored.min()), int(stored.max())
    if low < -GREATEST_BIAS - 1 or high > GREATEST_BIAS:
        raise NodeError(
            f"found the bias {low if -low > high else high}, expected at most 40 bits (2^39 - 1), which LiteRT's "
            "kernels of 16 bits compute with; give its channel a larger scale of weights and convert the model again"
        )


def _convolved(call: Call, window: LiteRtWindow, features: int, groups: int, layout: ConvolutionLayout) -> SSAValue:
    data = call.operand(0)
    outputs = window.outputs
    op = ConvolutionOp(
        data,
        call.operand(1),
        with_shape(data, [shape_of(data)[0], *outputs, features]),
        layout,
        window_strides=unless(1, window.strides),
        padding=window.padding if any(map(any, window.padding)) else None,
        rhs_dilation=unless(1, window.dilations),
        feature_group_count=groups,
    )
    return _with_bias(call, call.build.insert(op), 2)


def conv_2d(call: Call) -> SSAValue:
    """CONV_2D. The convolution is grouped if the weights have fewer input channels than the image."""
    (_, *size, channels), (features, *kernel, inputs) = _image(call, 0), _image(call, 1)
    if not inputs or channels % inputs or features % (channels // inputs):
        raise NodeError(
            f"found {channels} channels, weights of {inputs} inputs and {features} outputs, expected groups of as many "
            f"channels as inputs, and as many outputs for each group"
        )
    return _convolved(call, window_of(call, size, kernel), features, channels // inputs, OHWI)


def depthwise_conv_2d(call: Call) -> SSAValue:
    """DEPTHWISE_CONV_2D: weights [1, height, width, output]."""
    (_, *size, channels), (one, *kernel, features) = _image(call, 0), _image(call, 1)
    if one != 1 or not channels or features % channels:
        raise NodeError(f"found {channels} channels and {features} results of each window, expected a multiple")
    return _convolved(call, window_of(call, size, kernel), features, channels, IHWO)


def transpose_conv(call: Call) -> SSAValue:
    """TRANSPOSE_CONV: a convolution of the zero-dilated image with spatially reversed weights."""
    wanted = call.integers(0, "shape of the result")
    if len(wanted) != 4:
        raise NodeError(f"found {len(wanted)} numbers as the shape of the result, expected 4")
    strides = int(call.option("strideH", 1)), int(call.option("strideW", 1))
    return _scattered(call, 2, strides, wanted[1:3])


def transpose_conv_bias(call: Call) -> SSAValue:
    """Convolution2DTransposeBias, a custom operator of MediaPipe's files: TRANSPOSE_CONV without an operand of sizes.

    Source: MediaPipe's transpose_conv_bias.cc and XNNPACK's delegate. The options are TfLiteTransposeConvParams:
    padding (1: SAME, 2: VALID) and the strides along width and height. The size of the result says how much is cut off.
    For an image of another size than in the file, MediaPipe's kernel has a formula of the size.
    """
    if len(call.operator.custom) < TRANSPOSE_CONV_BIAS.size:
        raise NodeError(f"found {len(call.operator.custom)} bytes of options, expected {TRANSPOSE_CONV_BIAS.size}")
    padding, across, down = TRANSPOSE_CONV_BIAS.unpack_from(call.operator.custom)
    wanted, strides = call.result().shape, (down, across)
    if len(wanted) != 4:
        raise NodeError(f"found {len(wanted)} dimensions in the result, expected 4")
    (_, *size, _), (_, *kernel, _) = _image(call, 0), _image(call, 1)
    if call.tensor(0).shape == shape_of(call.operand(0)) or min(strides) < 1:
        return _scattered(call, 0, strides, wanted[1:3])
    rows = zip(size, kernel, strides, strict=True)
    return _scattered(call, 0, strides, [_scattered_size(*row, same=padding == TRANSPOSED_SAME) for row in rows])


def _scattered_size(length: int, extent: int, step: int, *, same: bool) -> int:
    """The size of the result of a Convolution2DTransposeBias, as MediaPipe's kernel computes it."""
    cut = max(extent - 1 - (length - 1) % step, 0) if same else 0
    return (length - 1) * step + extent - cut


def _scattered(call: Call, index: int, strides: tuple[int, int], wanted: Sequence[int]) -> SSAValue:
    """The transposed convolution of operand `index` with weights 1 and the bias behind both, of the size `wanted`."""
    (_, *size, channels), (features, *kernel, inputs) = _image(call, index), _image(call, 1)
    if channels != inputs:
        raise NodeError(f"found {channels} channels and weights of {inputs} inputs, expected equal numbers")
    padding: list[tuple[int, int]] = []
    for length, extent, step, result in zip(size, kernel, strides, wanted, strict=True):
        if step < 1:
            raise NodeError(f"found strides {list(strides)}, expected 1 or more")
        before = max((length - 1) * step + extent - result, 0) // 2
        low = extent - 1 - before
        padding.append((low, result + extent - 2 - (length - 1) * step - low))
    data = call.operand(index)
    op = ConvolutionOp(
        data,
        call.turned(1, SPATIAL),
        with_shape(data, [shape_of(data)[0], *wanted, features]),
        OHWI,
        padding=padding if any(map(any, padding)) else None,
        lhs_dilation=unless(1, strides),
    )
    return _with_bias(call, call.build.insert(op), max(index, 1) + 1, index)


def fully_connected(call: Call) -> SSAValue:
    """FULLY_CONNECTED: weights [output, input] over the last dimension."""
    data, weights = call.operand(0), call.operand(1)
    if call.option("weightsFormat"):
        raise NodeError("found shuffled weights, expected plain ones")
    features, terms = _matrix(weights)
    shape = shape_of(data)
    if not call.option("keepNumDims", False):
        count = 1
        for size in shape:
            count *= size
        if count % terms:
            raise NodeError(f"found {count} elements, expected a multiple of the {terms} inputs of the weights")
        data = call.build.reshape(data, [count // terms, terms])
    if not shape_of(data) or shape_of(data)[-1] != terms:
        raise NodeError(f"found shape {list(shape)}, expected a last dimension of {terms}, the inputs of the weights")
    if _has_no_kernel(call):
        return call.build.constant(np.zeros([*shape_of(data)[:-1], features], np.float32))
    last = len(shape_of(data)) - 1
    numbers = DotDimensions(lhs_contracting_dimensions=(last,), rhs_contracting_dimensions=(1,))
    product = DotGeneralOp(data, weights, with_shape(data, [*shape_of(data)[:-1], features]), numbers)
    if call.tensor(1).data is None and not call.has(2) and call.tensor(1).dtype == np.int8:
        product.attributes[COMPUTED_WEIGHTS] = UnitAttr()
    return _with_bias(call, call.build.insert(product), 2)


def _has_no_kernel(call: Call) -> bool:
    """Whether LiteRT returns zeros: for a 16-bit result of 8-bit data and weights with a scale per channel.

    It has no kernel for them and runs its kernel of u8 with the multiplier of weights of one scale, which is 0. The
    package `ai-edge-quantizer` writes such files for an LSTM's initial state of zeros.
    """
    if call.tensor(0).dtype != np.int8 or call.result().dtype != np.int16:
        return False
    if call.tensor(1).scales.size == 1:
        raise NodeError(
            "found i8 data and a result of i16, for which LiteRT reads the stored bytes as u8, expected data and "
            "result of as many bits; quantize the model again"
        )
    return True


def _matrix(weights: SSAValue) -> tuple[int, int]:
    shape = shape_of(weights)
    if len(shape) != 2 or not shape[1]:
        raise NodeError(f"found weights of shape {list(shape)}, expected [outputs, inputs]")
    return shape[0], shape[1]


def batch_matmul(call: Call) -> SSAValue:
    """BATCH_MATMUL. Either operand may be transposed. Batch dimensions broadcast as in ONNX."""
    sides = [call.operand(0), call.operand(1)]
    adjoint = [bool(call.option("adjX", False)), bool(call.option("adjY", False))]
    shapes = [shape_of(side) for side in sides]
    rank = len(shapes[0])
    if min(map(len, shapes)) < 2:
        raise NodeError(f"found shapes {[list(shape) for shape in shapes]}, expected matrices")
    if shapes[0][:-2] != shapes[1][:-2]:
        sides = [
            call.transposed(side, _swapped(len(shape))) if turned else side
            for side, shape, turned in zip(sides, shapes, adjoint, strict=True)
        ]
        return call.onnx("MatMul", *sides)
    summed, kept = (rank - 2, rank - 1) if adjoint[0] else (rank - 1, rank - 2)
    over, free = (rank - 1, rank - 2) if adjoint[1] else (rank - 2, rank - 1)
    if shapes[0][summed] != shapes[1][over]:
        raise NodeError(
            f"found shapes {list(shapes[0])} and {list(shapes[1])}, expected equal sizes of the dimensions that are "
            f"summed, which are {shapes[0][summed]} and {shapes[1][over]}"
        )
    batches = tuple(range(rank - 2))
    result = with_shape(sides[0], [*shapes[0][:-2], shapes[0][kept], shapes[1][free]])
    numbers = DotDimensions(batches, batches, (summed,), (over,))
    return call.build.insert(DotGeneralOp(sides[0], sides[1], result, numbers))


def _swapped(rank: int) -> Sequence[int]:
    return [*range(rank - 2), rank - 1, rank - 2]
