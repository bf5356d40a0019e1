"""`reduce` and `reduce_window`.

Source: the StableHLO specification, and the RFC "StableHLO quantization for reduction ops". The body may compute in
another element type than that of operands and results. Values are converted at its edges by `uniform_quantize` (A) or
`convert` (F, G).

The specification allows any full binary tree over the values in order as schedule. Values are ordered by their indices
in the reduced dimensions, or in the window including padding, the last dimension fastest. Our schedule is:

- A single `add` or `multiply` of f32 or f64: `reduce` combines 16 parts, then halves (`zeropoint.numerics.sums`). A
  window is combined from left to right. The initial value is combined last, from the left.
- A single op on integers, or a single `maximum` or `minimum`: every order gives the same result.
- A single `add` of quantized values: the exact sum, saturated once at the end. If every step saturated, the result
  would depend on the schedule. The specification allows our result: it is that of a schedule which adds neighbours of
  opposite signs as long as there are any. No such step saturates, and a sum of values of one sign stays at its bound
  once it reaches it. If no step saturates, every schedule gives this result.
- Any other body (f16, bf16, several ops, several operands): `reduce` combines neighbours, level by level, and the
  initial value last, from the left. A window is combined from left to right, starting with the initial value.

Native code uses the same schedule, so floats are equal bit for bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from zeropoint.interp.affine import Affine, affine, is_quantized
from zeropoint.interp.binding import Arrays, Kernel, Scope
from zeropoint.interp.elementwise import PREFIX
from zeropoint.interp.exactness import FLOAT32, FLOAT64
from zeropoint.interp.movement import padded
from zeropoint.interp.quantized import implicit_conversion
from zeropoint.ir.stablehlo import BinaryOp, ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.stablehlo.windows import Window
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.sums import combined

CombineArrays = Callable[[Arrays, Arrays], Arrays]

_EXACT: dict[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "or": np.bitwise_or,
}
"""Functions that are associative and commutative on integers, so that NumPy may reduce in any order."""
_ORDER_ONLY = frozenset(("maximum", "minimum"))
"""Functions that are also associative and commutative on floats."""
_PARTED = frozenset((FLOAT32, FLOAT64))
"""The types whose sums are computed in 16 parts."""


def reduce(op: ReduceOp, scope: Scope) -> Kernel:
    """results[j] = the body over inputs[j, :] and init_values, along the reduced dimensions."""
    dims = array_values(op.dimensions, ())
    count = len(op.inputs)
    reducer = Reducer.of(op.body.block, op.inputs, op.init_values, op.results_, scope)

    def run(*operands: Array) -> Array | Arrays:
        inputs, init = reducer.into(operands[:count]), reducer.start(operands[count:])
        # NumPy has no maximum of an empty array. The result is the initial value.
        empty = not all(inputs[0].shape[dim] for dim in dims)
        results = init if empty else reducer.combine(init, reducer.total(inputs, sorted(dims)))
        results = reducer.out_of(results)
        kept = [size for dim, size in enumerate(inputs[0].shape) if dim not in dims]
        shaped = tuple(np.broadcast_to(result, kept) for result in results)
        return shaped[0] if count == 1 else shaped

    return run


def sum_of(values: Array, dims: Sequence[int]) -> Array:
    """The sum of floats over `dims` as `reduce` computes it, from an initial 0, in the dtype of the values."""
    flat = _flat(values, dims)
    zero = np.zeros(flat.shape[1:], values.dtype)
    if not len(flat):
        return zero
    if values.dtype in _PARTED:
        return zero + combined(flat, np.add)
    return zero + _tree((flat,), lambda left, right: (left[0] + right[0],))[0]


def _flat(values: Array, dims: Sequence[int]) -> Array:
    """The reduced dimensions flattened to axis 0. The size is explicit, because -1 fails if a dimension is 0."""
    kept = [dim for dim in range(values.ndim) if dim not in dims]
    count = math.prod(values.shape[dim] for dim in dims)
    return values.transpose((*dims, *kept)).reshape(count, *(values.shape[dim] for dim in kept))


def extreme(values: Array, function: np.ufunc, dims: Sequence[int]) -> Array:
    """The maximum or minimum over `dims`. NaN if any value is NaN. -0 is less than +0."""
    dims = tuple(dims)
    with np.errstate(all="ignore"):
        found = np.asarray(function.reduce(values, axis=dims))
    zero = found == 0
    if not zero.any():
        return found
    # NumPy does not order -0 and +0.
    wanted = function is np.minimum  # the sign bit of the result if both zeros occur
    # The minimum of -0 and +0 is -0, their maximum +0.
    wins = ((values == 0) & (np.signbit(values) == wanted)).any(axis=dims)
    of_zeros = np.copysign(found, np.where(wins == wanted, -1, 1).astype(found.dtype))
    return np.where(zero, of_zeros, found)


def _tree(values: Arrays, combine: CombineArrays) -> Arrays:
    """Combine along axis 0, neighbours first, level by level."""
    while (length := len(values[0])) > 1:
        pairs = length // 2
        combined = combine(
            tuple(x[0 : 2 * pairs : 2] for x in values),
            tuple(x[1 : 2 * pairs : 2] for x in values),
        )
        # A last element without a neighbour goes to the next level unchanged.
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
    reducer = Reducer.of(op.body.block, op.inputs, op.init_values, op.results_, scope)
    combine, start_last = reducer.combine, _is_parted(op.body.block)

    def run(*operands: Array) -> Array | Arrays:
        init = reducer.start(operands[count:])
        padded_inputs = tuple(
            padded(x, padding, fill, interior) if any(map(any, padding)) or any(interior) else x
            for x, fill in zip(reducer.into(operands[:count]), init, strict=True)
        )
        sizes = [
            Window(extent, stride, window_dilation=dilation).output_size(size)
            for extent, stride, dilation, size in zip(window, strides, dilations, padded_inputs[0].shape, strict=True)
        ]
        start = tuple(np.broadcast_to(fill, sizes) for fill in init)
        taps = _taps(window, dilations, strides, sizes)
        # The schedule of floats begins with the first element and adds the initial value last.
        if start_last and taps:
            first, *taps = taps
            results = tuple(x[first] for x in padded_inputs)
        else:
            results = start
        for tap in taps:
            results = combine(results, tuple(x[tap] for x in padded_inputs))
        results = reducer.out_of(combine(start, results) if start_last else results)
        return results[0] if count == 1 else results

    return run


def _taps(
    window: Sequence[int], dilations: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> list[tuple[slice, ...]]:
    """For each window element, in lexicographic order, the slices that all windows read it from."""
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
    """The body over values in order, with conversions at its edges. all_reduce applies it over processes."""
    reducer = Reducer.of(block, [operand], [operand], [result], scope)

    def run(values: Sequence[Array]) -> Array:
        stacked = np.stack([reducer.into([value])[0] for value in values])
        return np.asarray(reducer.out_of(_tree((stacked,), reducer.combine))[0])

    return run


@dataclass(frozen=True)
class Reducer:
    """A body with the conversions at its edges (A, F and G of the RFC).

    `into` converts operands to the type of the body, and `start` initial values. `out_of` converts to the type of the
    results. `total` combines all values over some dimensions by the schedule of `reduce`.
    """

    into: Callable[[Sequence[Array]], Arrays]
    start: Callable[[Sequence[Array]], Arrays]
    out_of: Callable[[Arrays], Arrays]
    combine: CombineArrays
    total: Callable[[Arrays, Sequence[int]], Arrays]

    @staticmethod
    def of(
        block: Block,
        operands: Sequence[SSAValue],
        init_values: Sequence[SSAValue],
        results: Sequence[SSAValue],
        scope: Scope,
    ) -> Reducer:
        """The reducer of a body and the types around it."""
        arguments = [element_of(argument) for argument in block.args[: len(operands)]]
        into, start = (
            _each([element_of(value) for value in values], arguments, scope) for values in (operands, init_values)
        )
        out_of = _each(returned_elements(block), [element_of(result) for result in results], scope)
        sums = _sum_type(block)
        if sums is None:
            return Reducer(into, start, out_of, *_combiner(block, scope))
        word = np.dtype(np.int64)

        def centred(convert: Callable[[Sequence[Array]], Arrays]) -> Callable[[Sequence[Array]], Arrays]:
            return lambda arrays: tuple(sums.centred(array, word) for array in convert(arrays))

        def saturated(totals: Arrays) -> Arrays:
            # Saturated once at the end, because saturating sums on the way would depend on the order.
            stored = (np.clip(x + sums.zeros(x.ndim), sums.storage_min, sums.storage_max) for x in totals)
            return out_of(tuple(x.astype(sums.dtype) for x in stored))

        return Reducer(
            centred(into),
            centred(start),
            saturated,
            lambda left, right: (left[0] + right[0],),
            lambda values, dims: (values[0].sum(axis=tuple(dims)),),
        )


def _sum_type(block: Block) -> Affine | None:
    """The type of a body that is a single `add` of quantized values; None for any other body."""
    element = returned_elements(block)[0]
    return affine(element) if _one_op(block) == "add" and is_quantized(element) else None


def returned_elements(block: Block) -> list[Attribute]:
    """The element types of the values that a body returns."""
    terminator = block.last_op
    assert terminator is not None
    return [element_of(value) for value in terminator.operands]


def _each(
    sources: Sequence[Attribute], targets: Sequence[Attribute], scope: Scope
) -> Callable[[Sequence[Array]], Arrays]:
    kernels = [implicit_conversion(*types, scope.profile) for types in zip(sources, targets, strict=True)]
    return lambda arrays: tuple(kernel(array) for kernel, array in zip(kernels, arrays, strict=True))


def _combiner(block: Block, scope: Scope) -> tuple[CombineArrays, Callable[[Arrays, Sequence[int]], Arrays]]:
    """The body on tuples of arrays, and a function that reduces dimensions by the schedule of `reduce`."""
    body = scope.body(block)

    def combine(left: Arrays, right: Arrays) -> Arrays:
        return body(*left, *right)

    def neighbours(values: Arrays, dims: Sequence[int]) -> Arrays:
        return _tree(tuple(_flat(x, dims) for x in values), combine)

    one, element = _one_op(block), returned_elements(block)[0]
    if one is None or (is_quantized(element) and one not in _ORDER_ONLY):
        return combine, neighbours
    dtype, function = element_dtype(element), _EXACT[one]
    if dtype.kind in "iub":
        return combine, lambda values, dims: (function.reduce(values[0], axis=tuple(dims), dtype=values[0].dtype),)
    if one in _ORDER_ONLY and dtype.kind != "c":
        return combine, lambda values, dims: (extreme(values[0], function, dims),)
    if dtype in _PARTED:
        return combine, lambda values, dims: (combined(_flat(values[0], dims), function),)
    return combine, neighbours


def _is_parted(block: Block) -> bool:
    """Whether a body is a single sum or product of f32 or f64."""
    element = returned_elements(block)[0]
    return _one_op(block) in ("add", "multiply") and not is_quantized(element) and element_dtype(element) in _PARTED


def _one_op(block: Block) -> str | None:
    """The name of a body's only op, if it reads both arguments and all types are equal; None for any other body."""
    op = block.first_op
    terminator = block.last_op
    if not isinstance(op, BinaryOp) or terminator is None or op.next_op is not terminator:
        return None
    if set(op.operands) != set(block.args) or tuple(terminator.operands) != tuple(op.results):
        return None
    name, element = op.name.removeprefix(PREFIX), element_of(op.result)
    same = all(element_of(value) == element for value in op.operands)
    return name if name in _EXACT and same else None
