"""What of the padding counts in the divisors of a pool's means.

| divisor of a window | padding that counts |
|---|---|
| its elements without padding | none |
| its size | all |
| its elements and the padding that ONNX declares, without what `ceil_mode` adds at the end | the declared padding |

Runtimes have average pools whose padding counts or does not. Padding that counts may be added before the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np

from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.numerics.arrays import IntArray

CountedPadding = tuple[tuple[int, int], ...]
"""Low and high padding of each dimension."""


def counted_padding(op: ReduceWindowOp, divisors: Array) -> CountedPadding | None:
    """The part of the padding that counts, zeros if none does; None if no part gives these divisors."""
    pairs = padding_values(op.padding, len(shape_of(op.inputs[0])))
    wanted = np.broadcast_to(divisors, shape_of(op.results[0]))
    # Padding that counts begins where the image does in ONNX, and `ceil_mode` only adds to its end.
    declared = (tuple(zip((low for low, _ in pairs), ends, strict=True)) for ends in product(*map(_ends, pairs)))
    for found in (((0, 0),) * len(pairs), *declared):
        if np.allclose(_elements(op, found), wanted, rtol=1e-6):
            return found
    return None


def _ends(pair: tuple[int, int]) -> Sequence[int]:
    return range(pair[1], -1, -1)


def _elements(op: ReduceWindowOp, padding: CountedPadding) -> IntArray:
    """The elements of each window that are in the image or in `padding`; a shape that broadcasts to the result's."""
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    strides, dilations = (array_values(a, (1,) * len(shape)) for a in (op.window_strides, op.window_dilations))
    lows = [low for low, _ in padding_values(op.padding, len(shape))]
    found: list[IntArray] = []
    for axis, count in enumerate(shape_of(op.results[0])):
        taps = np.arange(count)[:, None] * strides[axis] - lows[axis] + np.arange(sizes[axis]) * dilations[axis]
        inside = (taps >= -padding[axis][0]) & (taps < shape[axis] + padding[axis][1])
        found.append(np.ones(1, np.int64) if sizes[axis] == 1 else inside.sum(axis=1))
    return reduce(np.multiply.outer, found)
