"""The sum of products of a convolution, computed by matrix products in the dtype of the arrays.

Source: the StableHLO specification, "convolution". lhs is padded and dilated first. Any layout is transposed to
x[N, G*I, spatial] and w[G, O, I, spatial], with G feature groups of I input and O output features each. The result
y[N, G*O, spatial] is transposed back.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from zeropoint.interp.movement import padded
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array

BLOCK_BYTES = 4 << 20
"""The size in bytes of the buffer of windows. It fits into the caches of a core."""

Sizes = tuple[int, ...]
Run = tuple[Sizes, int]
ProductFunction = Callable[[Array, Array], Array]
"""A batched matrix product like `np.matmul`."""


@dataclass(frozen=True)
class Convolution:
    """The attributes of a convolution. A `ContractionFunction` (see `zeropoint.interp.contraction`)."""

    weights_first: ClassVar[bool] = True
    layout: ConvolutionLayout
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]
    feature_groups: int
    batch_groups: int

    @staticmethod
    def of(op: ConvolutionOp) -> Convolution:
        """The attributes of `op`, with the specification's defaults for absent ones."""
        layout = op.dimension_numbers.data
        rank = len(layout.input_spatial_dimensions)
        ones, reversal = (1,) * rank, op.window_reversal
        return Convolution(
            layout,
            array_values(op.window_strides, ones),
            padding_values(op.padding, rank),
            array_values(op.lhs_dilation, ones),
            array_values(op.rhs_dilation, ones),
            (False,) * rank if reversal is None else tuple(bool(flag) for flag in reversal.get_values()),
            int(op.feature_group_count.value.data),
            int(op.batch_group_count.value.data),
        )

    def weights(self, rhs: Array) -> Array:
        """The kernel as a view w[G, O, I, spatial]. Dimensions with window reversal are reversed.

        Batch groups become feature groups; `apply` moves the batch groups of the input to its feature dimension.
        """
        layout = self.layout
        dims = (layout.kernel_output_feature_dimension, layout.kernel_input_feature_dimension)
        w = rhs.transpose(*dims, *layout.kernel_spatial_dimensions)
        # Window reversal is implemented by reversing the kernel.
        w = w[(slice(None), slice(None), *(slice(None, None, -1 if flag else 1) for flag in self.reversal))]
        groups = self.feature_groups * self.batch_groups
        return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])

    def apply(self, lhs: Array, weights: Array, product: ProductFunction = np.matmul) -> Array:
        """The result, of the shape given by (C25), in the common dtype of the arrays."""
        layout = self.layout
        x = lhs.transpose(
            layout.input_batch_dimension, layout.input_feature_dimension, *layout.input_spatial_dimensions
        )
        if self.batch_groups > 1:
            split = x.reshape(self.batch_groups, x.shape[0] // self.batch_groups, *x.shape[1:])
            # Each batch group becomes a feature group, so that one loop handles both kinds of groups.
            x = split.swapaxes(0, 1).reshape(split.shape[1], -1, *x.shape[2:])
        if any(side for pair in self.padding for side in pair) or any(step > 1 for step in self.lhs_dilation):
            edges = [(0, 0), (0, 0), *self.padding]
            x = padded(x, edges, 0, [0, 0, *(step - 1 for step in self.lhs_dilation)])
        y = _windows_times_weights(x, weights, self.strides, self.rhs_dilation, product)
        dims = (layout.output_batch_dimension, layout.output_feature_dimension, *layout.output_spatial_dimensions)
        return y.transpose(np.argsort(dims))


def _windows_times_weights(
    x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], product: ProductFunction
) -> Array:
    """y[n, g*o, p] = sum over i, k of x[n, g*i, p * strides + k * dilation] * w[g, o, i, k]."""
    groups, outputs, features, *kernel = w.shape
    sizes = [
        max((size - (taps - 1) * between - 1) // stride + 1, 0)
        for size, taps, between, stride in zip(x.shape[2:], kernel, dilation, strides, strict=True)
    ]
    if 0 in (x.shape[0], w.size, *sizes):
        return np.zeros((x.shape[0], groups * outputs, *sizes), x.dtype)
    # With one tap, the image is the matrix, and no windows are copied.
    if math.prod(kernel) == 1:
        points = x[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
        grouped = points.reshape(x.shape[0], groups, features, math.prod(sizes))
        y = product(w.reshape(groups, outputs, features), grouped)
    elif features == 1:
        return np.stack([_depthwise(image, w[:, :, 0], strides, dilation, sizes, product) for image in x])
    else:
        y = _im2col(x, w, strides, dilation, sizes, product)
    return y.reshape(x.shape[0], groups * outputs, *sizes)


def _im2col(
    x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], sizes: Sequence[int], product: ProductFunction
) -> Array:
    """im2col: copy the windows of a block of output rows into a matrix, features innermost, and multiply it by w."""
    groups, outputs, features, *kernel = w.shape
    terms, row = features * math.prod(kernel), math.prod(sizes[1:])
    matrix = np.moveaxis(w, 2, -1).reshape(groups, outputs, terms)
    grouped = x.reshape(x.shape[0], groups, features, *x.shape[2:])
    steps = grouped.strides[3:]
    windows = as_strided(
        grouped,
        (*grouped.shape[:2], *kernel, features, *sizes),
        (
            *grouped.strides[:2],
            *(step * between for step, between in zip(steps, dilation, strict=True)),
            grouped.strides[2],
            *(step * stride for step, stride in zip(steps, strides, strict=True)),
        ),
        writeable=False,
    )
    y = np.empty((x.shape[0], groups, outputs, sizes[0], row), x.dtype)
    # A block has as many output rows as keep the copied windows in the cache.
    rows = max(BLOCK_BYTES // (groups * terms * row * x.itemsize), 1)
    first_row = (slice(None),) * (2 + len(kernel))
    for image, columns in zip(y, windows, strict=True):
        for start in range(0, sizes[0], rows):
            block = columns[(*first_row, slice(start, start + rows))]
            count = block.shape[len(first_row)]
            sums = product(matrix, block.reshape(groups, terms, count * row))
            image[:, :, start : start + rows] = sums.reshape(groups, outputs, count, row)
    return y


def _depthwise(
    x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], sizes: Sequence[int], product: ProductFunction
) -> Array:
    """One input feature per group: y[c*o, p] = sum over k of x[c, p * strides + k * dilation] * w[c, o, k].

    The input is split into the phases of the strides. Each phase is a dense grid, which is flattened. In it, each tap k
    reads one contiguous run for all outputs, so that the columns of the matrix product are copied in long runs. A run
    includes the right margin of the grid. The outputs there are computed and discarded.
    """
    channels, outputs, *kernel = w.shape
    phases, grid = _phases(x, strides)
    length, runs = _runs(tuple(kernel), tuple(strides), tuple(dilation), tuple(sizes), grid)
    matrix = w.reshape(channels, outputs, len(runs))
    y = np.empty((channels, outputs, math.prod(grid)), x.dtype)
    block = min(max(BLOCK_BYTES // (len(runs) * length * x.itemsize), 1), channels)
    columns = np.empty((block, len(runs), length), x.dtype)
    for start in range(0, channels, block):
        count = min(block, channels - start)
        for tap, (phase, offset) in enumerate(runs):
            columns[:count, tap] = phases[phase][start : start + count, offset : offset + length]
        span = slice(start, start + count)
        y[span, :, :length] = product(matrix[span], columns[:count])
    y = y.reshape(channels * outputs, *grid)
    return y[(slice(None), *(slice(size) for size in sizes))]


def _phases(x: Array, strides: Sequence[int]) -> tuple[Array, tuple[int, ...]]:
    """x[C, spatial] as [phase..., C, grid positions], and the shape of the grid.

    Element p * stride + phase of x is at position p of the grid.
    """
    spatial = x.shape[1:]
    grid = tuple(-(-size // stride) for size, stride in zip(spatial, strides, strict=True))
    if any(stride > 1 for stride in strides):
        rest = [cells * stride - size for cells, stride, size in zip(grid, strides, spatial, strict=True)]
        # Padding, so that all phases have the same number of cells. No output reads the added cells.
        x = padded(x, [(0, 0), *((0, high) for high in rest)], 0)
    rank = len(grid)
    split = x.reshape(x.shape[0], *(extent for pair in zip(grid, strides, strict=True) for extent in pair))
    order = (*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank + 1, 2))
    return split.transpose(order).reshape(*strides, x.shape[0], math.prod(grid)), grid


@functools.cache
def _runs(kernel: Sizes, strides: Sizes, dilation: Sizes, sizes: Sizes, grid: Sizes) -> tuple[int, list[Run]]:
    """The common length of the runs and, for each tap in row-major order, its phase and the offset of its run."""
    pitches = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    length = sum((size - 1) * pitch for size, pitch in zip(sizes, pitches, strict=True)) + 1
    runs: list[Run] = []
    for tap in itertools.product(*(range(taps) for taps in kernel)):
        reads = [divmod(at * between, stride) for at, between, stride in zip(tap, dilation, strides, strict=True)]
        offset = sum(cell * pitch for (cell, _), pitch in zip(reads, pitches, strict=True))
        runs.append((tuple(phase for _, phase in reads), offset))
    return length, runs
