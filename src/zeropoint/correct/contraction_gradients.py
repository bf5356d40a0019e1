"""Contractions in f32 with their gradients, as matrix products over windows of the input.

A contraction maps an input x and a weight matrix w (groups, outputs, terms), as in `geometry.py`, to sums (positions,
channels). For a gradient e of the sums, the gradients are

    dw[g, o, t] = sum over p of e[p, g, o] * x[g, p, t]        dx[g, p, t] = sum over o of e[p, g, o] * w[g, o, t]

dx is summed where windows overlap. Features are the innermost dimension during the computation, so that a tap for all
positions is one slice of the image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zeropoint.correct.geometry import ConvolutionGeometry, Geometry, ProductGeometry
from zeropoint.interp.movement import padded
from zeropoint.ir.tensors import Array

Gradients = Callable[[Array, bool], tuple[Array, Array | None]]
"""Maps the gradient of the sums (positions, channels) to that of the weight matrix and, if requested, of the input."""
Slices = tuple[slice, ...]


class Differentiable(Protocol):
    """A contraction with gradients."""

    def sums(self, x: Array, matrix: Array) -> tuple[Array, Gradients]:
        """The sums (positions, channels) of an input, and the function for their gradients."""
        ...

    def result(self, sums: Array, shape: tuple[int, ...]) -> Array:
        """The result with these sums (positions, channels), in the given shape. A view."""
        ...

    def sums_of(self, result: Array) -> Array:
        """The inverse of `result`."""
        ...


def differentiable(geometry: Geometry) -> Differentiable | None:
    """The contraction of a geometry with gradients; None if it crops its input."""
    if isinstance(geometry, ProductGeometry):
        return Product(geometry)
    if not isinstance(geometry, ConvolutionGeometry) or any(min(pair) < 0 for pair in geometry.convolution.padding):
        return None
    return WindowedContraction(geometry)


@dataclass(frozen=True)
class Product:
    """A matrix product."""

    geometry: ProductGeometry

    def sums(self, x: Array, matrix: Array) -> tuple[Array, Gradients]:
        contracted = self.geometry.contracted
        last = tuple(range(-len(contracted), 0))
        turned = np.moveaxis(x, contracted, last)
        rows = turned.reshape(-1, matrix.shape[2])

        def gradients(error: Array, through: bool) -> tuple[Array, Array | None]:
            back = np.moveaxis((error @ matrix[0]).reshape(turned.shape), last, contracted) if through else None
            return (error.T @ rows)[None], back

        return rows @ matrix[0].T, gradients

    def result(self, sums: Array, shape: tuple[int, ...]) -> Array:
        return sums.reshape(shape)

    def sums_of(self, result: Array) -> Array:
        return result.reshape(-1, result.shape[-1])


@dataclass(frozen=True)
class WindowedContraction:
    """A convolution."""

    geometry: ConvolutionGeometry

    def sums(self, x: Array, matrix: Array) -> tuple[Array, Gradients]:
        layout = self.geometry.convolution.layout
        order = (layout.input_batch_dimension, *layout.input_spatial_dimensions, layout.input_feature_dimension)
        turned = x.transpose(order)
        image = self._padded(turned)
        form = _depthwise if matrix.shape[1:] == (1, math.prod(self.geometry.taps)) else _dense
        sums, inner = form(image, matrix, self._windows(image))

        def gradients(error: Array, through: bool) -> tuple[Array, Array | None]:
            weight, back = inner(error, through)
            return weight, None if back is None else back[self._inside(turned)].transpose(np.argsort(order))

        return sums, gradients

    def result(self, sums: Array, shape: tuple[int, ...]) -> Array:
        order = self._result_order
        return sums.reshape([shape[dim] for dim in order]).transpose(np.argsort(order))

    def sums_of(self, result: Array) -> Array:
        turned = result.transpose(self._result_order)
        return turned.reshape(-1, turned.shape[-1])

    @property
    def _result_order(self) -> tuple[int, ...]:
        layout = self.geometry.convolution.layout
        return layout.output_batch_dimension, *layout.output_spatial_dimensions, layout.output_feature_dimension

    def _padded(self, image: Array) -> Array:
        form = self.geometry.convolution
        if not any(side for pair in form.padding for side in pair) and all(step == 1 for step in form.lhs_dilation):
            return np.ascontiguousarray(image)
        edges = [(0, 0), *form.padding, (0, 0)]
        return padded(image, edges, 0, [0, *(step - 1 for step in form.lhs_dilation), 0])

    def _inside(self, image: Array) -> Slices:
        """The position of the image within the padded one."""
        form = self.geometry.convolution
        return (
            slice(None),
            *(
                slice(low, low + (size - 1) * step + 1, step)
                for (low, _), size, step in zip(form.padding, image.shape[1:-1], form.lhs_dilation, strict=True)
            ),
        )

    def _windows(self, image: Array) -> list[Slices]:
        """For each tap, the elements of a padded image that are multiplied by it."""
        form, sizes = self.geometry.convolution, self.geometry.sizes
        return [
            (
                slice(None),
                *(
                    slice(at * by, at * by + (size - 1) * stride + 1, stride)
                    for at, by, size, stride in zip(tap, form.rhs_dilation, sizes, form.strides, strict=True)
                ),
            )
            for tap in itertools.product(*map(range, self.geometry.taps))
        ]


def _depthwise(image: Array, matrix: Array, windows: list[Slices]) -> tuple[Array, Gradients]:
    """One input and one output per group: one product per tap."""
    taps = np.ascontiguousarray(matrix[:, 0].T)  # (taps, channels)
    total = image[windows[0]] * taps[0]
    buffer = np.empty_like(total)
    for window, tap in zip(windows[1:], taps[1:], strict=True):
        total += np.multiply(image[window], tap, out=buffer)

    def gradients(error: Array, through: bool) -> tuple[Array, Array | None]:
        error = error.reshape(total.shape)
        ones = np.ones(error.size // error.shape[-1], np.float32)
        weight = np.empty_like(taps)
        back = np.zeros_like(image) if through else None
        for number, window in enumerate(windows):
            np.multiply(image[window], error, out=buffer)
            weight[number] = ones @ buffer.reshape(-1, error.shape[-1])
            if back is not None:
                back[window] += np.multiply(error, taps[number], out=buffer)
        return weight.T[:, None], back

    return total.reshape(-1, total.shape[-1]), gradients


def _dense(image: Array, matrix: Array, windows: list[Slices]) -> tuple[Array, Gradients]:
    """Groups of several inputs or outputs: all windows are rows of a matrix."""
    groups, outputs, terms = matrix.shape
    count, inner = len(windows), terms // len(windows)
    sizes = image[windows[0]].shape[:-1]
    columns = np.empty((groups, math.prod(sizes), count, inner), np.float32)
    for number, window in enumerate(windows):
        columns[:, :, number] = image[window].reshape(-1, groups, inner).swapaxes(0, 1)
    rows = columns.reshape(groups, -1, terms)
    weight = _taps_first(matrix, count)
    made = np.matmul(rows, weight.swapaxes(1, 2)).swapaxes(0, 1)

    def gradients(error: Array, through: bool) -> tuple[Array, Array | None]:
        error = error.reshape(-1, groups, outputs).swapaxes(0, 1)
        slope = np.matmul(error.swapaxes(1, 2), rows)
        slope = slope.reshape(groups, outputs, count, inner).swapaxes(2, 3).reshape(matrix.shape)
        if not through:
            return slope, None
        spread = np.matmul(error, weight).reshape(groups, -1, count, inner)
        back = np.zeros_like(image)
        for number, window in enumerate(windows):
            back[window] += spread[:, :, number].swapaxes(0, 1).reshape(*sizes, -1)
        return slope, back

    return np.ascontiguousarray(made.reshape(made.shape[0], -1)), gradients


def _taps_first(matrix: Array, taps: int) -> Array:
    """A matrix whose terms are ordered by taps, then features, instead of features, then taps."""
    groups, outputs, terms = matrix.shape
    split: Array = matrix.reshape(groups, outputs, terms // taps, taps)
    return split.swapaxes(2, 3).reshape(groups, outputs, terms)
