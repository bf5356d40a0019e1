"""Ops that interpolate a tensor at computed positions: `GridSample` and `RoiAlign`.

The tensor becomes a table with one row of channels for each element. A `gather` reads the rows of the elements around a
position. They are multiplied by weights, each the product of one weight per dimension, and added.

Source: the ONNX operator specification; the cubic weights are those of Keys, "Cubic convolution interpolation for
digital image processing", with a = -0.75.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.indexing import gathered
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    AndOp,
    ClampOp,
    ComparisonDirection,
    DotDimensions,
    DotGeneralOp,
    FloorOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OrOp,
    RemainderOp,
    RoundNearestEvenOp,
    SelectOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_shape

MODES = {"linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic", "nearest": "nearest"}
"""The interpolations by mode. The names with `bi` are those of opset 16."""
PADDINGS = ("zeros", "border", "reflection")
_A = -0.75
_CUBIC = ((-4 * _A, 8 * _A, -5 * _A, _A), (1.0, 0.0, -(_A + 3), _A + 2))
"""The cubic weights as polynomials in the distance, in ascending powers: of the outer and of the nearest elements."""


def plus(value: SSAValue, number: float, build: Builder) -> SSAValue:
    """A value plus a number."""
    return build.apply(AddOp, value, build.splat(number, value))


def times(value: SSAValue, number: float, build: Builder) -> SSAValue:
    """A value times a number."""
    return build.apply(MultiplyOp, value, build.splat(number, value))


def clamped(value: SSAValue, low: float, high: float, build: Builder) -> SSAValue:
    """A value between two numbers."""
    return build.insert(ClampOp(build.scalar(low, value), value, build.scalar(high, value)))


def _outside(value: SSAValue, low: float, high: float, build: Builder) -> SSAValue:
    below = build.compare(ComparisonDirection.LT, value, low)
    return build.apply(OrOp, below, build.compare(ComparisonDirection.GT, value, high))


@dataclass(frozen=True)
class Tap:
    """An element near a position along one dimension: its i32 index, its f32 weight, and whether it exists.

    `weight` is None if it is 1, and `exists` is None if all elements exist. Indices are always inside the dimension.
    """

    index: SSAValue
    weight: SSAValue | None = None
    exists: SSAValue | None = None


@dataclass(frozen=True)
class Interpolation:
    """The interpolation between elements, and the padding mode for positions outside of the tensor."""

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = True

    def taps(self, position: SSAValue, size: int, build: Builder) -> list[Tap]:
        """The elements that determine the value at f32 positions along a dimension of `size` elements."""
        if self.mode == "nearest":
            position = build.apply(RoundNearestEvenOp, position)
        position = self._moved_inside(position, size, build)
        if self.mode == "nearest":
            return [self._tap(position, None, size, build)]
        first = build.apply(FloorOp, position)
        share = build.apply(SubtractOp, position, first)
        rest = plus(times(share, -1, build), 1, build)
        if self.mode == "linear":
            return [self._tap(first, rest, size, build), self._tap(plus(first, 1, build), share, size, build)]
        distances = (plus(share, 1, build), share, rest, plus(rest, 1, build))
        return [
            self._tap(
                plus(first, number - 1, build), _polynomial(distance, _CUBIC[number in (1, 2)], build), size, build
            )
            for number, distance in enumerate(distances)
        ]

    def _ends(self, size: int) -> tuple[float, float]:
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def _moved_inside(self, position: SSAValue, size: int, build: Builder) -> SSAValue:
        """Positions with those beyond the ends mirrored or clamped.

        With cubic weights and the padding `border`, only the elements around a position are clamped, as in PyTorch and
        onnxruntime.
        """
        if self.padding == "zeros" or (self.padding, self.mode) == ("border", "cubic"):
            return position
        if self.padding == "border":
            return clamped(position, 0, size - 1, build)
        outside = _outside(position, *self._ends(size), build)
        return build.apply(SelectOp, outside, self._reflected(position, size, build), position)

    def _reflected(self, position: SSAValue, size: int, build: Builder) -> SSAValue:
        """Positions mirrored at both ends as often as needed (a triangle wave)."""
        low, high = self._ends(size)
        if high <= low:
            return build.splat(low, position)
        period = build.splat(2 * (high - low), position)
        along = build.apply(RemainderOp, build.apply(AbsOp, plus(position, -low, build)), period)
        return plus(build.apply(MinimumOp, along, build.apply(SubtractOp, period, along)), low, build)

    def _tap(self, coordinate: SSAValue, weight: SSAValue | None, size: int, build: Builder) -> Tap:
        exists = None
        if self.padding == "zeros":
            above = build.compare(ComparisonDirection.GE, coordinate, 0)
            exists = build.apply(AndOp, above, build.compare(ComparisonDirection.LE, coordinate, size - 1))
        elif self.padding == "reflection":
            coordinate = self._reflected(coordinate, size, build)
        return Tap(converted(clamped(coordinate, 0, size - 1, build), i32, build), weight, exists)


def _polynomial(value: SSAValue, factors: Sequence[float], build: Builder) -> SSAValue:
    """A polynomial by Horner's rule. The factors are in ascending order of powers."""
    *others, last = factors
    result = build.splat(last, value)
    for factor in reversed(others):
        result = plus(build.apply(MultiplyOp, result, value), factor, build)
    return result


def table_of(value: SSAValue, build: Builder) -> SSAValue:
    """A tensor [N, C, ...] as a table with a row of C numbers for each element: [N * ..., C]."""
    batch, channels, *sizes = shape_of(value)
    last = build.insert(TransposeOp(value, [0, *range(2, 2 + len(sizes)), 1]))
    return build.reshape(last, [batch * prod(sizes), channels])


def terms(
    table: SSAValue, start: SSAValue | None, sizes: Sequence[int], along: Sequence[Sequence[Tap]], build: Builder
) -> Iterator[SSAValue]:
    """The rows of the table times their weights, [positions..., C], for each combination of taps, one per dimension.

    `start` is the i32 index of the first row of a batch. The taps have the shape of the positions.
    """
    for taps in product(*along):
        index = taps[0].index
        for tap, size in zip(taps[1:], sizes[1:], strict=True):
            index = build.apply(AddOp, times(index, size, build), tap.index)
        rows = gathered(table, index if start is None else build.apply(AddOp, index, start), 0, build)
        weights = [tap.weight for tap in taps if tap.weight is not None]
        masks = [tap.exists for tap in taps if tap.exists is not None]
        exists = reduce(lambda a, b: build.apply(AndOp, a, b), masks) if masks else None
        every = list(range(len(shape_of(index))))
        if weights:
            weight = reduce(lambda a, b: build.apply(MultiplyOp, a, b), weights)
            if exists is not None:
                weight = build.apply(SelectOp, exists, weight, build.splat(0, weight))
            rows = build.apply(MultiplyOp, rows, build.broadcast(weight, rows.type, every))
        elif exists is not None:
            mask = broadcast_to(build.reshape(exists, [*shape_of(exists), 1]), shape_of(rows), build)
            rows = build.apply(SelectOp, mask, rows, build.splat(0, rows))
        yield rows


def sampled(value: SSAValue, positions: Sequence[SSAValue], how: Interpolation, build: Builder) -> SSAValue:
    """A tensor [N, C, ...] interpolated at f32 positions [N, P...] along each spatial dimension: [N, P..., C]."""
    sizes, shape = shape_of(value)[2:], shape_of(positions[0])
    along = [how.taps(position, size, build) for position, size in zip(positions, sizes, strict=True)]
    start = times(build.iota(shape, 0, i32), prod(sizes), build) if shape[0] > 1 else None
    return reduce(lambda a, b: build.apply(AddOp, a, b), terms(table_of(value, build), start, sizes, along, build))


def grid_sample(node: OnnxNode, build: Builder) -> SSAValue:
    """`GridSample`: the input at the positions of a grid. Numbers from -1 to 1 span the input.

    The last dimension of the grid has a position for each spatial dimension, in reverse order.
    """
    value, grid = node.operand(0), node.operand(1)
    sizes, shape = shape_of(value)[2:], shape_of(grid)
    rank = len(sizes)
    if not rank or len(shape) != rank + 2 or shape[-1] != rank or shape[0] != shape_of(value)[0]:
        raise NodeError(
            f"found shapes {list(shape_of(value))} and {list(shape)}, expected [N, C, ...] and a grid [N, ..., {rank}]"
        )
    mode = MODES[node.choice("mode", "linear", MODES)]
    how = Interpolation(mode, node.choice("padding_mode", "zeros", PADDINGS), bool(node.integer("align_corners", 0)))
    positions: list[SSAValue] = []
    for axis, size in enumerate(sizes):
        number = rank - 1 - axis
        part = build.reshape(part_of(grid, rank + 1, range(number, number + 1), build), shape[:-1])
        shifted = plus(part, 1, build)
        if how.align_corners:
            positions.append(times(times(shifted, 0.5, build), size - 1, build))
        else:
            positions.append(times(plus(times(shifted, size, build), -1, build), 0.5, build))
    result = sampled(value, positions, how, build)
    return build.insert(TransposeOp(result, [0, rank + 1, *range(1, rank + 1)]))


def affine_grid(node: OnnxNode, build: Builder) -> SSAValue:
    """`AffineGrid`: the centers of the elements of a tensor, each times a matrix [rank, rank + 1] per sample.

    The function body of the specification squeezes a batch of one away.
    """
    theta, size = node.operand(0), node.integers_at(1, "size")
    rank = 0 if size is None else len(size) - 2
    if size is None or rank < 1 or shape_of(theta) != (size[0], rank, rank + 1):
        found = "no size" if size is None else f"size {list(size)} and a matrix of shape {list(shape_of(theta))}"
        raise NodeError(f"found {found}, expected [N, C, ...] and [N, rank, rank + 1]")
    dtype, corners = element_dtype(element_of(theta)), bool(node.integer("align_corners", 0))
    along = [_centers(count, corners) for count in reversed(size[2:])]
    spread = [each.transpose() for each in np.meshgrid(*along, indexing="ij")]
    points = np.stack([*spread, np.ones(size[2:])], -1).reshape(-1, rank + 1)
    columns = with_shape(theta, [len(points), size[0], rank])
    product = DotGeneralOp(build.constant(points.astype(dtype)), theta, columns, DotDimensions((), (), (1,), (2,)))
    grid = build.insert(TransposeOp(build.insert(product), [1, 0, 2]))
    return build.reshape(grid, [size[0], *size[2:], rank])


def _centers(count: int, corners: bool) -> Array:
    """The centers of elements that span -1 to 1; with `corners`, those of the first and last are the ends."""
    if corners:
        return np.linspace(-1.0, 1.0, count)  # like ONNX: -1 if there is one
    return (2 * np.arange(count) + 1) / count - 1


def roi_align(node: OnnxNode, build: Builder) -> SSAValue:
    """`RoiAlign`: each box of an image is divided into bins. A bin is the mean or maximum of a fixed number of samples.

    With a `sampling_ratio` of 0, the number of samples depends on the boxes. This is not supported.
    """
    value, boxes, batches = node.operand(0), node.operand(1), node.operand(2)
    if len(shape_of(value)) != 4 or len(shape_of(boxes)) != 2:
        found = f"{list(shape_of(value))} and boxes of shape {list(shape_of(boxes))}"
        raise NodeError(f"found shape {found}, expected [N, C, H, W] and boxes of shape [count, 4]")
    _, channels, *sizes = shape_of(value)
    count, ratio = shape_of(boxes)[0], node.integer("sampling_ratio", 0)
    mode = node.choice("mode", "avg", ("avg", "max"))
    newest = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    half = node.choice("coordinate_transformation_mode", newest, ("half_pixel", "output_half_pixel")) == "half_pixel"
    if ratio < 1:
        raise NodeError(
            f"found sampling_ratio {ratio}, with which the number of samples depends on the boxes; expected 1 or more"
        )
    bins = (node.integer("output_height", 1), node.integer("output_width", 1))
    scaled = times(boxes, node.number("spatial_scale", 1.0), build)
    shape = [count, bins[0] * ratio, bins[1] * ratio]
    along: list[list[Tap]] = []
    for axis in range(2):
        first, last = (
            build.reshape(part_of(scaled, 1, range(column, column + 1), build), [count])
            for column in (1 - axis, 3 - axis)
        )
        extent = build.apply(SubtractOp, last, first)
        extent = extent if half else build.apply(MaximumOp, extent, build.splat(1, extent))
        start = plus(first, -0.5, build) if half else first
        samples = (np.arange(bins[axis] * ratio) + 0.5) / (ratio * bins[axis])
        share = build.constant(samples.astype(np.float32))
        row = [count, len(samples)]
        steps = build.apply(MultiplyOp, *(_spread(part, row, [at], build) for at, part in enumerate((extent, share))))
        position = build.apply(AddOp, steps, _spread(start, row, [0], build))
        along.append(_taps_in_box(_spread(position, shape, [0, 1 + axis], build), sizes[axis], build))
    start = _spread(times(converted(batches, i32, build), prod(sizes), build), shape, [0], build)
    found = terms(table_of(value, build), start, sizes, along, build)
    op = AddOp if mode == "avg" else MaximumOp
    corners = reduce(lambda a, b: build.apply(op, a, b), found)
    apart = build.reshape(corners, [count, bins[0], ratio, bins[1], ratio, channels])
    result = build.reduce(apart, [2, 4], 0 if mode == "avg" else -np.inf, op)
    result = times(result, 1 / ratio**2, build) if mode == "avg" else result
    return build.insert(TransposeOp(result, [0, 3, 1, 2]))


def _spread(value: SSAValue, shape: Sequence[int], dimensions: Sequence[int], build: Builder) -> SSAValue:
    """`broadcast_in_dim` to a shape."""
    return build.broadcast(value, with_shape(value, shape), dimensions)


def _taps_in_box(position: SSAValue, size: int, build: Builder) -> list[Tap]:
    """The two elements next to a sample. A sample up to 1 outside of the image is clamped; others have no elements."""
    outside = _outside(position, -1, size, build)
    inside = clamped(position, 0, size - 1, build)
    return [
        Tap(tap.index, build.apply(SelectOp, outside, build.splat(0, inside), weight))
        for tap in Interpolation(padding="border").taps(inside, size, build)
        if (weight := tap.weight) is not None
    ]
