"""`select_and_scatter` as one slice, comparison and pad for each position of its window.

```mlir
%y = "stablehlo.select_and_scatter"(%x, %source, %init) ({ GE }, { add }) {window_dimensions = 2}
```
becomes, for the positions 0 and 1,
```mlir
%0 = stablehlo.slice %x ...               the first element of each window
%1 = stablehlo.slice %x ...               the second
%position = stablehlo.select (compare GE %0, %1), 0, 1
%2 = stablehlo.pad (select (compare EQ %position, 1), %source, 0) ...
%3 = stablehlo.select (is 1 selected here), (add (broadcast %init), %2), (broadcast %init)
...                                       the same for position 0
```
Values of windows that select the same element are added in the order of `source`. So positions are visited from last to
first: the first window that contains an element has it at the last position.

Source: the StableHLO specification, "select_and_scatter"; the order is that of `interp.pooling_gradient`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission, ExpansionError
from zeropoint.expand.padding import everywhere
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import (
    AndOp,
    CompareOp,
    ComparisonDirection,
    NotOp,
    OrOp,
    PadOp,
    SelectAndScatterOp,
    SelectOp,
    SliceOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

MOST_PLACES = 64
"""The maximum number of elements of a window. Each becomes about ten ops."""
WindowTap = tuple[int, ...]


@dataclass(frozen=True)
class _Windows:
    """The windows over an operand of `shape`: `sizes` of them, `strides` apart.

    The first starts `low` elements before the operand.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]

    @staticmethod
    def of(op: SelectAndScatterOp) -> _Windows:
        rank = len(shape_of(op.operand))
        ones, ends = (1,) * rank, padding_values(op.padding, rank)
        return _Windows(
            shape_of(op.operand),
            shape_of(op.source),
            tuple(array_values(op.window_dimensions, ones)),
            tuple(array_values(op.window_strides, ones)),
            tuple(low for low, _ in ends),
        )

    @property
    def taps(self) -> list[WindowTap]:
        """The positions in a window, in lexicographic order."""
        return list(itertools.product(*map(range, self.window)))

    def spans(self) -> list[int]:
        """The number of elements from the start of the first window to the end of the last one, per dimension."""
        return [(n - 1) * step + w for n, step, w in zip(self.sizes, self.strides, self.window, strict=True)]

    def inside(self, tap: WindowTap) -> Array:
        """For each window, whether its element at a position belongs to the operand."""
        along = [
            (start >= 0) & (start < size)
            for start, size in (
                (np.arange(n) * step - low + at, size)
                for n, step, low, at, size in zip(self.sizes, self.strides, self.low, tap, self.shape, strict=True)
            )
        ]
        return everywhere(along)


@dataclass(frozen=True)
class _Selection:
    emit: Emission
    op: SelectAndScatterOp
    windows: _Windows

    def padded(self) -> SSAValue:
        """The operand, padded or cut to the span from the first to the last window."""
        windows, value = self.windows, self.op.operand
        high = [s - n - lo for s, n, lo in zip(windows.spans(), windows.shape, windows.low, strict=True)]
        if not any((*windows.low, *high)):
            return value
        # Any number pads, because `positions` excludes elements that are not `inside`.
        return self.emit.add(PadOp(value, self.zero(value), windows.low, high))

    def zero(self, like: SSAValue) -> SSAValue:
        return self.emit.constant(np.zeros((), element_dtype(element_of(like))))

    def candidate(self, padded: SSAValue, tap: WindowTap) -> SSAValue:
        """The element of each window at a position."""
        sizes, strides = self.windows.sizes, self.windows.strides
        limit = [at + (n - 1) * step + 1 for at, n, step in zip(tap, sizes, strides, strict=True)]
        return self.emit.add(SliceOp(padded, tap, limit, strides))

    def positions(self) -> SSAValue:
        """For each window, the number of the position that it selects, i32; -1 for a window of padding only."""
        emit, padded = self.emit, self.padded()
        position = emit.constant(np.full(self.windows.sizes, -1, np.int32))
        best: SSAValue | None = None
        for number, tap in enumerate(self.windows.taps):
            candidate, inside = self.candidate(padded, tap), emit.constant(self.windows.inside(tap))
            takes = inside if best is None else emit.add(AndOp(inside, self.beaten(best, candidate, position)))
            position = emit.add(SelectOp(takes, emit.splat(number, position), position))
            best = candidate if best is None else emit.add(SelectOp(takes, candidate, best))
        return position

    def beaten(self, best: SSAValue, candidate: SSAValue, position: SSAValue) -> SSAValue:
        """Whether `select` prefers the candidate, or nothing was selected yet."""
        emit = self.emit
        keeps = emit.applied(self.op.select.block, best, candidate)
        if keeps is None:
            raise _not_elementwise(self.op, "select")
        nothing = emit.add(CompareOp(position, emit.splat(0, position), ComparisonDirection.LT))
        return emit.add(OrOp(nothing, emit.add(NotOp(keeps))))

    def back(self, value: SSAValue, tap: WindowTap) -> SSAValue:
        """Move one value per window to the operand's element at a position of the window. Other elements are 0."""
        windows = self.windows
        low = [at - lo for at, lo in zip(tap, windows.low, strict=True)]
        spans = [(n - 1) * step + 1 for n, step in zip(windows.sizes, windows.strides, strict=True)]
        high = [size - lo - span for size, lo, span in zip(windows.shape, low, spans, strict=True)]
        return self.emit.add(PadOp(value, self.zero(value), low, high, [step - 1 for step in windows.strides]))

    def scattered(self, position: SSAValue) -> SSAValue:
        """The combined values at each element of the operand, in the element type of the `scatter` body."""
        emit, body = self.emit, self.op.scatter.block
        kind = element_of(body.args[0])
        source = emit.converted(self.op.source, kind)
        total = emit.spread(emit.converted(self.op.init_value, kind), self.windows.shape, ())
        for number, tap in reversed(list(enumerate(self.windows.taps))):
            here = emit.add(CompareOp(position, emit.splat(number, position), ComparisonDirection.EQ))
            combined = emit.applied(body, total, self.back(source, tap))
            if combined is None:
                raise _not_elementwise(self.op, "scatter")
            total = emit.add(SelectOp(self.back(here, tap), combined, total))
        return total


def _not_elementwise(op: SelectAndScatterOp, name: str) -> ExpansionError:
    return ExpansionError(
        f"{describe(op)}: found a body '{name}' with an op that is not elementwise; run it with the interpreter", op
    )


def select_and_scatter(emit: Emission, op: SelectAndScatterOp) -> Sequence[SSAValue] | None:
    """Expand `select_and_scatter` into one slice, comparison and pad for each position of the window.

    The result is None for a `select` body in another type than the operand, and if there are no elements or windows.

    Raises ExpansionError for windows of more than `MOST_PLACES` elements and for bodies that are not elementwise.
    """
    windows = _Windows.of(op)
    count = math.prod(windows.window)
    if count > MOST_PLACES:
        found = f"found windows of {count} elements, expected at most {MOST_PLACES}"
        raise ExpansionError(f"{describe(op)}: {found}; run it with the interpreter", op)
    if not windows.shape or 0 in (*windows.shape, *windows.sizes):
        return None
    if element_of(op.select.block.args[0]) != element_of(op.operand):
        return None
    run = _Selection(emit, op, windows)
    return [emit.converted(run.scattered(run.positions()), element_of(op.result))]
