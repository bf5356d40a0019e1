"""`reduce` and `reduce_window`.

Source: the StableHLO specification, and the RFC "StableHLO quantization for reduction ops": the body may compute in
another element type than operands and results; values are converted at its edges by `uniform_quantize` (A) or
`convert` (F, G).

The schedule is a full binary tree of our choice over the values in order. Ours: `reduce` combines neighbours, level by
level, and the initial value on the left at the root; `reduce_window` goes from left to right over the elements of the
window, beginning with the initial value. Integer sums, minima and maxima do not depend on it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from zeropoint.interp.affine import is_quantized
from zeropoint.interp.binding import Kernel, Scope
from zeropoint.interp.elementwise import PREFIX
from zeropoint.interp.movement import padded
from zeropoint.interp.quantized import implicit_conversion
from zeropoint.ir.stablehlo import BinaryOp, ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

Arrays = tuple[Array, ...]
Combine = Callable[[Arrays, Arrays], Arrays]

_EXACT: dict[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "or": np.bitwise_or,
}
"""Functions that are associative and commutative on integers: NumPy may reduce with them in any order."""
_ORDER_ONLY = frozenset(("maximum", "minimum"))


def reduce(op: ReduceOp, scope: Scope) -> Kernel:
    """results[j] = the body over inputs[j, :] and init_values, the dimensions listed being reduced."""
    dims = array_values(op.dimensions, ())
    count = len(op.inputs)
    kept = [dim for dim in range(len(shape_of(op.inputs[0]))) if dim not in dims]
    shapes = [shape_of(result) for result in op.results_]
    into, out_of = _edges(op, scope)
    combine, ufunc = _combiner(op.body.block, scope)

    def run(*operands: Array) -> Array | Arrays:
        inputs, init = into(operands[:count]), into(operands[count:])
        if ufunc is not None:
            totals: Arrays = (ufunc.reduce(inputs[0], axis=dims, dtype=inputs[0].dtype),)
            results = combine(init, totals)
        else:
            # The reduced positions first, in the order of the dimensions' indices (C: ascending lexicographic order).
            order = (*sorted(dims), *kept)
            flat = tuple(_by_position(x, dims, order) for x in inputs)
            results = combine(init, _tree(flat, combine)) if len(flat[0]) else init
        results = out_of(results)
        shaped = tuple(np.broadcast_to(r, shape) for r, shape in zip(results, shapes, strict=True))
        return shaped[0] if count == 1 else shaped

    return run


def neighbour_sum(values: Array, dims: Sequence[int]) -> Array:
    """The sum over `dims` by the schedule of `reduce`, in the dtype of the values."""
    kept = [dim for dim in range(values.ndim) if dim not in dims]
    flat = _by_position(values, dims, (*dims, *kept))
    zero = np.zeros(flat.shape[1:], values.dtype)
    return zero + _tree((flat,), lambda left, right: (left[0] + right[0],))[0] if len(flat) else zero


def _by_position(values: Array, dims: Sequence[int], order: Sequence[int]) -> Array:
    """The values with the reduced positions as one first dimension. Its size is said: -1 has none where one is 0."""
    count = math.prod(values.shape[dim] for dim in dims)
    moved = values.transpose(order)
    return moved.reshape(count, *moved.shape[len(dims) :])


def _tree(values: Arrays, combine: Combine) -> Arrays:
    """Combine along axis 0, neighbours first; an odd last one waits for the next level."""
    while (length := len(values[0])) > 1:
        pairs = length // 2
        combined = combine(
            tuple(x[0 : 2 * pairs : 2] for x in values),
            tuple(x[1 : 2 * pairs : 2] for x in values),
        )
        if length % 2:
            combined = tuple(np.concatenate([x, last[-1:]]) for x, last in zip(combined, values, strict=True))
        values = combined
    return tuple(x[0] for x in values)


def reduce_window(op: ReduceWindowOp, scope: Scope) -> Kernel:
    """results[i] = the body over the window at i * strides of the inputs, padded and dilated with init_values."""
    rank, count = len(shape_of(op.inputs[0])), len(op.inputs)
    ones = (1,) * rank
    window, strides = array_values(op.window_dimensions, ones), array_values(op.window_strides, ones)
    interior = [dilation - 1 for dilation in array_values(op.base_dilations, ones)]
    dilations, padding = array_values(op.window_dilations, ones), padding_values(op.padding, rank)
    sizes = shape_of(op.results_[0])
    into, out_of = _edges(op, scope)
    combine, _ = _combiner(op.body.block, scope)

    def run(*operands: Array) -> Array | Arrays:
        init = into(operands[count:])
        padded_inputs = tuple(
            padded(x, padding, fill, interior) if any(map(any, padding)) or any(interior) else x
            for x, fill in zip(into(operands[:count]), init, strict=True)
        )
        results = tuple(np.broadcast_to(fill, sizes) for fill in init)
        for tap in _taps(window, dilations, strides, sizes):
            results = combine(results, tuple(x[tap] for x in padded_inputs))
        results = out_of(results)
        return results[0] if count == 1 else results

    return run


def _taps(
    window: Sequence[int], dilations: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> list[tuple[slice, ...]]:
    """For each element of the window, in lexicographic order, where all windows read it."""
    if not math.prod(sizes):
        return []
    return [
        tuple(
            slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
            for at, dilation, stride, size in zip(element, dilations, strides, sizes, strict=True)
        )
        for element in itertools.product(*(range(extent) for extent in window))
    ]


def folded(block: Block, operand: SSAValue, result: SSAValue, scope: Scope) -> Callable[[Sequence[Array]], Array]:
    """The body over values in order, converted at its edges: what all_reduce does with those of a group's processes."""
    arguments, returned = element_of(block.args[0]), returned_elements(block)
    into = implicit_conversion(element_of(operand), arguments, scope.profile)
    out_of = implicit_conversion(returned[0], element_of(result), scope.profile)
    combine, _ = _combiner(block, scope)

    def run(values: Sequence[Array]) -> Array:
        return np.asarray(out_of(_tree((np.stack([into(value) for value in values]),), combine)[0]))

    return run


def _edges(
    op: ReduceOp | ReduceWindowOp, scope: Scope
) -> tuple[Callable[[Sequence[Array]], Arrays], Callable[[Arrays], Arrays]]:
    """The conversions of operands to the body's arguments, and of its results to the op's (the RFC's A, F and G)."""
    block = op.body.block
    arguments = [element_of(argument) for argument in block.args[: len(op.inputs)]]
    outer, inner = [element_of(value) for value in op.inputs], returned_elements(block)
    results = [element_of(result) for result in op.results_]
    return _each(outer, arguments, scope), _each(inner, results, scope)


def returned_elements(block: Block) -> list[Attribute]:
    """The element types of what a body returns."""
    terminator = block.last_op
    assert terminator is not None
    return [element_of(value) for value in terminator.operands]


def _each(
    sources: Sequence[Attribute], targets: Sequence[Attribute], scope: Scope
) -> Callable[[Sequence[Array]], Arrays]:
    kernels = [implicit_conversion(*types, scope.profile) for types in zip(sources, targets, strict=True)]
    return lambda arrays: tuple(kernel(array) for kernel, array in zip(kernels, arrays, strict=True))


def _combiner(block: Block, scope: Scope) -> tuple[Combine, np.ufunc | None]:
    """The body on tuples of arrays, and the NumPy function that reduces with it in any order where there is one."""
    body = scope.body(block)
    return (lambda left, right: body(*left, *right)), _any_order(block)


def _any_order(block: Block) -> np.ufunc | None:
    """The function of a body that is one op on both arguments, where its reduction is exact in any order.

    On integers, where also wrapping around is; on quantized values of one type for maximum and minimum, which act on
    storage. (Sums of quantized values clamp at every step.)
    """
    op = block.first_op
    terminator = block.last_op
    if not isinstance(op, BinaryOp) or terminator is None or op.next_op is not terminator:
        return None
    if set(op.operands) != set(block.args) or tuple(terminator.operands) != tuple(op.results):
        return None
    name, element = op.name.removeprefix(PREFIX), element_of(op.result)
    if is_quantized(element):
        same = all(element_of(value) == element for value in op.operands)
        return _EXACT[name] if same and name in _ORDER_ONLY else None
    dtype = element_dtype(element)
    return _EXACT.get(name) if dtype.kind in "iub" else None
