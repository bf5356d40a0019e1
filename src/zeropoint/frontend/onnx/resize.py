"""`Resize`: nearest neighbours and linear interpolation.

Source: the ONNX operator specification, "Resize": the coordinates of the input that each coordinate of the output has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.indexing import taken_along
from zeropoint.frontend.onnx.node import Node, NodeError, axis_of
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp, TransposeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_shape

Coordinates = Callable[[Array, int, int, np.float32], Array]
"""From output positions, the input's size, the output's and the scale to positions in the input."""


def _align_corners(x: Array, size: int, out: int, scale: np.float32) -> Array:
    """The first and the last element stay where they are.

    The length that is aligned is scale * size with its fraction, as ONNX's reference implementation and its test cases
    have it; onnxruntime rounds it down to the size of the output.
    """
    length = np.float64(scale) * size
    length = np.rint(length) if np.isclose(length, np.rint(length), rtol=1e-6) else length
    return (x * (size - 1) / (length - 1)).astype(x.dtype) if length != 1 else np.zeros_like(x)


def _half_pixel(x: Array, size: int, out: int, scale: np.float32) -> Array:
    return (x + 0.5) / scale - 0.5


def _half_pixel_symmetric(x: Array, size: int, out: int, scale: np.float32) -> Array:
    """As half_pixel, about the middle of the input where the scale makes no whole number of positions."""
    adjusted = out / (scale * size)
    return size / 2 * (1 - adjusted) + (x + 0.5) / scale - 0.5


COORDINATES: Mapping[str, Coordinates] = {
    "align_corners": _align_corners,
    "asymmetric": lambda x, size, out, scale: x / scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda x, size, out, scale: _half_pixel(x, size, out, scale) if out > 1 else 0 * x,
}
NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def resize(node: Node, build: Builder) -> SSAValue:
    """`Resize` in modes nearest and linear, one dimension after the other.

    A whole factor repeats elements by `reshape`, `broadcast_in_dim`, `reshape`; other nearest neighbours are slices put
    together, or a `gather`; linear interpolation is a `dot_general` with a constant matrix.
    """
    value = node.operand(0)
    shape = shape_of(value)
    outputs, scales = _sizes(node, shape)
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise NodeError(f"found mode '{mode}', expected 'nearest' or 'linear'")
    transformation = node.text("coordinate_transformation_mode", "half_pixel")
    if transformation not in COORDINATES:
        raise NodeError(
            f"found coordinate_transformation_mode '{transformation}', expected one of: {', '.join(COORDINATES)}"
        )
    if node.integer("antialias", 0):
        raise NodeError("found antialias 1, expected 0")
    for axis, (size, out, scale) in enumerate(zip(shape, outputs, scales, strict=True)):
        if size == out and scale == 1:
            continue
        # In f32, as onnxruntime has it: it decides between neighbours.
        positions = COORDINATES[transformation](np.arange(out, dtype=np.float32), size, out, np.float32(scale))
        if mode == "nearest":
            nearest = NEAREST[node.text("nearest_mode", "round_prefer_floor")](positions)
            value = taken_along(value, axis, np.clip(nearest, 0, size - 1).astype(np.int64), build)
        else:
            value = _interpolated(value, axis, positions, build)
    return value


def _sizes(node: Node, shape: Sequence[int]) -> tuple[list[int], list[float]]:
    """The output's size and the scale of every dimension, from input `scales` or `sizes`."""
    rank = len(shape)
    axes = node.integers("axes")
    named = list(range(rank)) if axes is None else [axis_of(axis, rank) for axis in axes]
    scales_given, sizes_given = node.parameter(2, "scales"), node.integers_at(3, "sizes")
    outputs, scales = list(shape), [1.0] * rank
    if sizes_given:
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise NodeError("found a keep_aspect_ratio_policy, expected 'stretch'")
        if len(sizes_given) != len(named):
            raise NodeError(f"found {len(sizes_given)} sizes, expected {len(named)}")
        for axis, size in zip(named, sizes_given, strict=True):
            outputs[axis], scales[axis] = size, size / shape[axis] if shape[axis] else 1.0
    elif scales_given is not None and scales_given.size:
        if scales_given.size != len(named):
            raise NodeError(f"found {scales_given.size} scales, expected {len(named)}")
        for axis, scale in zip(named, scales_given.reshape(-1).tolist(), strict=True):
            outputs[axis], scales[axis] = int(np.floor(np.float32(shape[axis]) * np.float32(scale))), scale
    else:
        raise NodeError("found neither scales nor sizes, expected one of them")
    if any(out < 1 and size for out, size in zip(outputs, shape, strict=True)):
        raise NodeError(f"found an output of shape {outputs}, expected sizes of 1 or more")
    if any(out and not size for out, size in zip(outputs, shape, strict=True)):
        raise NodeError(f"found an output of shape {outputs} of an empty input, expected an empty one")
    return outputs, scales


def _interpolated(value: SSAValue, axis: int, positions: Array, build: Builder) -> SSAValue:
    """The values between neighbours along a dimension: `dot_general` with their weights, `transpose`."""
    shape = shape_of(value)
    size, rank = shape[axis], len(shape)
    inside = np.clip(positions, 0, size - 1)
    low = np.floor(inside).astype(np.int64)
    high, share = np.minimum(low + 1, size - 1), inside - low
    weights = np.zeros((size, len(positions)), np.float64)
    rows = np.arange(len(positions))
    np.add.at(weights, (low, rows), 1 - share)
    np.add.at(weights, (high, rows), share)
    matrix = build.constant(weights.astype(element_dtype(element_of(value))))
    kept = [other for other in range(rank) if other != axis]
    made = [*(shape[other] for other in kept), len(positions)]
    product = build.insert(DotGeneralOp(value, matrix, with_shape(value, made), DotDimensions((), (), (axis,), (0,))))
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return product if axis == rank - 1 else build.insert(TransposeOp(product, order))
