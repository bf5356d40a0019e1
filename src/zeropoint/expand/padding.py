"""Padding with a computed value: pads with zeros, then replaces these by the value.

If negative padding removes the whole operand, the result is the broadcast value, so that the operand is dead code.

```mlir
%y = stablehlo.pad %x, %v, low = [1], high = [0], interior = [0]
```
becomes
```mlir
%0 = stablehlo.pad %x, 0.0, low = [1], high = [0], interior = [0]
%y = stablehlo.select [true, false, ...], (broadcast %v), %0
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.constants import is_constant
from zeropoint.ir.stablehlo import PadOp, SelectOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def padded(
    emit: Emission, value: SSAValue, by: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> SSAValue:
    """A value padded with a scalar; the broadcast scalar if negative padding removes all elements."""
    if _keeps_nothing(shape_of(value), low, high, interior):
        return emit.spread(by, _padded_shape(shape_of(value), low, high, interior), ())
    if is_constant(by):
        return emit.add(PadOp(value, by, low, high, interior))
    zero = emit.constant(np.zeros((), element_dtype(element_of(value))))
    made = emit.add(PadOp(value, zero, low, high, interior))
    is_padding = emit.constant(~inside(shape_of(value), shape_of(made), low, interior))
    return emit.add(SelectOp(is_padding, emit.spread(by, shape_of(made), ()), made))


def inside(shape: Sequence[int], padded: Sequence[int], low: Sequence[int], interior: Sequence[int]) -> Array:
    """For each element of a padded tensor, whether it comes from the tensor of `shape`: bools of shape `padded`."""
    return everywhere(_inside_along(shape, padded, low, interior))


def _inside_along(
    shape: Sequence[int], padded: Sequence[int], low: Sequence[int], interior: Sequence[int]
) -> list[Array]:
    """The factors of `inside`: for each dimension, bools along it."""
    kept: list[Array] = []
    for size, total, before, between in zip(shape, padded, low, interior, strict=True):
        index = np.arange(total) - before
        kept.append((index % (between + 1) == 0) & (index >= 0) & (index <= (size - 1) * (between + 1)))
    return kept


def everywhere(along: Sequence[Array]) -> Array:
    """The outer "and" of bool vectors: the array with dimension i of the length of vector i."""
    found = np.ones([len(part) for part in along], np.bool_)
    for dim, part in enumerate(along):
        found &= part.reshape([-1 if other == dim else 1 for other in range(len(along))])
    return found


def _padded_shape(shape: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> list[int]:
    return [
        before + size + max(size - 1, 0) * between + after
        for size, before, after, between in zip(shape, low, high, interior, strict=True)
    ]


def _keeps_nothing(shape: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> bool:
    """Whether negative padding removes all elements."""
    if min((*low, *high), default=0) >= 0:
        return False
    kept = _inside_along(shape, _padded_shape(shape, low, high, interior), low, interior)
    return not all(part.any() for part in kept)


def _widths(op: PadOp) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return array_values(op.edge_padding_low), array_values(op.edge_padding_high), array_values(op.interior_padding)


def is_padding_expanded(op: PadOp) -> bool:
    """Whether a `pad` inserts a computed value, or keeps no element of its operand."""
    return not is_constant(op.padding_value) or _keeps_nothing(shape_of(op.operand), *_widths(op))


def pad(emit: Emission, op: PadOp) -> Sequence[SSAValue]:
    """Expand a `pad` with a computed value, or one that keeps no element of its operand."""
    return [padded(emit, op.operand, op.padding_value, *_widths(op))]
