"""Splits of a length into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NEAR = 3 << 18
"""The size in bytes of input and output that fits the L2 cache."""


@dataclass(frozen=True)
class Part:
    """`count` adjacent tiles of one size, from element `first` on. `before` tiles precede them."""

    size: int
    count: int
    first: int
    before: int

    def starts(self) -> Iterator[int]:
        """The first element of each tile."""
        return iter(range(self.first, self.first + self.size * self.count, self.size))


@dataclass(frozen=True)
class Split:
    """A split of a length into tiles of at most two sizes."""

    parts: tuple[Part, ...]

    @staticmethod
    def of(*sizes: tuple[int, int]) -> Split:
        """A split from (size, count) pairs in order. Empty pairs are omitted."""
        parts: list[Part] = []
        first = before = 0
        for size, count in sizes:
            if size and count:
                parts.append(Part(size, count, first, before))
                first, before = first + size * count, before + count
        return Split(tuple(parts))

    @property
    def count(self) -> int:
        """The number of tiles."""
        return sum(part.count for part in self.parts)


def balanced(length: int, most: int) -> Split:
    """The smallest number of tiles of at most `most` elements. Sizes differ by at most one."""
    count = -(-length // most)
    size = -(-length // count)
    # count * size - length tiles are smaller by one.
    larger = length - count * (size - 1)
    return Split.of((size, larger), (size - 1, count - larger))


def greedy(length: int, most: int) -> Split:
    """Tiles of `most` elements, and one tile with the rest."""
    return Split.of((most, length // most), (length % most, 1))


def divisor(length: int, wanted: int) -> int:
    """A divisor of `length` as steps of a loop: the greatest from half of `wanted` to it, else up to its double."""
    found = [n for n in range(1, min(length, 2 * wanted) + 1) if length % n == 0]
    good = [n for n in found if wanted <= 2 * n <= 2 * wanted]
    return good[-1] if good else found[-1]
