"""The inputs, weights and results of a contraction as matrices: rows of positions, terms and outputs.

A convolution of G groups is y[g, p, o] = sum over t of x[g, p, t] * w[g, o, t]. Here p is an output position, and t
runs over the input features and the taps of a group. A fully connected layer is one group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zeropoint.interp.convolution import Convolution
from zeropoint.interp.movement import padded
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of


class Geometry(Protocol):
    """Converts a contraction's inputs, weights and results to and from matrices."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        """The rows (groups, positions, terms) of an input. `fill` is the padding value."""
        ...

    def mean_row(self, x: Array, positions: Array) -> Array:
        """The mean of `rows` over the positions, (groups, 1, terms), f64."""
        ...

    def terms(self, several: Sequence[Array], positions: Sequence[Array], fill: int = 0) -> Array:
        """The rows of several inputs, one after the other, (positions, terms, groups)."""
        ...

    def matrix(self, weight: Array) -> Array:
        """The matrix (groups, outputs, terms) of a weight."""
        ...

    def weight(self, matrix: Array, like: Array) -> Array:
        """The inverse of `matrix`: a weight in the shape of `like`."""
        ...

    def results(self, y: Array, positions: Array) -> Array:
        """The rows (positions, channels) of a result. Channels are ordered by group, then by output."""
        ...

    def positions(self, shape: tuple[int, ...]) -> int:
        """The number of output positions of a result of this shape."""
        ...


@dataclass(frozen=True)
class ConvolutionGeometry:
    """A convolution in any layout, with strides, padding, dilations and feature groups."""

    convolution: Convolution
    taps: tuple[int, ...]
    sizes: tuple[int, ...]
    """Spatial sizes of the output."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        if not self._takes_pixels(x):
            x, starts, steps = self._windows(x, positions, fill)
            found = np.empty((len(positions), len(x), len(steps)), x.dtype)
            for number, step in enumerate(steps):
                found[:, :, number] = x.T[starts + step]
        else:
            # Only the pixels of these positions: padding and reordering a whole image takes longer.
            taken = self._taken([x.transpose(self._channels_last)], [positions], fill)
            found = taken.reshape(len(positions), -1, taken.shape[-1]).swapaxes(1, 2)
        return found.reshape(len(positions), self.convolution.feature_groups, -1).swapaxes(0, 1)

    def mean_row(self, x: Array, positions: Array) -> Array:
        groups = self.convolution.feature_groups
        terms = math.prod(self.taps) * x.shape[self.convolution.layout.input_feature_dimension] // groups
        if terms == 1 or not self._takes_pixels(x):
            return _mean(self.rows(x, positions))
        # Pixel by pixel, as they are in memory. The numbers of each term are added in the same order.
        taken = self._taken([x.transpose(self._channels_last)], [positions], 0)
        mean = taken.mean(axis=0, dtype=np.float64).reshape(-1, taken.shape[-1])
        return mean.T.reshape(groups, 1, terms)

    def _takes_pixels(self, x: Array) -> bool:
        """Whether every tap is at a pixel of the input or in the padding around it."""
        return max(self.convolution.lhs_dilation, default=1) == 1 and x.size > 0

    def terms(self, several: Sequence[Array], positions: Sequence[Array], fill: int = 0) -> Array:
        groups, order = self.convolution.feature_groups, self._channels_last
        adjacent = all(x.strides[order[-1]] == x.itemsize for x in several)
        if not adjacent or max(self.convolution.lhs_dilation, default=1) > 1:
            found = (self._columns(x, at, fill) for x, at in zip(several, positions, strict=True))
            return np.concatenate([columns.transpose(2, 1, 0) for columns in found])
        # Channels are adjacent: whole pixels are taken.
        taken = self._taken([x.transpose(order) for x in several], positions, fill)
        taps, features = math.prod(self.taps), taken.shape[-1] // groups
        grouped = taken.reshape(len(taken), taps, groups, features)
        return grouped.transpose(0, 3, 1, 2).reshape(len(taken), features * taps, groups)

    @property
    def _channels_last(self) -> tuple[int, ...]:
        """The dimensions of the input: batch, spatial ones, features."""
        layout = self.convolution.layout
        return layout.input_batch_dimension, *layout.input_spatial_dimensions, layout.input_feature_dimension

    def _taken(self, several: Sequence[Array], positions: Sequence[Array], fill: int) -> Array:
        """The pixels under the taps of positions, (positions, taps of each dimension, features), of images with
        channels last."""
        places, inside = self._pixels(several[0].shape[:-1], np.concatenate(positions))
        taken = np.empty((len(inside), *self.taps, several[0].shape[-1]), several[0].dtype)
        ends = np.cumsum([len(some) for some in positions])
        for x, end, some in zip(several, ends, positions, strict=True):
            part = slice(end - len(some), end)
            taken[part] = x[tuple(place[part] for place in places)]
        if not inside.all():
            taken[~inside] = fill
        return taken

    def _columns(self, x: Array, positions: Array, fill: int) -> Array:
        """The input rows as columns, (groups, terms, positions)."""
        x, starts, steps = self._windows(x, positions, fill)
        if len(steps) == 1 and len(starts) == x.shape[1] and (starts[1:] > starts[:-1]).all():
            found = x  # every pixel, in order
        else:
            found = np.empty((len(x), len(steps), len(positions)), x.dtype)
            for number, step in enumerate(steps):
                found[:, number] = x.take(starts + step, axis=1)
        return found.reshape(self.convolution.feature_groups, -1, len(positions))

    def _pixels(self, shape: Sequence[int], positions: Array) -> tuple[tuple[Array, ...], Array]:
        """The indices of the pixel under each tap of each position of images (batch, ...), and whether it is inside.

        The arrays broadcast to (positions, taps of each dimension). A tap in the padding gets the nearest pixel.
        """
        image, *corner = np.unravel_index(positions, (shape[0], *self.sizes))
        places: list[Array] = [image.reshape(-1, *(1 for _ in self.taps))]
        inside: Array = np.ones((len(positions), *self.taps), np.bool_)
        dims = zip(corner, shape[1:], self.taps, self.convolution.strides, strict=True)
        for dim, (at, size, taps, stride) in enumerate(dims):
            steps = np.arange(taps) * self.convolution.rhs_dilation[dim] - self.convolution.padding[dim][0]
            place = (at[:, None] * stride + steps).reshape(
                len(positions), *(taps if dim == other else 1 for other in range(len(self.taps)))
            )
            kept = np.clip(place, 0, size - 1)
            places.append(kept)
            inside &= kept == place
        return tuple(places), inside

    def _windows(self, x: Array, positions: Array, fill: int) -> tuple[Array, Array, Array]:
        """The padded input (features, pixels), the first pixel of each window, and the offset of each tap."""
        layout, form = self.convolution.layout, self.convolution
        x = x.transpose(layout.input_feature_dimension, layout.input_batch_dimension, *layout.input_spatial_dimensions)
        if any(side for pair in form.padding for side in pair) or any(step > 1 for step in form.lhs_dilation):
            x = padded(x, [(0, 0), (0, 0), *form.padding], fill, [0, 0, *(step - 1 for step in form.lhs_dilation)])
        strides = [math.prod(x.shape[dim + 1 :]) for dim in range(1, x.ndim)]
        image, *corner = np.unravel_index(positions, (x.shape[1], *self.sizes))
        starts = image * strides[0]
        for at, stride, pixels in zip(corner, form.strides, strides[1:], strict=True):
            starts = starts + at * stride * pixels
        taps = np.indices(self.taps).reshape(len(self.taps), math.prod(self.taps))
        steps = np.array(form.rhs_dilation, np.int64) * np.array(strides[1:], np.int64) @ taps
        return x.reshape(len(x), -1), starts, steps

    def matrix(self, weight: Array) -> Array:
        made = self.convolution.weights(weight)
        return made.reshape(*made.shape[:2], -1)

    def weight(self, matrix: Array, like: Array) -> Array:
        made = np.empty(like.shape, matrix.dtype)
        positions: Array = np.arange(like.size)
        order = self.convolution.weights(positions.reshape(like.shape))
        made.reshape(-1)[order.reshape(-1)] = matrix.reshape(-1)
        return made

    def results(self, y: Array, positions: Array) -> Array:
        layout = self.convolution.layout
        dims = (layout.output_batch_dimension, *layout.output_spatial_dimensions)
        image, *indices = np.unravel_index(positions, [y.shape[dim] for dim in dims])
        y = y.transpose(
            layout.output_batch_dimension, layout.output_feature_dimension, *layout.output_spatial_dimensions
        )
        return y[(image, slice(None), *indices)]

    def positions(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) // shape[self.convolution.layout.output_feature_dimension]


@dataclass(frozen=True)
class ProductGeometry:
    """A matrix product. `contracted` and `weight_contracted` are the dimensions of each side that are summed over."""

    contracted: tuple[int, ...]
    weight_contracted: tuple[int, ...]

    def terms(self, several: Sequence[Array], positions: Sequence[Array], fill: int = 0) -> Array:
        found = [self.rows(x, at, fill) for x, at in zip(several, positions, strict=True)]
        return np.concatenate(found, axis=1).transpose(1, 2, 0)

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        terms = math.prod(x.shape[dim] for dim in self.contracted)
        return np.moveaxis(x, self.contracted, range(-len(self.contracted), 0)).reshape(-1, terms)[None, positions]

    def mean_row(self, x: Array, positions: Array) -> Array:
        return _mean(self.rows(x, positions))

    def matrix(self, weight: Array) -> Array:
        terms = math.prod(weight.shape[dim] for dim in self.weight_contracted)
        last = range(-len(self.weight_contracted), 0)
        return np.moveaxis(weight, self.weight_contracted, last).reshape(1, -1, terms)

    def weight(self, matrix: Array, like: Array) -> Array:
        made = np.empty(like.shape, matrix.dtype)
        positions: Array = np.arange(like.size)
        order = self.matrix(positions.reshape(like.shape))
        made.reshape(-1)[order.reshape(-1)] = matrix.reshape(-1)
        return made

    def results(self, y: Array, positions: Array) -> Array:
        return y.reshape(-1, y.shape[-1])[positions]

    def positions(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1])


def _mean(rows: Array) -> Array:
    """The mean over positions. Rows are contiguous, so that it does not depend on the layout of the operand."""
    return np.ascontiguousarray(rows).mean(axis=1, keepdims=True, dtype=np.float64)


def geometry_of(op: ConvolutionOp | DotGeneralOp) -> Geometry | None:
    """The geometry of an op; None for convolutions with batch groups, and for products with batch dimensions or with
    output channels in several dimensions (an einsum `ibh,hnd->ibnd`)."""
    if isinstance(op, DotGeneralOp):
        dimensions = op.dot_dimension_numbers.data
        free = len(shape_of(op.rhs)) - len(dimensions.rhs_contracting_dimensions)
        if dimensions.lhs_batching_dimensions or free != 1:
            return None
        return ProductGeometry(
            tuple(dimensions.lhs_contracting_dimensions), tuple(dimensions.rhs_contracting_dimensions)
        )
    form = Convolution.of(op)
    if form.batch_groups != 1:
        return None
    rhs, out = shape_of(op.rhs), shape_of(op.result)
    taps = tuple(rhs[dim] for dim in form.layout.kernel_spatial_dimensions)
    return ConvolutionGeometry(form, taps, tuple(out[dim] for dim in form.layout.output_spatial_dimensions))
