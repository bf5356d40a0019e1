"""Rules of table lookups and interpolation, which compute functions of stored integers."""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.elements import Interpolate, LookUp, Number
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.schedule.expression import Axis, Expression, Indices
from zeropoint.ir.fxpmath import InterpolateOp, TableOp
from zeropoint.ir.locations import describe
from zeropoint.ir.tensors import Array, element_dtype, element_of

FEW_ENTRIES = 1 << 10
"""The number of equal entries at an end of a table, 2 KiB of i16, below which a clamp does not pay off."""

_INDEX = ("i16", True)


def look_up(e: Expression, op: TableOp, indices: Indices) -> int:
    """The entry of a table that an i8 or i16 selects."""
    index = e.value(op.operand, indices)
    if element_dtype(element_of(op.operand)) not in (np.dtype(np.int8), np.dtype(np.int16)):
        raise CodegenError(f"{describe(op)}: found an index of {element_of(op.operand)}, expected i8 or i16")
    view = _table(e, op)
    entries = e.scope.values.constant(op.table)
    if entries is not None and len(entries) == 1 << 16:
        index = _inside(e, index, entries)
    return e.step(LookUp(e.operand(view, (Axis(),))), op.result, [index])


def _table(e: Expression, op: TableOp | InterpolateOp) -> View:
    """The view of an op's table. Raises CodegenError for one that is computed."""
    view = e.scope.view(op.table)
    if view.activations:
        raise CodegenError(f"{describe(op)}: found a table that is computed, expected a constant")
    return view


def _inside(e: Expression, index: int, entries: Array) -> int:
    """An i16 index, clamped to the part of a table beyond which all entries are equal.

    A table of 128 KiB does not fit the L1 cache. With a clamped index, a function that saturates reads fewer lines.
    """
    first, last = -(1 << 15), (1 << 15) - 1
    changes = np.flatnonzero(entries[1:] != entries[:-1])
    if not len(changes):
        return index
    # The last index of the equal entries at the start, and the first index of those at the end.
    bounds = (("maximum", first, int(changes[0]) + first), ("minimum", last, int(changes[-1]) + 1 + first))
    for name, end, bound in bounds:
        if abs(bound - end) >= FEW_ENTRIES:
            index = e.step(name, _INDEX, [index, e.step(Number(bound), _INDEX)])
    return index


def interpolate(e: Expression, op: InterpolateOp, indices: Indices) -> int:
    """The function of an i16, interpolated between entries of a table."""
    view = _table(e, op)
    what = Interpolate(e.operand(view, (Axis(),)), op.shift, view.dtype.itemsize)
    return e.step(what, op.result, [e.value(op.operand, indices)])
