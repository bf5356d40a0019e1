"""Operations on views: copies, parts, reshapes and transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zeropoint.codegen.graph import Graph, Step, View, are_alike, row_major
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.elements import Number, Read, Scalar, Scalars
from zeropoint.codegen.kernels.half_precision import HALF_FORMS
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.ir.stablehlo import ConcatenateOp
from zeropoint.ir.tensors import shape_of

SCALAR_TYPES: dict[np.dtype[Any], tuple[str, bool]] = {
    np.dtype(np.bool_): ("i1", False),
    **{np.dtype(f"i{size}"): (f"i{8 * size}", True) for size in (1, 2, 4, 8)},
    **{np.dtype(f"u{size}"): (f"i{8 * size}", False) for size in (1, 2, 4, 8)},
    **dict.fromkeys(HALF_FORMS, ("float", True)),
    np.dtype(np.float32): ("float", True),
    np.dtype(np.float64): ("double", True),
}
"""The LLVM type of a value in a register, and whether it is signed, by dtype."""


def memory_form(view: View) -> tuple[str, str]:
    """The LLVM type of a view's elements in memory, and their form (`Access`)."""
    if view.dtype in HALF_FORMS:
        return "i16", HALF_FORMS[view.dtype]
    type_ = SCALAR_TYPES[view.dtype][0]
    if type_ == "i1":
        return "i8", "boolean"
    return type_, "activation" if view.activations else "plain"


def access_of(view: View, strides: tuple[int, ...] | None = None) -> Access:
    """The access of loops over a view, by its own strides unless others are given."""
    type_, form = memory_form(view)
    return Access(type_, view.strides if strides is None else strides, form)


def copy(graph: Graph, name: str, source: View, target: View) -> None:
    """Append a step that copies the elements of one view to another of the same shape and dtype."""
    read = access_of(source)
    body = (Scalar(Read(0), read.register),)
    _call(graph, name, body, [source], [read], target)


def is_copy(step: Step) -> bool:
    """Whether `copy` appended the step."""
    kernel = step.kernel
    return isinstance(kernel, Nest) and len(kernel.body) == 1 and kernel.body[0].what == Read(0)


def fill(graph: Graph, name: str, number: float, target: View) -> None:
    """Append a step that fills a view with one number."""
    _call(graph, name, (Scalar(Number(number), access_of(target).register),), [], [], target)


def _call(graph: Graph, name: str, body: Scalars, sources: list[View], reads: list[Access], target: View) -> None:
    if math.prod(target.shape):
        nest = Nest(target.shape, 0, tuple(reads), access_of(target), None, body)
        graph.call(name, nest.arranged(), sources, [target])


def part(view: View, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int] | None = None) -> View:
    """A view of the elements from `starts` on, every step-th in each dimension, without padding."""
    steps = steps or (1,) * len(shape)
    offset = sum(start * stride for start, stride in zip(starts, view.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(steps, view.strides, strict=True))
    return replace(view, offset=view.offset + offset, shape=tuple(shape), strides=strides, halo=None)


def parts_of(op: ConcatenateOp, whole: View) -> list[View]:
    """The views of a concatenation's operands in its result."""
    dimension, start = int(op.dimension.value.data), 0
    views: list[View] = []
    for value in op.inputs:
        shape = shape_of(value)
        starts = [start if d == dimension else 0 for d in range(len(shape))]
        views.append(part(whole, starts, shape))
        start += shape[dimension]
    return views


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The view in another shape; None if strides cannot express it."""
    if not math.prod(shape):  # no elements
        return replace(view, shape=tuple(shape), strides=(view.buffer.size,) * len(shape), halo=None)
    old = [(size, step) for size, step in zip(view.shape, view.strides, strict=True) if size != 1]
    strides: list[int] = []
    at = 0
    rest = 1  # number of elements of the current group of old dimensions that are not yet assigned to new dimensions
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
            # The next dimension must follow this one without a gap.
            if at == len(old) or old[at][1] * old[at][0] != step:
                return None
            rest, step = rest * old[at][0], old[at][1]
            at += 1
        rest //= size
        strides.append(step * rest)
    return replace(view, shape=tuple(shape), strides=tuple(strides), halo=None)


def transposed(view: View, order: Sequence[int]) -> View:
    """The view with its dimensions in another order."""
    shape, strides = (tuple(part[d] for d in order) for part in (view.shape, view.strides))
    return replace(view, shape=shape, strides=strides, halo=None)


def has_even_rows(view: View) -> bool:
    """Whether rows (along the last dimension) are evenly spaced."""
    if len(view.shape) < 2 or view.strides[-1] != view.itemsize:
        return False
    outer = view.shape[:-1]
    return are_alike(outer, view.strides[:-1], row_major(outer, view.strides[-2]))
