"""The inputs, weights and results of a contraction as matrices: rows of positions, terms and outputs.

A convolution of G groups is y[g, p, o] = sum over t of x[g, p, t] * w[g, o, t], where p is an output position and t
runs over the input features and the taps of a group; a fully connected layer is one group.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zeropoint.interp.convolution import Convolution
from zeropoint.interp.movement import padded
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of


class Geometry(Protocol):
    """Conversion of a contraction's inputs, weights and results to and from matrices."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        """The rows (groups, positions, terms) of an input; `fill` is the padding value."""
        ...

    def matrix(self, weight: Array) -> Array:
        """The matrix (groups, outputs, terms) of a weight."""
        ...

    def weight(self, matrix: Array, like: Array) -> Array:
        """The inverse of `matrix`: a weight in the shape of `like`."""
        ...

    def results(self, y: Array, positions: Array) -> Array:
        """The rows (positions, channels) of a result; channels are ordered by group, then output."""
        ...

    def positions(self, shape: tuple[int, ...]) -> int:
        """The number of output positions of a result of that shape."""
        ...


@dataclass(frozen=True)
class ConvolutionGeometry:
    """A convolution in any layout, with strides, padding, dilations and feature groups."""

    convolution: Convolution
    taps: tuple[int, ...]
    sizes: tuple[int, ...]
    """Spatial sizes of the output."""

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        layout, form = self.convolution.layout, self.convolution
        x = x.transpose(layout.input_batch_dimension, layout.input_feature_dimension, *layout.input_spatial_dimensions)
        if any(side for pair in form.padding for side in pair) or any(step > 1 for step in form.lhs_dilation):
            x = padded(x, [(0, 0), (0, 0), *form.padding], fill, [0, 0, *(step - 1 for step in form.lhs_dilation)])
        image, *corner = np.unravel_index(positions, (x.shape[0], *self.sizes))
        starts = [at * stride for at, stride in zip(corner, form.strides, strict=True)]
        found = np.empty((len(positions), x.shape[1], math.prod(self.taps)), x.dtype)
        for number, tap in enumerate(itertools.product(*map(range, self.taps))):
            indices = [at + step * by for at, step, by in zip(starts, tap, form.rhs_dilation, strict=True)]
            found[:, :, number] = x[(image, slice(None), *indices)]
        groups = form.feature_groups
        return found.reshape(len(positions), groups, -1).swapaxes(0, 1)

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
    """A matrix product; `contracted` and `weight_contracted` are the dimensions of each side that are summed over."""

    contracted: tuple[int, ...]
    weight_contracted: tuple[int, ...]

    def rows(self, x: Array, positions: Array, fill: int = 0) -> Array:
        terms = math.prod(x.shape[dim] for dim in self.contracted)
        return np.moveaxis(x, self.contracted, range(-len(self.contracted), 0)).reshape(-1, terms)[None, positions]

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


def geometry_of(op: ConvolutionOp | DotGeneralOp) -> Geometry | None:
    """The geometry of an op; None for products with batch dimensions and convolutions with batch groups."""
    if isinstance(op, DotGeneralOp):
        dimensions = op.dot_dimension_numbers.data
        if dimensions.lhs_batching_dimensions:
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
