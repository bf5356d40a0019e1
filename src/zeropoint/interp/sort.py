"""`sort`.

Source: the StableHLO specification. All sorts are stable, regardless of `is_stable`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zeropoint.interp.binding import Arrays, Kernel, Scope
from zeropoint.interp.elementwise import total_order
from zeropoint.ir.stablehlo import SortOp
from zeropoint.ir.stablehlo.sort import SortKey, sort_key
from zeropoint.ir.tensors import Array


def sort(op: SortOp, scope: Scope) -> Kernel:
    """results[:, ..., j, ...] = the inputs, sorted together along `dimension` by the comparator."""
    axis, body = op.axis(), scope.body(op.comparator.block)
    key = sort_key(op.comparator.block)

    def before(first: Arrays, second: Arrays) -> Array:
        pairs = (x for pair in zip(first, second, strict=True) for x in pair)
        (found,) = body(*pairs)
        return np.broadcast_to(found, first[0].shape)

    def run(*inputs: Array) -> Array | Arrays:
        lines = tuple(np.moveaxis(x, axis, -1) for x in inputs)
        order = None if key is None else _by_key(lines[key.input], key)
        if order is None:
            order = merge_order(lines, before)
        results = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, axis) for x in lines)
        return results[0] if len(results) == 1 else results

    return run


def _by_key(keys: Array, key: SortKey) -> Array | None:
    """The stable order by one key; None if NumPy would order differently, because of NaN."""
    if keys.dtype.kind not in "iub":
        # NumPy sorts NaN last. By the comparator LT, NaN is equal to everything.
        if not key.total and bool(np.isnan(keys).any()):
            return None
        if key.one_zero:
            keys = np.where(keys == 0, np.zeros_like(keys), keys)
        keys = total_order(keys) if key.total else keys.astype(np.float64)
    if not key.descending:
        return np.argsort(keys, axis=-1, kind="stable")
    length = keys.shape[-1]
    # Reversed twice, so that equal keys keep their order. Negated keys would overflow for the smallest integer.
    return length - 1 - np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def merge_order(lines: Arrays, before: Callable[[Arrays, Arrays], Array]) -> Array:
    """The stable order of lines along the last axis, by a merge sort that is vectorised over all lines.

    `before` compares the elements of two positions, of any shape. Each element of a left run finds its position in the
    right run by bisection. So `before` is called O(log^2 n) times, each time on half of the elements. With a comparator
    that is no strict weak order, the result is still a permutation.
    """
    length: int = lines[0].shape[-1]
    order: Array = np.array(np.broadcast_to(np.arange(length), lines[0].shape))
    width = 1
    while width < length:
        order = _merged(tuple(np.take_along_axis(x, order, -1) for x in lines), order, width, before)
        width *= 2
    return order


def _merged(lines: Arrays, order: Array, width: int, before: Callable[[Arrays, Arrays], Array]) -> Array:
    """`order` after each run of `width` sorted elements is merged with the next one. `lines` are in `order`."""
    length: int = order.shape[-1]
    positions = np.arange(length)
    in_left = positions // width % 2 == 0
    left, right = positions[in_left], positions[~in_left]
    block = left // (2 * width) * (2 * width)
    shape = (*order.shape[:-1], len(left))
    low = np.broadcast_to(np.minimum(block + width, length), shape).copy()
    high = np.broadcast_to(np.minimum(block + 2 * width, length), shape).copy()
    mids = np.minimum(block + width, length)
    own = tuple(x[..., left] for x in lines)
    while (open_ := low < high).any():
        # Searches that have ended may point past the end. Their comparison is not used.
        middle = np.minimum((low + high) // 2, length - 1)
        found = before(tuple(np.take_along_axis(x, middle, -1) for x in lines), own)
        low, high = np.where(open_ & found, middle + 1, low), np.where(open_ & ~found, middle, high)
    # The number of right elements before a left one must not decrease. This is enforced for inconsistent comparators.
    targets = left + np.maximum.accumulate(low, axis=-1) - mids
    taken = np.zeros(order.shape, np.bool_)
    np.put_along_axis(taken, targets, True, -1)
    free = np.argsort(taken, axis=-1, kind="stable")[..., : len(right)]
    merged = np.empty_like(order)
    np.put_along_axis(merged, targets, order[..., left], -1)
    np.put_along_axis(merged, free, order[..., right], -1)
    return merged
