"""Rules of reductions, windows, convolutions and products without a specialized kernel, which become loop nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.combining import identity
from zeropoint.codegen.kernels.elements import Total
from zeropoint.codegen.kernels.loops import Order
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.llvm.types import FLOATS
from zeropoint.codegen.schedule.elementwise import ELEMENTWISE, MOVEMENT
from zeropoint.codegen.schedule.expression import (
    Axis,
    Expression,
    Indices,
    ScalarRule,
    half_of,
    on_numbers,
    scalar_type,
)
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.functions import function_name
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.window_padding import pads

ORDER_ONLY = frozenset(("maximum", "minimum"))
"""Bodies that never round, so that the result does not depend on the order."""


def combiner(op: hlo.ReduceOp | hlo.ReduceWindowOp) -> tuple[str, SSAValue] | None:
    """(op name, result) of a body that is one op on both arguments; None for any other body."""
    first = op.body.block.first_op
    if first is None or body_op(op.body) is None or len(op.operands) != 2:
        return None
    if function_name(first) not in ("add", "maximum", "minimum", "multiply", "and", "or"):
        return None
    return function_name(first), first.results[0]


def _combined(e: Expression, op: Any, sizes: Sequence[int], inner: Callable[[list[Axis]], int], order: Order) -> int:
    found = combiner(op)
    if found is None:
        raise CodegenError(
            f"{describe(op)}: found a body other than one add, multiply, maximum, minimum, and, or of its two "
            "arguments; run it with the interpreter"
        )
    name, made = found
    # Sums of f16 and bf16 round after every addition, in an order that nests do not implement.
    if half_of(made) and name not in ORDER_ONLY:
        raise CodegenError(
            f"{describe(op)}: found sums of {element_of(made)}, whose result depends on the order; run it with the "
            "interpreter"
        )
    like = scalar_type(made)
    start = e.scope.values.splat(op.init_values[0])

    def element(loops: list[Axis]) -> int:
        return e.step("convert", like, [inner(loops)])

    # A computed initial value is no constant of the kernel, so it is combined at the end.
    first = identity(name, *like) if start is None else start
    total = e.reduce(name, first, sizes, element, order)
    if start is None:
        given = e.step("convert", like, [e.value(op.init_values[0], ())])
        total = e.step(name, like, [given, total])
    return e.step("convert", op.results[0], [total])


def _reduce(e: Expression, op: hlo.ReduceOp, indices: Indices) -> int:
    (source,) = op.inputs
    shape, reduced = shape_of(source), sorted(array_values(op.dimensions))

    def inner(loops: list[Axis]) -> int:
        kept, taken = iter(indices), dict(zip(reduced, loops, strict=True))
        return e.value(source, tuple(taken[d] if d in taken else next(kept) for d in range(len(shape))))

    return _combined(e, op, [shape[d] for d in reduced], inner, Order.PARTS)


def _reduce_window(e: Expression, op: hlo.ReduceWindowOp, indices: Indices) -> int:
    (source,) = op.inputs
    rank = len(shape_of(source))
    ones = (1,) * rank
    window, strides = array_values(op.window_dimensions), array_values(op.window_strides, ones)
    dilations = array_values(op.window_dilations, ones)
    assert not pads(op)  # `group` has moved padding and dilation to a `pad` before it

    def inner(loops: list[Axis]) -> int:
        taps = zip(indices, loops, strides, dilations, strict=True)
        where = tuple(at.scaled(by).plus(loop.scaled(dilation)) for at, loop, by, dilation in taps)
        return e.value(source, where)

    return _combined(e, op, window, inner, Order.LEFT_TO_RIGHT)


def _weights(e: Expression, value: SSAValue, innermost: int) -> View | None:
    """A constant with dimension `innermost` contiguous in memory, for vector loads; None for other values."""
    array = e.scope.values.constant(value)
    if array is None:
        return None
    order = [d for d in range(array.ndim) if d != innermost] + [innermost]
    view = e.scope.constant_view(np.ascontiguousarray(array.transpose(order)))
    strides = [0] * array.ndim
    for d, stride in zip(order, view.strides, strict=True):
        strides[d] = stride
    return View(view.buffer, view.offset, array.shape, tuple(strides), view.dtype)


def _element(e: Expression, value: SSAValue, view: View | None, indices: Indices) -> int:
    return e.value(value, indices) if view is None else e.read(view, indices, value)


def _multiplied(e: Expression, op: Any, lhs: int, rhs: int) -> int:
    if half_of(op.result):
        raise CodegenError(
            f"{describe(op)}: found {op.result.type}; native code has sums of products of f32 and f64 "
            "(convert, or run it with the interpreter)"
        )
    like = scalar_type(op.result)
    factors = [e.step("convert", like, [factor]) for factor in (lhs, rhs)]
    if like[0] in FLOATS:
        return e.step("plus_product", like, [*factors, e.step(Total(), like)])
    return e.step("multiply", like, factors)


def _dot(e: Expression, op: hlo.DotGeneralOp, indices: Indices) -> int:
    dims = op.dot_dimension_numbers.data
    ranks, batch = (len(shape_of(op.lhs)), len(shape_of(op.rhs))), len(dims.lhs_batching_dimensions)
    taken = (
        (*dims.lhs_batching_dimensions, *dims.lhs_contracting_dimensions),
        (*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions),
    )
    free = [[d for d in range(rank) if d not in used] for rank, used in zip(ranks, taken, strict=True)]
    outer = (indices[: batch + len(free[0])], (*indices[:batch], *indices[batch + len(free[0]) :]))
    order = (
        (*dims.lhs_batching_dimensions, *free[0], *dims.lhs_contracting_dimensions),
        (*dims.rhs_batching_dimensions, *free[1], *dims.rhs_contracting_dimensions),
    )
    constant = _weights(e, op.rhs, free[1][-1]) if free[1] else None

    def inner(loops: list[Axis]) -> int:
        each: list[Indices] = []
        for chosen, dimensions in zip(outer, order, strict=True):
            axes = dict(zip(dimensions, (*chosen, *loops), strict=True))
            each.append(tuple(axes[d] for d in range(len(axes))))
        return _multiplied(e, op, e.value(op.lhs, each[0]), _element(e, op.rhs, constant, each[1]))

    return e.reduce("add", 0, [shape_of(op.lhs)[d] for d in dims.lhs_contracting_dimensions], inner)


def _convolution(e: Expression, op: hlo.ConvolutionOp, indices: Indices) -> int:
    layout = op.dimension_numbers.data
    spatial = layout.input_spatial_dimensions
    rank, ones = len(spatial), (1,) * len(spatial)
    if (batch_groups := int(op.batch_group_count.value.data)) != 1:
        raise CodegenError(
            f"{describe(op)}: found batch_group_count = {batch_groups}, expected 1; run it with the interpreter"
        )
    strides, dilation = array_values(op.window_strides, ones), array_values(op.rhs_dilation, ones)
    assert not pads(op)
    kernel = shape_of(op.rhs)
    constant = _weights(e, op.rhs, layout.kernel_output_feature_dimension)
    reversed_ = [False] * rank if op.window_reversal is None else [bool(x) for x in op.window_reversal.get_values()]
    channel = indices[layout.output_feature_dimension]
    groups = int(op.feature_group_count.value.data)
    inputs, outputs = kernel[layout.kernel_input_feature_dimension], kernel[layout.kernel_output_feature_dimension]
    group = Axis()
    if groups > 1:
        group, within = e.split(channel, outputs // groups)
        channel = group.scaled(outputs // groups).plus(within)
    sizes = [kernel[d] for d in layout.kernel_spatial_dimensions]

    def inner(loops: list[Axis]) -> int:
        *taps, feature = loops
        image, weights = [Axis()] * (rank + 2), [Axis()] * (rank + 2)
        image[layout.input_batch_dimension] = indices[layout.output_batch_dimension]
        image[layout.input_feature_dimension] = group.scaled(inputs).plus(feature)
        weights[layout.kernel_input_feature_dimension] = feature
        weights[layout.kernel_output_feature_dimension] = channel
        for n, tap in enumerate(taps):
            at = indices[layout.output_spatial_dimensions[n]]
            image[spatial[n]] = at.scaled(strides[n]).plus(tap.scaled(dilation[n]))
            turned = tap.scaled(-1, sizes[n] - 1) if reversed_[n] else tap
            weights[layout.kernel_spatial_dimensions[n]] = turned
        factors = e.value(op.lhs, tuple(image)), _element(e, op.rhs, constant, tuple(weights))
        return _multiplied(e, op, *factors)

    return e.reduce("add", 0, [*sizes, inputs], inner)


CONTRACTIONS: dict[type[Operation], ScalarRule] = {
    hlo.ConvolutionOp: on_numbers(_convolution),
    hlo.DotGeneralOp: on_numbers(_dot),
    hlo.ReduceOp: on_numbers(_reduce),
    hlo.ReduceWindowOp: on_numbers(_reduce_window),
}
"""The rules of ops that are a reduction. A nest has at most one of them."""

EXPRESSIONS: dict[type[Operation], ScalarRule] = {**MOVEMENT, **ELEMENTWISE, **CONTRACTIONS}
"""The rules of ops that can be part of a nest."""
