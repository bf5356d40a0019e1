"""Maxima over windows that MAX_POOL_2D does not have: MAXIMUM of a STRIDED_SLICE for every place in the window."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.padding import padded
from zeropoint.export.lower_bounds import is_zero_least
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import shape_of

MOST_PLACES = 64
"""The most elements of a window, each of which takes two operators."""
MOST_DIMENSIONS = 5
"""The rank up to which LiteRT slices and compares."""


def maxima(kernel: ExportKernel, emit: LitertEmission) -> None:
    """The maxima over windows of any dimensions, dilated or not. They round nothing."""
    op, kind, name = kernel.first(ReduceWindowOp), kernel.output_spec, emit.name(kernel.region.outputs[0])
    shape = shape_of(op.inputs[0])
    check_places(kernel)
    source = emit.operand(kernel.region.inputs[0], kernel.specs[0])
    pairs = padding_values(op.padding, len(shape))
    if any(map(any, pairs)):
        wide = [size + low + high for size, (low, high) in zip(shape, pairs, strict=True)]
        made = emit.temporary(f"{name}/pad", wide, kind)
        least = None if is_zero_least(kernel.region.inputs[0], kind, kernel.weights) else np.full((), -inf, np.float32)
        padded(emit, source, made, pairs, kind, least)
        source = made
    greatest, *others = places(op, source, kind, name, emit)
    for part in others:
        made = emit.temporary(name, shape_of(op.results[0]), kind)
        emit.operator("MAXIMUM", [greatest, part], [made], ("MaximumMinimumOptions", {}), 2)
        greatest = made
    emit.reshape(greatest, emit.declare(kernel.region.outputs[0], kind))


def check_places(kernel: ExportKernel) -> None:
    """Raise ExportError for windows with too many elements or dimensions to slice each place in the window."""
    op = kernel.first(ReduceWindowOp)
    sizes, rank = array_values(op.window_dimensions), len(shape_of(op.inputs[0]))
    if prod(sizes) > MOST_PLACES or rank > MOST_DIMENSIONS or set(array_values(op.base_dilations, (1,))) != {1}:
        raise ExportError(
            f"found a window {list(sizes)} of {rank} dimensions, expected one over an image, or at most {MOST_PLACES} "
            f"elements and {MOST_DIMENSIONS} dimensions",
            kernel.region,
        )


def places(op: ReduceWindowOp, source: int, kind: Attribute, name: str, emit: LitertEmission) -> Iterator[int]:
    """A STRIDED_SLICE for every place in the window: the elements there of all windows. The source is padded."""
    counts, sizes = shape_of(op.results[0]), array_values(op.window_dimensions)
    strides, steps = (array_values(array, (1,) * len(counts)) for array in (op.window_strides, op.window_dilations))
    for place in np.ndindex(*sizes):
        begin = [index * step for index, step in zip(place, steps, strict=True)]
        end = [first + (count - 1) * stride + 1 for first, count, stride in zip(begin, counts, strides, strict=True)]
        part = emit.temporary(name, counts, kind)
        parts = [emit.integers(numbers, "slice") for numbers in (begin, end, strides)]
        emit.operator("STRIDED_SLICE", [source, *parts], [part], ("StridedSliceOptions", {}), 4)
        yield part
