"""Fourier transforms as products with constant matrices: `DFT`, `STFT`, and the mel filters of `MelWeightMatrix`.

Source: the ONNX operator specification. Matrices are computed in f64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.frontend.onnx.tensors import element_of_dtype, program_element
from zeropoint.ir.stablehlo import (
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, shape_of, with_shape
from zeropoint.limits import afford


def _waves(times: int, bins: int, length: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi t k / length, each (times, bins). t * k is first reduced modulo the length, in integers."""
    afford([times, bins], 32, "the matrix of a Fourier transform")
    turns = np.arange(times)[:, None] * np.arange(bins)[None, :] % length
    angles = 2 * np.pi * turns / length
    return np.cos(angles), np.sin(angles)


def transform(rows: int, parts: int, length: int, *, onesided: bool, inverse: bool) -> Array:
    """The matrix (rows, parts, bins, 2) of a Fourier transform of `length`, from real or complex rows.

    Rows after `length` are ignored, and missing rows are 0. `parts` is 1 for real input, 2 for complex input.
    """
    bins = length // 2 + 1 if onesided else length
    cos, sin = _waves(rows, bins, length)
    sign, factor = (1.0, 1 / length) if inverse else (-1.0, 1.0)
    real = np.stack([cos, sign * sin], axis=-1)  # a real number times exp(sign i angle)
    imaginary = np.stack([-sign * sin, cos], axis=-1)
    matrix = np.stack([real, imaginary][:parts], axis=1) * factor
    matrix[length:] = 0
    return matrix


def real_inverse(rows: int, length: int) -> Array:
    """The matrix (rows, 2, length, 1) from the bins of one side to real numbers. The other side mirrors the bins."""
    cos, sin = _waves(rows, length, length)
    number = np.arange(rows)
    weight = np.where((number == 0) | (2 * number == length), 1.0, 2.0) * (2 * number <= length) / length
    return np.stack([cos, -sin], axis=1)[..., None] * weight[:, None, None, None]


def dft(node: OnnxNode, build: Builder) -> SSAValue:
    """`DFT` along one dimension: a `dot_general` with a constant matrix.

        %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]

    where %x has rows of n numbers, real and imaginary parts alternating, and %w is [n, 2 k].
    """
    value = node.operand(0)
    shape = shape_of(value)
    given = node.integers_at(1, "dft_length")
    onesided, inverse = bool(node.integer("onesided", 0)), bool(node.integer("inverse", 0))
    axis = (node.integers_at(2, "axis") or (-2,))[0] if node.opset >= 20 else node.integer("axis", 1)
    axis = axis_of(axis, len(shape))
    if axis == len(shape) - 1 or shape[-1] not in (1, 2):
        raise NodeError(
            f"found shape {list(shape)} and axis {axis}, expected real numbers in a last dimension of 1, or complex "
            f"ones in 2, and another axis"
        )
    rows, parts = shape[axis], shape[-1]
    length = given[0] if given else 2 * (rows - 1) if onesided and inverse else rows
    if length < 1:
        raise NodeError(f"found a transform of {length} elements, expected 1 or more")
    if onesided and inverse:
        matrix = real_inverse(rows, length)[:, :parts]
    else:
        matrix = transform(rows, parts, length, onesided=onesided, inverse=inverse)
    return along(value, axis, matrix, build)


def along(value: SSAValue, axis: int, matrix: Array, build: Builder) -> SSAValue:
    """The product of dimensions `axis` and the last one with a matrix (rows, parts, bins, numbers)."""
    shape = shape_of(value)
    rows, parts, bins, numbers = matrix.shape
    others = [at for at in range(len(shape) - 1) if at != axis]
    outer = [shape[at] for at in others]
    moved = build.insert(TransposeOp(value, [*others, axis, len(shape) - 1])) if axis != len(shape) - 2 else value
    flat = build.reshape(moved, [*outer, rows * parts])
    weight = build.constant(matrix.reshape(rows * parts, bins * numbers).astype(np.float32))
    dimensions = DotDimensions((), (), (len(outer),), (0,))
    product = build.insert(DotGeneralOp(flat, weight, with_shape(flat, [*outer, bins * numbers]), dimensions))
    apart = build.reshape(product, [*outer, bins, numbers])
    order = list(range(len(outer)))
    order.insert(axis, len(outer))
    return apart if axis == len(outer) else build.insert(TransposeOp(apart, [*order, len(outer) + 1]))


def stft(node: OnnxNode, build: Builder) -> SSAValue:
    """`STFT`: a 1-D `convolution` of the signal. Its kernel has a channel for each wave, multiplied by the window."""
    signal = node.operand(0)
    shape = shape_of(signal)
    if len(shape) == 2:
        signal, shape = build.reshape(signal, [*shape, 1]), (*shape, 1)
    if len(shape) != 3 or shape[2] not in (1, 2):
        raise NodeError(f"found a signal of shape {list(shape)}, expected [batch, length, 1] or [batch, length, 2]")
    steps, given = node.integers_at(1, "frame_step") or (0,), node.integers_at(3, "frame_length")
    if len(steps) != 1 or len(given or (0,)) != 1:
        raise NodeError(
            f"found frame_step {list(steps)} and frame_length {list(given or ())}, expected one number each"
        )
    (step,) = steps
    window = shape_of(node.operand(2)) if node.has(2) else None
    length = given[0] if given else window[0] if window else shape[1]
    if step < 1 or not 1 <= length <= shape[1] or window not in (None, (length,)):
        raise NodeError(
            f"found frame_step {step}, frame_length {length}, a window of shape {window} and {shape[1]} samples, "
            f"expected a positive step, and a window as long as a frame, which fits the signal"
        )
    onesided = bool(node.integer("onesided", 1))
    kernel = _frame_kernel(node, transform(length, shape[2], length, onesided=onesided, inverse=False), build)
    batch, channels, frames = shape[0], shape_of(kernel)[0], (shape[1] - length) // step + 1
    moved = build.insert(TransposeOp(signal, [0, 2, 1]))
    op = ConvolutionOp(
        moved,
        kernel,
        with_shape(signal, [batch, channels, frames]),
        ConvolutionLayout.channels_first(1),
        window_strides=[step] if step > 1 else None,
    )
    last = build.insert(TransposeOp(build.insert(op), [0, 2, 1]))
    return build.reshape(last, [batch, frames, channels // 2, 2])


def _frame_kernel(node: OnnxNode, matrix: Array, build: Builder) -> SSAValue:
    """The kernel [bins * 2, parts, length] from a matrix (length, parts, bins, 2), times the window."""
    length, parts, bins, numbers = matrix.shape
    array = node.constant(2)
    if array is not None:
        matrix = matrix * array.astype(np.float64)[:, None, None, None]
    turned = np.ascontiguousarray(matrix.reshape(length, parts, bins * numbers).transpose(2, 1, 0))
    kernel = build.constant(turned.astype(np.float32))
    if not node.has(2) or array is not None:
        return kernel
    return build.apply(MultiplyOp, kernel, build.broadcast(node.operand(2), kernel.type, [2]))


_MEL = 2595.0
"""Mels = 2595 log10(1 + hertz / 700)."""


def mel_weight_matrix(node: OnnxNode, build: Builder) -> SSAValue:
    """`MelWeightMatrix`: a constant (spectrogram bins, mel bins) of triangles. All inputs must be constant."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    numbers: list[float] = []
    for index, name in enumerate(names):
        array = node.parameter(index, name)
        if array is None or array.size != 1:
            raise NodeError(f"found no '{name}' of one number, expected one")
        numbers.append(float(array.reshape(())))
    bins, length, rate = (int(number) for number in numbers[:3])
    to = node.integer("output_datatype", 1)
    if min(bins, length, rate) < 1:
        raise NodeError(f"found {bins} bins, dft_length {length} and sample_rate {rate}, expected positive numbers")
    afford([length // 2 + 1, bins], 8, "a matrix")
    edges = _mel_edges(bins, length, rate, numbers[3:])
    if edges[0] < 0 or edges[-1] > length // 2 + 1:
        raise NodeError(f"found edges at bins {edges[0]} to {edges[-1]}, expected 0 to {length // 2 + 1}")
    element = program_element(to) if to else element_of_dtype(np.dtype(np.float32))
    return build.constant(_triangles(edges, length // 2 + 1).astype(element_dtype(element)))


def _mel_edges(bins: int, length: int, rate: int, hertz: Sequence[float]) -> Array:
    """The spectrogram bins at which triangles start, peak and end: `bins` + 2 positions at equal steps in mels."""
    low, high = (_MEL * np.log10(1 + edge / 700) for edge in hertz)
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    return ((length + 1) * (700 * (10 ** (mels / _MEL) - 1)) // rate).astype(np.int64)


def _triangles(edges: Array, rows: int) -> Array:
    """A column for each triangle. A triangle is 1 at its center, even if it has no width."""
    matrix, at = np.zeros((rows, len(edges) - 2)), np.arange(rows)
    for column, (left, center, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising = (at - left) / max(center - left, 1)
        falling = (right - at) / max(right - center, 1)
        matrix[:, column] = np.where(at <= center, rising, falling) * ((at >= left) & (at < max(right, center + 1)))
        matrix[at == center, column] = 1.0
    return matrix
