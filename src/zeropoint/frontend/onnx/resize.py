"""`Resize` and `Upsample`: nearest neighbours, and linear and cubic interpolation.

Source: the ONNX operator specification, "Resize": the mapping from output coordinates to input coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.indexing import taken_along
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.ir.annotations import RESIZED
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp, SelectOp, TransposeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_shape
from zeropoint.limits import afford

Coordinates = Callable[[Array, int, int, np.float32], Array]
"""Maps output positions, given input size, output size and scale, to positions in the input."""


def _align_corners(x: Array, size: int, out: int, scale: np.float32) -> Array:
    """align_corners: the first and the last element keep their positions.

    The aligned length is scale * size, with its fraction, as in ONNX's reference implementation and test cases.
    onnxruntime rounds it down to the output size, and so does the import of quantized files.
    """
    length = np.float64(scale) * size
    length = np.rint(length) if np.isclose(length, np.rint(length), rtol=1e-6) else length
    return (x * (size - 1) / (length - 1)).astype(x.dtype) if length != 1 else np.zeros_like(x)


def _half_pixel(x: Array, size: int, out: int, scale: np.float32) -> Array:
    return (x + 0.5) / scale - 0.5


def _half_pixel_symmetric(x: Array, size: int, out: int, scale: np.float32) -> Array:
    """half_pixel_symmetric: like half_pixel, but centred in the input if scale * size is not an integer."""
    adjusted = out / (scale * size)
    return size / 2 * (1 - adjusted) + (x + 0.5) / scale - 0.5


COORDINATES: Mapping[str, Coordinates] = {
    "align_corners": _align_corners,
    "asymmetric": lambda x, size, out, scale: x / scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda x, size, out, scale: _half_pixel(x, size, out, scale) if out > 1 else 0 * x,
    "tf_half_pixel_for_nn": lambda x, size, out, scale: (x + 0.5) / scale,
}
NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}
BY_SCALE = "ceil if smaller, else floor"
"""Nearest neighbours before opset 11, which says nothing: as in ONNX's test cases of opset 10, and onnxruntime."""


MODES = ("nearest", "linear", "cubic")
POLICIES: Mapping[str, Callable[[Sequence[float]], float] | None] = {
    "stretch": None,
    "not_larger": min,
    "not_smaller": max,
}
"""Policies for the aspect ratio with `sizes`. The function selects one of the requested scales for all dimensions."""


@dataclass(frozen=True)
class Sampling:
    """The attributes of a Resize that apply to every dimension."""

    mode: str
    nearest: str
    transformation: str
    cubic: float
    exclude_outside: bool
    antialias: bool

    def rounding(self, scale: float) -> str:
        """How a position becomes that of its nearest neighbour, a key of `NEAREST`."""
        return self.nearest if self.nearest != BY_SCALE else "ceil" if scale < 1 else "floor"

    @property
    def is_plainly_linear(self) -> bool:
        """Whether every position has two neighbours."""
        return self.mode == "linear" and not self.antialias and not self.exclude_outside


def _sampling(node: OnnxNode) -> Sampling:
    old = node.opset < 11  # Resize of opset 10, and Upsample
    return Sampling(
        node.choice("mode", "nearest", MODES),
        BY_SCALE if old else node.choice("nearest_mode", "round_prefer_floor", NEAREST),
        node.choice(
            "coordinate_transformation_mode",
            "asymmetric" if old else "half_pixel",
            (*COORDINATES, "tf_crop_and_resize"),
        ),
        node.number("cubic_coeff_a", -0.75),
        bool(node.integer("exclude_outside", 0)),
        bool(node.integer("antialias", 0)),
    )


def resize(node: OnnxNode, build: Builder) -> SSAValue:
    """`Resize` and `Upsample`, one dimension at a time.

    With nearest neighbours, an integer factor repeats elements by `reshape`, `broadcast_in_dim`, `reshape`. Any other
    factor becomes concatenated slices or a `gather`. Linear and cubic interpolation, also with antialias, is a
    `dot_general` with a constant matrix. With `tf_crop_and_resize`, a `select` sets positions outside of the input to
    the extrapolation value.
    """
    value = node.operand(0)
    shape = shape_of(value)
    sampling = _sampling(node)
    crops = _crops(node, len(shape)) if sampling.transformation == "tf_crop_and_resize" else None
    outputs, scales = _sizes(node, shape)
    of_quantized_file = _is_of_quantized_file(value)
    if of_quantized_file and crops is None and tuple(outputs) == shape:
        return value  # onnxruntime copies it, whatever the scales
    inside: list[Array] = []
    for axis, (size, out, scale) in enumerate(zip(shape, outputs, scales, strict=True)):
        # Positions are f32, as in onnxruntime, because their rounding decides which neighbour is the nearest.
        afford([out], 32, "positions")
        counted = np.arange(out, dtype=np.float32)
        if crops is not None:
            positions = _cropped(counted, size, scale, crops[axis])
            inside.append((positions >= 0) & (positions <= size - 1))
        elif size == out and scale == 1:
            continue
        else:
            transformed = COORDINATES[sampling.transformation]
            aligned = out / size if of_quantized_file else scale
            scaled = aligned if sampling.transformation == "align_corners" else scale
            positions = transformed(counted, size, out, np.float32(scaled))
        if size == out and np.array_equal(positions, counted):
            continue
        if sampling.mode == "nearest":
            nearest = NEAREST[sampling.rounding(scale)](positions)
            value = taken_along(value, axis, np.clip(nearest, 0, size - 1).astype(np.int64), build)
        else:
            value = _interpolated(value, axis, _weights(positions, size, scale, sampling), sampling, build)
    if crops is None or all(bool(each.all()) for each in inside):
        return value
    afford(outputs, 1, "a mask")
    mask = build.constant(reduce(np.logical_and.outer, inside))
    return build.apply(SelectOp, mask, value, build.splat(node.number("extrapolation_value", 0.0), value))


def _is_of_quantized_file(value: SSAValue) -> bool:
    """Whether an op before a value dequantizes an activation."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    if block is None:
        return False
    return any(isinstance(op, DequantizeCastOp) and isinstance(op.input.owner, QuantizeCastOp) for op in block.ops)


def _crops(node: OnnxNode, rank: int) -> list[tuple[float, float]]:
    """The start and end of the resized part of each dimension, as fractions from 0 to 1."""
    roi, axes = node.parameter(1, "roi"), node.integers("axes")
    named = list(range(rank)) if axes is None else [axis_of(axis, rank) for axis in axes]
    if roi is None or roi.size != 2 * len(named):
        raise NodeError(f"found no roi of {2 * len(named)} numbers, expected one for tf_crop_and_resize")
    if not np.isfinite(roi).all():
        raise NodeError(f"found roi {roi.tolist()}, expected finite numbers")
    crops = [(0.0, 1.0)] * rank
    for axis, start, end in zip(named, roi.reshape(2, -1)[0], roi.reshape(2, -1)[1], strict=True):
        crops[axis] = (float(start), float(end))
    return crops


def _cropped(x: Array, size: int, scale: float, crop: tuple[float, float]) -> Array:
    length = scale * size
    if length == 1:
        return np.full_like(x, (crop[1] + crop[0]) * (size - 1) / 2)
    return x * ((crop[1] - crop[0]) * (size - 1) / (length - 1)) + crop[0] * (size - 1)


def _weights(positions: Array, size: int, scale: float, sampling: Sampling) -> Array:
    """The interpolation weights, of shape [size, outputs].

    A position uses the nearest 2 elements (linear) or 4 elements (cubic). With antialias and a scale below 1, the
    filter is wider by the factor 1 / scale. Elements outside of the input equal those at its ends. With
    `exclude_outside`, they have no weight.
    """
    stretch = min(float(scale), 1.0) if sampling.antialias else 1.0
    radius = 1 if sampling.mode == "linear" else 2
    first = int(np.floor(-radius / stretch)) + 1
    afford([len(positions), abs(2 - 2 * first)], 32, "taps of interpolation")
    afford([len(positions), size], 16, "weights of interpolation")
    base = np.floor(positions.astype(np.float64))
    offsets = np.arange(first, 2 - first)
    taps = base[:, None] + offsets
    shares = _kernel((taps - positions[:, None]) * stretch, sampling)
    if sampling.exclude_outside:
        shares = np.where((taps < 0) | (taps > size - 1), 0.0, shares)
    if sampling.exclude_outside or sampling.antialias:
        shares = shares / shares.sum(axis=1, keepdims=True)
    weights = np.zeros((size, len(positions)), np.float64)
    columns = np.broadcast_to(np.arange(len(positions))[:, None], taps.shape)
    np.add.at(weights, (np.clip(taps, 0, size - 1).astype(np.int64), columns), shares)
    return weights


def _kernel(distances: Array, sampling: Sampling) -> Array:
    x = np.abs(distances)
    if sampling.mode == "linear":
        return np.clip(1 - x, 0, 1)
    a = sampling.cubic
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _given(node: OnnxNode) -> tuple[Sequence[float], tuple[int, ...] | None]:
    """The scales and sizes of a node, in the form of its opset."""
    if node.opset < 9 and node.op_type == "Upsample":
        scales = node.numbers("scales")
        return scales or (1.0, 1.0, node.number("height_scale", 1.0), node.number("width_scale", 1.0)), None
    scales = node.parameter(1 if node.opset < 11 else 2, "scales")
    sizes = node.integers_at(3, "sizes") if node.opset >= 11 else None
    return [] if scales is None else scales.reshape(-1).tolist(), sizes


def _sizes(node: OnnxNode, shape: Sequence[int]) -> tuple[list[int], list[float]]:
    """The output's size and the scale of every dimension, from input `scales` or `sizes`."""
    rank = len(shape)
    axes = node.integers("axes")
    named = list(range(rank)) if axes is None else [axis_of(axis, rank) for axis in axes]
    scales_given, sizes_given = _given(node)
    outputs, scales = list(shape), [1.0] * rank
    policy = POLICIES[node.choice("keep_aspect_ratio_policy", "stretch", POLICIES)]
    if len(sizes_given or scales_given) != len(named):
        raise NodeError(f"found {len(sizes_given or scales_given)} scales or sizes, expected {len(named)}")
    if sizes_given:
        for axis, size in zip(named, sizes_given, strict=True):
            outputs[axis], scales[axis] = size, size / shape[axis] if shape[axis] else 1.0
        if policy is not None:
            scale = policy([scales[axis] for axis in named])
            for axis in named:
                outputs[axis], scales[axis] = int(np.floor(scale * shape[axis] + 0.5)), scale
    else:
        if not all(0 < scale < np.inf for scale in scales_given):
            raise NodeError(f"found scales {list(scales_given)}, expected positive numbers")
        for axis, scale in zip(named, scales_given, strict=True):
            outputs[axis], scales[axis] = int(np.floor(np.float32(shape[axis]) * np.float32(scale))), scale
    if any(out < 1 and size for out, size in zip(outputs, shape, strict=True)):
        raise NodeError(f"found an output of shape {outputs}, expected sizes of 1 or more")
    if any(out and not size for out, size in zip(outputs, shape, strict=True)):
        raise NodeError(f"found an output of shape {outputs} for an empty input, expected an empty output")
    return outputs, scales


def _interpolated(value: SSAValue, axis: int, weights: Array, sampling: Sampling, build: Builder) -> SSAValue:
    """Interpolate along a dimension: `dot_general` with the weights, then `transpose`."""
    shape = shape_of(value)
    rank = len(shape)
    matrix = build.constant(weights.astype(element_dtype(element_of(value))))
    kept = [other for other in range(rank) if other != axis]
    made = [*(shape[other] for other in kept), weights.shape[1]]
    product = DotGeneralOp(value, matrix, with_shape(value, made), DotDimensions((), (), (axis,), (0,)))
    if sampling.is_plainly_linear:
        product.attributes[RESIZED] = IntegerAttr(axis, i64)
    result = build.insert(product)
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return result if axis == rank - 1 else build.insert(TransposeOp(result, order))
