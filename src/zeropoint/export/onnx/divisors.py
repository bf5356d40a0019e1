"""What of the padding counts in the divisors of a pool's means, as ONNX files declare it.

| divisor of a window | padding that counts |
|---|---|
| its elements without padding | none |
| its size | all |
| its elements and the declared padding, without what `ceil_mode` adds at the end | the declared padding |
"""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np

from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.materialize.storage import window_counts
from zeropoint.numerics.arrays import IntArray

SPATIAL = 2
"""The first spatial dimension, after batch and channels."""
Padding = tuple[tuple[int, int], ...]
"""Low and high padding of the spatial dimensions."""


def counted_padding(op: ReduceWindowOp, divisors: Array) -> Padding:
    """The part of the padding that counts; zeros if none does. Raises ValueError if no part gives these divisors."""
    held, pairs = window_counts(op), padding_values(op.padding, len(shape_of(op.inputs[0])))[SPATIAL:]
    wanted = np.broadcast_to(divisors, held.shape)[(0,) * SPATIAL]
    if np.allclose(wanted, held[(0,) * SPATIAL], rtol=1e-6):
        return ((0, 0),) * len(pairs)
    for ends in product(*(range(high, -1, -1) for _, high in pairs)):
        found = tuple((low, end) for (low, _), end in zip(pairs, ends, strict=True))
        if np.allclose(_elements(op, found, wanted.shape), wanted, rtol=1e-6):
            return found
    raise ValueError("no part of the padding gives these divisors")


def _elements(op: ReduceWindowOp, padding: Padding, windows: tuple[int, ...]) -> IntArray:
    """The elements of each window that are in the image or in `padding`."""
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    strides, dilations = (array_values(a, (1,) * len(shape)) for a in (op.window_strides, op.window_dilations))
    found: list[IntArray] = []
    for axis, ((low, high), count) in enumerate(zip(padding, windows, strict=True), SPATIAL):
        taps = np.arange(count)[:, None] * strides[axis] - low + np.arange(sizes[axis]) * dilations[axis]
        found.append((taps < shape[axis] + high).sum(axis=1))
    return reduce(np.multiply.outer, found)
