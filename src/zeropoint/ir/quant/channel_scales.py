"""The scales of products with weights: one for each output channel, also for weights with a scale per block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zeropoint.ir.quant.types import UniformQuantizedType
from zeropoint.numerics.arrays import FloatArray


def channel_scales(kind: UniformQuantizedType, axis: int, channels: int) -> FloatArray:
    """The weight scale of each channel's sums, along `axis` of the weights: f64 of shape [channels], or [1] per layer.

    For weights with a scale per block, the greatest scale of each channel's blocks (`numerics.blockwise`).
    """
    if not kind.is_sub_channel:
        return kind.scales
    scales = np.moveaxis(kind.scales, axis, 0)
    greatest = scales.reshape(scales.shape[0], -1).max(axis=1)
    return np.repeat(greatest, channels // greatest.size)


def with_least_scales(kind: UniformQuantizedType, axis: int, least: FloatArray) -> UniformQuantizedType:
    """A sub-channel type in which the greatest scale of each channel is at least `least`, of shape [channels].

    All scales of a channel grow by one factor, so that their ratios do not change.
    """
    scales = np.moveaxis(kind.scales, axis, 0)
    rows = scales.reshape(scales.shape[0], -1)
    wanted = least.reshape(rows.shape[0], -1).max(axis=1)
    grown = rows * np.maximum(1.0, wanted / rows.max(axis=1))[:, None]
    made = np.moveaxis(grown.reshape(scales.shape), 0, axis)
    return UniformQuantizedType(replace(kind.data, scales=tuple(map(float, made.reshape(-1)))))


def transposed_blocks(kind: UniformQuantizedType, order: Sequence[int]) -> UniformQuantizedType:
    """A sub-channel type after the dimensions of its tensor are reordered."""
    sizes = dict(kind.blocks or ())
    blocks = [(index, sizes[axis]) for index, axis in enumerate(order) if axis in sizes]
    scales, points = (array.transpose(order) for array in (kind.scales, kind.zero_points))
    return UniformQuantizedType.sub_channel(kind.storage, blocks, scales, points, expressed_type=kind.expressed_type)


def transposed_scales(kind: UniformQuantizedType, order: Sequence[int]) -> UniformQuantizedType:
    """A type of any granularity after the dimensions of its tensor are reordered."""
    if kind.blocks is not None:
        return transposed_blocks(kind, order)
    if kind.axis is None:
        return kind
    return UniformQuantizedType(replace(kind.data, axis=list(order).index(kind.axis)))


def reversed_scales(kind: UniformQuantizedType, dimensions: Sequence[int]) -> UniformQuantizedType:
    """A type of any granularity after the elements of its tensor are reversed along these dimensions."""
    if kind.blocks is not None:
        along = tuple(dimensions)
    elif kind.axis in dimensions:
        along = (0,)
    else:
        return kind
    scales, points = (np.flip(array, along).reshape(-1).tolist() for array in (kind.scales, kind.zero_points))
    return UniformQuantizedType(replace(kind.data, scales=tuple(scales), zero_points=tuple(points)))


def reshaped_scales(
    kind: UniformQuantizedType, before: Sequence[int], after: Sequence[int]
) -> UniformQuantizedType | None:
    """A type with one scale, or one per channel, after its tensor is reshaped; None if no dimension has the channels.

    A dimension that joins the channels with others repeats their scales: [2, 3] along dimension 1 to [6] is the three
    scales twice.
    """
    if kind.blocks is not None:
        return None
    if kind.axis is None:
        return kind
    count, inner = before[kind.axis], math.prod(before[kind.axis + 1 :])
    for axis, size in enumerate(after):
        each, rest = divmod(inner, max(math.prod(after[axis + 1 :]), 1))
        if not rest and each and size and not size % (count * each):
            scales, points = (
                np.tile(np.repeat(numbers, each), size // (count * each)) for numbers in (kind.scales, kind.zero_points)
            )
            return UniformQuantizedType.per_channel(
                kind.storage, axis, scales, points, expressed_type=kind.expressed_type
            )
    return None


def joined_scales(
    kinds: Sequence[UniformQuantizedType], sizes: Sequence[int], axis: int
) -> UniformQuantizedType | None:
    """The type per channel of tensors that are concatenated along `axis`, where they have `sizes` elements.

    None for types of several storages, and for scales along another dimension.
    """
    (first, *others) = kinds
    if any((kind.storage, kind.expressed_type) != (first.storage, first.expressed_type) for kind in others):
        return None
    if any(kind.axis not in (None, axis) for kind in kinds):
        return None
    scales, points = (
        np.concatenate([np.broadcast_to(part, size) for part, size in zip(parts, sizes, strict=True)])
        for parts in ([kind.scales for kind in kinds], [kind.zero_points for kind in kinds])
    )
    return UniformQuantizedType.per_channel(first.storage, axis, scales, points, expressed_type=first.expressed_type)
