"""Schedules products of two activations. The second operand is packed as weights at run time, batch by batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zeropoint.codegen.graph import Buffer, Space, View, dense_view, row_major
from zeropoint.codegen.kernels.arithmetic import Arithmetic
from zeropoint.codegen.kernels.batched import Batched, Packing
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.patterns.products import ProductDimensions, ProductMatch, product_of, reach_of_product
from zeropoint.codegen.schedule.body import Body, named_form
from zeropoint.codegen.views import copy, fill
from zeropoint.numerics import Requantization


def schedule_product(body: Body) -> None:
    """Append the steps that pack the second operand, and the step that contracts all batches."""
    match = product_of(body.program, body.kernel, body.found)
    left, right, target = body.inputs[0], body.inputs[-1], body.outputs[0]
    dims, name, isa = match.dimensions, match.name, body.isa
    channels, batch = right.shape[dims.column], len(dims.batch)
    if match.output is None:
        kernel = _kernel(body, dims, (left, right, target), Floats(), 1)
        packed, steps = _packed_floats(body, name, kernel, right, dims)
    else:
        pairs, other_zero = left.itemsize == 2, match.zeros[1]
        reach = reach_of_product(left.shape[dims.term], channels, left.itemsize, other_zero)
        epilogue = Epilogue.of(match.output, reach, isa, 8 * target.itemsize)
        form = named_form(body)
        # The right operand is computed, so it may contain -128.
        split = isa.weight_limit < 128 if form is None else form.split
        # A byte minus a zero point has nine bits, which take two bytes.
        halves = (2 if split and not pairs else 1) * (2 if other_zero else 1)
        arithmetic = Integers(halves, epilogue, pairs=pairs)
        kernel = _kernel(body, dims, (left, right, target), arithmetic, 4 // left.itemsize)
        packed, steps = _packed_bytes(body, name, kernel, right, match, match.output)
    sizes = target.shape[:batch]
    batched = Batched(kernel, sizes, tuple(left.strides[d] for d in dims.batch), steps, target.strides[:batch])
    operations = 2 * left.shape[dims.term] * int(np.prod(target.shape, dtype=np.int64))
    body.graph.call(name, batched, [left, packed], [target], operations=operations)


def _kernel(
    body: Body, dims: ProductDimensions, views: tuple[View, View, View], arithmetic: Arithmetic, together: int
) -> Contraction:
    """The contraction of one batch. A step of the micro-kernel takes `together` terms."""
    left, right, target = views
    pixel, out_pixel, count = left.strides[dims.row], target.strides[len(dims.batch)], left.shape[dims.row]
    groups, vectors = left.shape[dims.term] // together, -(-right.shape[dims.column] // body.isa.width)
    return Contraction.of_rows(count, pixel, out_pixel, groups, vectors, arithmetic)


def _packed_bytes(
    body: Body, name: str, kernel: Contraction, right: View, match: ProductMatch, output: Requantization
) -> tuple[View, tuple[int, ...]]:
    """Append the step that packs integers. Returns the packed weights and their batch strides in bytes."""
    isa, dims = body.isa, match.dimensions
    channels, terms = right.shape[dims.column], right.shape[dims.other_term]
    sizes = tuple(right.shape[d] for d in dims.other_batch)
    packing = Packing(
        kernel,
        channels,
        right.strides[dims.other_term],
        right.strides[dims.column],
        match.zeros,
        sizes,
        tuple(right.strides[d] for d in dims.other_batch),
    )
    assert isinstance(kernel.arithmetic, Integers)
    together = 4 // right.itemsize
    nothing = np.zeros((terms // together, together, channels), right.dtype), np.zeros(channels, np.int64)
    groups = list(kernel.groups_of(isa, channels))
    template = packing.template(isa, kernel.arithmetic.pack(isa, groups, *nothing, output))
    # Each batch has its own packed weights.
    size = packing.batch_bytes(isa) * int(np.prod(sizes, dtype=np.int64))
    packed = dense_view((size,), np.dtype(np.uint8), Space.ARENA)
    body.graph.call(name, packing, [right], [packed], body.graph.parameters(template))
    return packed, packing.weight_steps(isa)


def _packed_floats(
    body: Body, name: str, kernel: Contraction, right: View, dims: ProductDimensions
) -> tuple[View, tuple[int, ...]]:
    """Append the steps that pack a float operand, with biases of 0. Returns the weights and their batch strides."""
    isa, sizes = body.isa, tuple(right.shape[d] for d in dims.other_batch)
    terms, channels = right.shape[dims.other_term], right.shape[dims.column]
    groups: list[tuple[int, int, int]] = []  # (first channel, vectors, offset in bytes) of each group
    size = 0
    for part in kernel.columns(isa).parts:
        for first in part.starts():
            groups.append((first * isa.width, part.size, size))
            size += kernel.group_bytes(isa, part.size)
    steps = row_major(sizes, size)
    buffer = Buffer(Space.ARENA, size * int(np.prod(sizes, dtype=np.int64)))
    whole = View(buffer, 0, (*sizes, terms, channels), (*steps, 0, 4), right.dtype)
    order = (*dims.other_batch, dims.other_term, dims.column)
    given = replace(right, shape=whole.shape, strides=tuple(right.strides[d] for d in order), halo=None)
    for first, count, offset in groups:
        row = count * isa.bytes
        some = (*sizes, terms, min(channels - first, count * isa.width))
        source = replace(given, shape=some).moved(first * given.strides[-1])
        copy(body.graph, name, source, View(buffer, offset, some, (*steps, row, 4), right.dtype))
        biases = (*sizes, count * isa.width)
        # The kernel adds a bias, which is 0 for a product of activations.
        fill(body.graph, name, 0.0, View(buffer, offset + terms * row, biases, (*steps, 4), right.dtype))
    return whole, steps
