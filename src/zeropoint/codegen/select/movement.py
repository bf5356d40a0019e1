"""Values that are made by moving others: copies, padding, concatenation, reshapes, constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.elements import Body, Instruction
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.expression import memory_form
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import ConcatenateOp, PadOp, ReshapeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

if TYPE_CHECKING:
    from zeropoint.codegen.select.selection import Selection


def copy(selection: Selection, op: Operation, source: View, target: View) -> None:
    """Append the step that writes the elements of one view to another of the same shape and dtype."""
    read = _access(source)
    body = (Instruction("read", read.register, (), (0,)),)
    _call(selection, op, body, [source], [read], target)


def fill(selection: Selection, op: Operation, number: float, target: View) -> None:
    """Append the step that repeats a number."""
    _call(selection, op, (Instruction("number", _access(target).register, (), (number,)),), [], [], target)


def _access(view: View) -> Access:
    type_, form = memory_form(view)
    return Access(type_, view.strides, form)


def _call(
    selection: Selection, op: Operation, body: Body, sources: list[View], reads: list[Access], target: View
) -> None:
    if math.prod(target.shape):
        nest = Nest(target.shape, 0, tuple(reads), _access(target), None, body)
        selection.graph.call(describe(op), nest.arranged(), sources, [target])


def part(view: View, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int] | None = None) -> View:
    """The elements from `starts` on, every step-th in each dimension; the padding around them does not belong to it."""
    steps = steps or (1,) * len(shape)
    offset = sum(start * stride for start, stride in zip(starts, view.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(steps, view.strides, strict=True))
    return replace(view, offset=view.offset + offset, shape=tuple(shape), strides=strides, halo=None)


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
    fill(selection, op, number, target)
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
        copy(selection, op, part(source, starts, counts), inside)
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
            copy(selection, op, source, place)
    return whole


def parts_of(op: ConcatenateOp, whole: View) -> list[View]:
    """Where the operands lie in the result."""
    dimension, start = int(op.dimension.value.data), 0
    views: list[View] = []
    for value in op.inputs:
        shape = shape_of(value)
        starts = [start if d == dimension else 0 for d in range(len(shape))]
        views.append(part(whole, starts, shape))
        start += shape[dimension]
    return views


def make_reshape(selection: Selection, op: ReshapeOp, target: View | None) -> View:
    """The operand's elements where they are; of a dense copy where they do not lie one after the other."""
    source, shape = selection.view(op.operand), shape_of(op.result)
    found = reshaped(source, shape)
    if found is None:
        whole = target or selection.target(op, op.result)
        place = reshaped(whole, source.shape)
        if place is not None:
            copy(selection, op, source, place)
            return whole
        target = whole
        dense = selection.dense(source.shape, source.dtype)
        copy(selection, op, source, dense)
        found = reshaped(dense, shape)
        assert found is not None
    if target is not None:
        copy(selection, op, found, target)
        return target
    return found


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The view under another shape, None where its strides cannot say so."""
    old = [(size, step) for size, step in zip(view.shape, view.strides, strict=True) if size != 1]
    strides: list[int] = []
    at = 0
    rest = 1  # elements of old dimensions `at`.. that are not given away yet, of the group that is split
    step = 0
    for size in shape:
        if size == 1:
            strides.append(view.buffer.size)
            continue
        if rest == 1:
            if at == len(old):
                return None
            rest, step = old[at]
            at += 1
        while rest % size or rest < size:
            # The next dimension has to continue this one without a gap.
            if at == len(old) or old[at][1] * old[at][0] != step:
                return None
            rest, step = rest * old[at][0], old[at][1]
            at += 1
        rest //= size
        strides.append(step * rest)
    return replace(view, shape=tuple(shape), strides=tuple(strides), halo=None)
