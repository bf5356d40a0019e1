"""Orders of dimensions through a reshape.

A reshape splits dimensions or merges neighbours. Its *groups* are the smallest runs of old and new dimensions with the
same number of elements: 2x8x36 to 16x6x6 has the groups (2x8 -> 16) and (36 -> 6x6). Dimensions of size 1 are in no
group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

DimensionOrder = tuple[int, ...]
Group = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class WantedOrder:
    """The order in which a reader wants a value. If it `is_loose`, only the first and the last dimension matter: a
    convolution of single pixels does not care which dimension of an image is which."""

    order: DimensionOrder
    is_loose: bool = False

    def takes(self, order: DimensionOrder) -> bool:
        """Whether the reader takes a value in this order."""
        ends = len(order) == len(self.order) and (order[0], order[-1]) == (self.order[0], self.order[-1])
        return order == self.order or (self.is_loose and ends)


def last_order(rank: int) -> DimensionOrder:
    """The channels-last order: batch, the spatial dimensions, the channels. (0, 2, 3, 1) for rank 4."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def moves_units(shape: Sequence[int], order: DimensionOrder) -> bool:
    """Whether an order moves only dimensions of size 1, so that the elements stay where they are."""
    kept = [dimension for dimension in order if shape[dimension] != 1]
    return kept == sorted(kept)


def groups(old: Sequence[int], new: Sequence[int]) -> list[Group]:
    """The groups of a reshape, as pairs of old and new dimensions. No size may be 0."""
    left = [dimension for dimension, size in enumerate(old) if size != 1]
    right = [dimension for dimension, size in enumerate(new) if size != 1]
    found: list[Group] = []
    while left and right:
        taken, given = [left.pop(0)], [right.pop(0)]
        while (before := prod(old[i] for i in taken)) != (after := prod(new[i] for i in given)):
            short, source = (taken, left) if before < after else (given, right)
            short.append(source.pop(0))
        found.append((tuple(taken), tuple(given)))
    return found


def reshaped_order(old: Sequence[int], new: Sequence[int], order: DimensionOrder) -> DimensionOrder | None:
    """The order of the result of a reshape whose operand has `order`; None if `order` does not keep groups together.

    If the other dimensions are in channels-last order, dimensions of size 1 go where this order has them. Otherwise
    each one goes before the dimension that follows it in `new`.
    """
    if prod(old) != prod(new) or not prod(old):
        return None
    first = {taken[0]: (taken, given) for taken, given in groups(old, new)}
    sequence = [dimension for dimension in order if old[dimension] != 1]
    found: list[int] = []
    while sequence:
        taken, given = first.get(sequence[0], ((), ()))
        if not taken or tuple(sequence[: len(taken)]) != taken:
            return None
        found += given
        sequence = sequence[len(taken) :]
    wanted = last_order(len(new))
    if [dimension for dimension in wanted if new[dimension] != 1] == found:
        return wanted
    for dimension in reversed(range(len(new))):
        if new[dimension] == 1:
            behind = found.index(dimension + 1) if dimension + 1 < len(new) else len(found)
            found.insert(behind if dimension else 0, dimension)
    return tuple(found)
