"""Regroup rows to the batch size of a program.

A program whose inputs all have a leading axis of N > 1 takes N rows at a time. Rows arrive one by one or in batches of
any size, and each group of N rows is a sample of the program. A last group of fewer than N rows is either left out, or
filled up with copies of its last row, whose outputs are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array

SampleRows = Mapping[str, Array]
"""An array per input, by name. All arrays have the same number of rows along the leading axis."""


def batch_of(ports: Sequence[Port]) -> int:
    """The leading size that all inputs have in common if it is more than 1, else 1."""
    sizes = {tuple(port.type.get_shape())[:1] for port in ports}
    (size,) = sizes.pop() if len(sizes) == 1 and sizes != {()} else (1,)
    return 1 if size == DYNAMIC_INDEX else max(size, 1)


def rows_of(arrays: SampleRows, ports: Sequence[Port]) -> dict[str, Array] | None:
    """The arrays as rows, if each is one row of its input or has several along the leading axis; else None.

    All arrays have the same number of rows, one or more. The dtype is not checked.
    """
    found: dict[str, Array] = {}
    for port in ports:
        array, shape = arrays[port.name], tuple(port.type.get_shape())
        if array.shape == shape[1:]:
            array = array[np.newaxis]
        if not array.ndim or array.shape[1:] != shape[1:]:
            return None
        found[port.name] = array
    counts = {len(array) for array in found.values()}
    return found if len(counts) == 1 and counts != {0} else None


@dataclass
class Batches:
    """Collects rows until there are `size` of them."""

    size: int
    waiting: list[SampleRows] = field(default_factory=list[SampleRows])
    rows: int = 0

    def add(self, rows: SampleRows) -> Iterator[dict[str, Array]]:
        """Add rows. Returns the groups that are now full."""
        self.waiting.append(rows)
        self.rows += _count(rows)
        while self.rows >= self.size:
            yield self._take()

    def rest(self) -> dict[str, Array] | None:
        """The last group, filled up with copies of its last row; None if no rows are left."""
        if not self.rows:
            return None
        last = {name: np.repeat(array[-1:], self.size - self.rows, axis=0) for name, array in self.waiting[-1].items()}
        return next(self.add(last))

    def _take(self) -> dict[str, Array]:
        joined = {name: np.concatenate([rows[name] for rows in self.waiting]) for name in self.waiting[0]}
        self.rows -= self.size
        self.waiting = [{name: array[self.size :] for name, array in joined.items()}] if self.rows else []
        return {name: array[: self.size] for name, array in joined.items()}


def _count(rows: SampleRows) -> int:
    return len(next(iter(rows.values())))


def regrouped(groups: Iterable[SampleRows], size: int) -> Iterator[dict[str, Array]]:
    """The rows of all groups, `size` at a time. The last group is filled up."""
    batches = Batches(size)
    for rows in groups:
        yield from batches.add(rows)
    if (last := batches.rest()) is not None:
        yield last
