"""Ops that only move elements, so quantized values are moved as storage integers.

Source: the StableHLO specification. (C1) and so on are the constraints of an op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from zeropoint.interp.binding import ArrayFunction, Binary, Scope
from zeropoint.ir.evaluation import MOVEMENT
from zeropoint.ir.stablehlo import PadOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array
from zeropoint.limits import afford


def moved(op: Operation, scope: Scope) -> ArrayFunction:
    """An op that only moves elements, without others."""
    return MOVEMENT[type(op)](op)


def pad(op: PadOp, scope: Scope) -> Binary:
    """result[result_index] = operand[operand_index] where result_index = edge_padding_low + operand_index *
    (interior_padding + 1), and padding_value elsewhere (C4).
    """
    padding = list(zip(array_values(op.edge_padding_low), array_values(op.edge_padding_high), strict=True))
    interior = array_values(op.interior_padding)
    return lambda operand, padding_value: padded(operand, padding, padding_value, interior)


def padded_shape(shape: Sequence[int], padding: Sequence[tuple[int, int]], interior: Sequence[int]) -> list[int]:
    """The shape of the result of `padded`. Negative padding may crop everything."""
    return [
        max(low + (max(size - 1, 0) * (between + 1) + 1 if size else 0) + high, 0)
        for size, (low, high), between in zip(shape, padding, interior, strict=True)
    ]


def padded(
    operand: Array,
    padding: Sequence[tuple[int, int]],
    fill: Array | float,
    interior: Sequence[int] | None = None,
    dtype: np.dtype[Any] | None = None,
) -> Array:
    """`operand` padded with `fill`: (low, high) elements at the edges of each dimension, `interior` between elements.

    Negative padding crops. The result is a new array, of `dtype` if given.
    """
    interior = [0] * operand.ndim if interior is None else interior
    shape = padded_shape(operand.shape, padding, interior)
    targets: list[slice] = []
    sources: list[slice] = []
    for size, extent, (low, _), between in zip(operand.shape, shape, padding, interior, strict=True):
        step = between + 1
        # Operand index j moves to low + j * step; indices first..last are in bounds.
        first = max(-(low // step), 0)
        last = min(size - 1, (extent - 1 - low) // step)
        count = max(last - first + 1, 0)
        start = low + first * step
        sources.append(slice(first, first + count))
        targets.append(slice(start, start + (count - 1) * step + 1, step) if count else slice(0, 0))
    # Checked before the allocation, because a small file can require any size.
    afford(shape, operand.itemsize, "a padded tensor")
    result = np.empty(shape, operand.dtype if dtype is None else dtype)
    inner = operand[tuple(sources)]
    if inner.shape != result.shape:
        result[...] = fill
    result[tuple(targets)] = inner
    return result
