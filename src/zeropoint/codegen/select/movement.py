"""Values that are made by moving others: copies, padding, concatenation, reshapes, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from zeropoint.codegen.graph import View
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.copies import copy, fill, part, parts_of, reshaped
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import ConcatenateOp, PadOp, ReshapeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

if TYPE_CHECKING:
    from zeropoint.codegen.select.selection import Selection


def padded(
    selection: Selection,
    op: Operation,
    source: View,
    number: float,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    target: View | None = None,
) -> View:
    """A copy with `number` before, behind and between the elements; a negative side takes elements away."""
    shape = [
        max(0, before + after + size + max(0, size - 1) * between)
        for size, before, after, between in zip(source.shape, low, high, interior, strict=True)
    ]
    target = target or selection.fresh(shape, source.dtype)
    fill(selection.graph, op, number, target)
    starts: list[int] = []
    places: list[int] = []
    counts: list[int] = []
    for size, extent, before, between in zip(source.shape, shape, low, interior, strict=True):
        first = max(0, -(before // (between + 1)))
        last = min(size - 1, (extent - 1 - before) // (between + 1))
        starts.append(first)
        places.append(before + first * (between + 1))
        counts.append(max(0, last + 1 - first))
    if all(counts):
        inside = part(target, places, counts, [between + 1 for between in interior])
        copy(selection.graph, op, part(source, starts, counts), inside)
    return target


def make_pad(selection: Selection, op: PadOp, target: View | None) -> View:
    """`pad` by copying."""
    number = selection.splat(op.padding_value)
    if number is None:
        raise CodegenError(f"{describe(op)}: found padding by a value that is computed, expected a constant")
    low, high, interior = (array_values(a) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding))
    source = selection.view(op.operand)
    return padded(selection, op, source, number, low, high, interior, target or selection.target(op, op.result))


def make_concatenation(selection: Selection, op: ConcatenateOp, target: View | None) -> View:
    """Every part into its place, but those that are there already."""
    sources = [selection.view(value) for value in op.inputs]
    whole = selection.whole(op) or target or selection.target(op, op.result)
    for source, place in zip(sources, parts_of(op, whole), strict=True):
        if (source.buffer, source.offset, source.strides) != (place.buffer, place.offset, place.strides):
            copy(selection.graph, op, source, place)
    return whole


def make_reshape(selection: Selection, op: ReshapeOp, target: View | None) -> View:
    """The operand's elements where they are; of a dense copy where they do not lie one after the other."""
    source, shape = selection.view(op.operand), shape_of(op.result)
    found = reshaped(source, shape)
    if found is None:
        whole = target or selection.target(op, op.result)
        place = reshaped(whole, source.shape)
        if place is not None:
            copy(selection.graph, op, source, place)
            return whole
        target = whole
        dense = selection.dense(source.shape, source.dtype)
        copy(selection.graph, op, source, dense)
        found = reshaped(dense, shape)
        assert found is not None
    if target is not None:
        copy(selection.graph, op, found, target)
        return target
    return found
