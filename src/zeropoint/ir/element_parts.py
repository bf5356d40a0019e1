"""Follows parts of values through ops that keep them apart: for each element of a result, the part it comes from.

```mlir
%c = stablehlo.concatenate %boxes, %scores, dim = 1      parts 0 and 1
%m = stablehlo.multiply %c, %keep                        the same parts
%p = stablehlo.reduce(%m) ... across dimensions = [2]    still apart: the sums are along another dimension
%q = stablehlo.convolution(%m, %w)                       mixes them, unless each channel has a filter of its own
```
The parts of a value are an i32 array of its shape. Most are views of one dimension and take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConvolutionOp,
    DotGeneralOp,
    GatherOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    ScatterOp,
    SelectOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

MOVES = BroadcastInDimOp | ConcatenateOp | GatherOp | PadOp | ReshapeOp | ReverseOp | SliceOp | TransposeOp
"""Ops that move, repeat or drop elements and compute none."""
NO_PART = -1
"""Marks elements that belong to no part, such as padding and booleans."""
MOST_PARTS = 64
"""Values with more combinations of parts than this are not followed."""
Parts = Mapping[SSAValue, Array]
"""The parts of values; all elements of other values belong to no part."""


def concatenated(op: ConcatenateOp, parts: Sequence[Array]) -> Array:
    """The parts of a concatenation. `parts` has one number for each operand, or one for each of its elements."""
    axis, shape = int(op.dimension.value.data), shape_of(op.result)
    if all(part.ndim == 0 for part in parts):
        sizes = [shape_of(value)[axis] for value in op.inputs]
        along = np.repeat(np.array([int(part) for part in parts], np.int32), sizes)
        return np.broadcast_to(along.reshape([-1 if n == axis else 1 for n in range(len(shape))]), shape)
    whole = [np.broadcast_to(part, shape_of(value)) for part, value in zip(parts, op.inputs, strict=True)]
    return np.broadcast_to(np.concatenate(without_repeats(whole, axis), axis), shape)


def without_repeats(arrays: Sequence[Array], kept: int | None = None) -> list[Array]:
    """Arrays of equal rank, cut to size 1 along each dimension in which none of them varies, except for `kept`."""
    rank = arrays[0].ndim
    same = [n for n in range(rank) if n != kept and all(one.strides[n] == 0 or one.shape[n] == 1 for one in arrays)]
    return [one[tuple(slice(1) if n in same else slice(None) for n in range(rank))] for one in arrays]


def combinations(found: Sequence[Array]) -> tuple[Array, list[tuple[int, ...]]]:
    """Number the combinations of parts that meet: the number of each element, and the parts of each combination.

    The arrays have one shape. A combination has one part for each of them.
    """
    varying = without_repeats(found)
    codes = np.zeros(varying[0].shape, np.int64)
    for one in varying:
        codes = codes * (int(one.max(initial=NO_PART)) + 2) + (one + 1)
    _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    met = [tuple(int(one.reshape(-1)[first]) for one in varying) for first in firsts]
    return np.broadcast_to(numbers.reshape(codes.shape).astype(np.int32), found[0].shape), met


def renumbered(parts: Array, numbers: Sequence[int]) -> Array:
    """The parts, with `numbers[n]` instead of each number n."""
    return np.broadcast_to(np.array([*numbers, NO_PART], np.int32)[without_repeats([parts])[0]], parts.shape)


def carried(op: Operation, parts: Parts, weights: Weights) -> Array | None:
    """The parts of an op's result; None if an element depends on several, or if the op is not known to keep them apart.

    Operands without parts, such as constants and booleans, do not change the parts of the others. The result of a
    comparison has no parts, because a mask computed from the scores may be applied to the boxes.
    """
    if len(op.results) != 1:
        return None
    if isinstance(op, CompareOp):
        return np.broadcast_to(np.int32(NO_PART), shape_of(op.result))
    if isinstance(op, UnaryOp | BinaryOp | ClampOp | SelectOp):
        return _together([parts[value] for value in op.operands if value in parts], shape_of(op.results[0]))
    rule = _RULES.get(type(op))
    return None if rule is None else rule(op, parts, weights)


def through(
    region: QuantizeRegionOp, parts: Parts, weights: Weights, refuses: Callable[[Operation], bool] = lambda op: False
) -> list[Array]:
    """The parts of a region's results; none if they are mixed, if an op is refused, and for a region without ops."""
    block = region.body.block
    found: dict[SSAValue, Array] = {
        inner: parts[value] for inner, value in zip(block.args, region.inputs, strict=True) if value in parts
    }
    for op in block.ops:
        if isinstance(op, ReturnOp) or not any(value in found for value in op.operands):
            continue
        made = None if refuses(op) else carried(op, found, weights)
        if made is None:
            return []
        found[op.results[0]] = made
    returned = block.last_op
    assert returned is not None
    # A region without ops passes its operand on: there is nothing to compute in float.
    if returned.prev_op is None or not all(value in found for value in returned.operands):
        return []
    return [found[value] for value in returned.operands]


def _together(found: Sequence[Array], shape: Sequence[int]) -> Array | None:
    """The parts of an elementwise combination; None if two parts meet in an element."""
    result = np.broadcast_to(np.int32(NO_PART), shape)
    for number, one in enumerate(found):
        if not number:
            result = np.broadcast_to(one, shape)
        elif one is not found[0]:
            if ((result != one) & (result != NO_PART) & (one != NO_PART)).any():
                return None
            result = np.maximum(result, one)
    return result


def _merged(parts: Array, axes: Sequence[int]) -> Array | None:
    """The parts after a reduction along `axes`, which get size 1; None if several parts meet."""
    if not axes or not parts.size:
        return parts if parts.size else None
    greatest = parts.max(axis=tuple(axes), keepdims=True)
    meet = (parts != greatest) & (parts != NO_PART)
    return None if meet.any() else greatest


def _sliced(op: SliceOp, parts: Array) -> Array:
    bounds = zip(array_values(op.start_indices), array_values(op.limit_indices), array_values(op.strides), strict=True)
    return parts[tuple(slice(*bound) for bound in bounds)]


def _padded(op: PadOp, parts: Parts, _: Weights) -> Array | None:
    """The parts of a padded value. Negative padding removes elements; interior padding is not supported."""
    sides = list(zip(array_values(op.edge_padding_low), array_values(op.edge_padding_high), strict=True))
    if any(array_values(op.interior_padding)) or op.operand not in parts:
        return None
    kept = parts[op.operand][tuple(slice(max(-low, 0), min(high, 0) or None) for low, high in sides)]
    return np.pad(kept, [(max(low, 0), max(high, 0)) for low, high in sides], constant_values=NO_PART)


def _broadcast(op: BroadcastInDimOp, parts: Array) -> Array:
    shape, axes = shape_of(op.result), array_values(op.broadcast_dimensions)
    laid_out = [1] * len(shape)
    for axis, size in zip(axes, parts.shape, strict=True):
        laid_out[axis] = size
    order = np.argsort(axes) if axes else ()
    return np.broadcast_to(parts.transpose(order).reshape(laid_out), shape)


def _joined(op: ConcatenateOp, parts: Parts, _: Weights) -> Array:
    return concatenated(op, [parts.get(value, np.array(NO_PART, np.int32)) for value in op.inputs])


def _reduced(op: ReduceOp, parts: Parts, _: Weights) -> Array | None:
    if len(op.inputs) != 1 or op.inputs[0] not in parts:
        return None
    axes = array_values(op.dimensions)
    found = _merged(parts[op.inputs[0]], axes)
    return None if found is None else found.squeeze(tuple(axes))


def _windows(op: ReduceWindowOp, parts: Parts, _: Weights) -> Array | None:
    """The parts of a windowed reduction. Parts that meet anywhere along a dimension of the windows count as meeting."""
    if len(op.inputs) != 1 or op.inputs[0] not in parts:
        return None
    return _fitted(parts[op.inputs[0]], array_values(op.window_dimensions), shape_of(op.results[0]))


def _fitted(parts: Array, windows: Sequence[int], shape: Sequence[int]) -> Array | None:
    found = _merged(parts, [axis for axis, size in enumerate(windows) if size > 1])
    fits = found is not None and all(have in (1, size) for have, size in zip(found.shape, shape, strict=True))
    return np.broadcast_to(found, shape) if fits and found is not None else None


def _product(op: DotGeneralOp, parts: Parts, _: Weights) -> Array | None:
    dimensions, shape = op.dot_dimension_numbers.data, shape_of(op.result)
    sides = (
        (op.lhs, dimensions.lhs_batching_dimensions, dimensions.lhs_contracting_dimensions, True),
        (op.rhs, dimensions.rhs_batching_dimensions, dimensions.rhs_contracting_dimensions, False),
    )
    laid_out: list[Array] = []
    for value, batching, contracting, first in sides:
        if value not in parts:
            continue
        found = _merged(parts[value], contracting)
        if found is None:
            return None
        free = [axis for axis in range(found.ndim) if axis not in (*batching, *contracting)]
        found = found.transpose([*batching, *free, *contracting])
        sizes = found.shape[: len(batching)], found.shape[len(batching) : len(batching) + len(free)]
        others = [1] * (len(shape) - len(batching) - len(free))
        laid_out.append(found.reshape([*sizes[0], *sizes[1], *others] if first else [*sizes[0], *others, *sizes[1]]))
    return _together([np.broadcast_to(one, shape) for one in laid_out], shape)


def _convolved(op: ConvolutionOp, parts: Parts, _: Weights) -> Array | None:
    """The parts of the channels that a filter reads. Parts that meet anywhere in the image or batch count."""
    layout, shape, groups = op.dimension_numbers.data, shape_of(op.result), op.feature_group_count.value.data
    if op.rhs in parts or op.lhs not in parts or op.batch_group_count.value.data != 1:
        return None
    found = _merged(parts[op.lhs], (layout.input_batch_dimension, *layout.input_spatial_dimensions))
    found = None if found is None else _merged(found.reshape(groups, -1), [1])
    if found is None:
        return None
    filters = np.repeat(found.reshape(-1), shape[layout.output_feature_dimension] // groups)
    axis = layout.output_feature_dimension
    return np.broadcast_to(filters.reshape([-1 if n == axis else 1 for n in range(len(shape))]), shape)


def gathered(op: GatherOp, indices: Array | None) -> tuple[int, Array] | None:
    """The dimension and the elements along it that a gather at constant indices takes; None for any other gather."""
    shape, dimensions = shape_of(op.operand), op.dimension_numbers.data
    if indices is None or len(dimensions.start_index_map) != 1 or dimensions.operand_batching_dims:
        return None
    (axis,) = dimensions.start_index_map
    sizes = [1 if number == axis else size for number, size in enumerate(shape)]
    kept = [size if number != axis else indices.size for number, size in enumerate(shape)]
    others = [number for number in range(len(shape)) if number != axis]
    whole = list(op.slice_sizes.get_values()) == sizes and list(dimensions.collapsed_slice_dims) == [axis]
    if not whole or list(dimensions.offset_dims) != others or list(shape_of(op.result)) != kept:
        return None
    return axis, np.clip(indices.reshape(-1), 0, shape[axis] - 1)


def _taken(op: GatherOp, parts: Parts, weights: Weights) -> Array | None:
    """The parts of gathered slices. At computed positions, the parts must not vary along the indexed dimensions."""
    if op.operand not in parts:
        return None
    if (found := gathered(op, constant_array(op.start_indices, weights))) is not None:
        return np.take(parts[op.operand], found[1], found[0])
    dimensions, shape = op.dimension_numbers.data, shape_of(op.result)
    merged = _merged(parts[op.operand], dimensions.start_index_map)
    if merged is None or dimensions.operand_batching_dims:
        return None
    sizes = array_values(op.slice_sizes)
    kept = [axis for axis in range(merged.ndim) if axis not in dimensions.collapsed_slice_dims]
    cut = merged[tuple(slice(size) for size in sizes)].reshape([min(merged.shape[axis], sizes[axis]) for axis in kept])
    laid_out = [1] * len(shape)
    for axis, size in zip(dimensions.offset_dims, cut.shape, strict=True):
        laid_out[axis] = size
    return np.broadcast_to(cut.reshape(laid_out), shape)


def _scattered(op: ScatterOp, parts: Parts, _: Weights) -> Array | None:
    """The parts of the operand, also for elements that updates replace; None if the updates have parts of their own."""
    return None if len(op.inputs) != 1 or any(one in parts for one in op.updates) else parts.get(op.inputs[0])


def _moved(move: Callable[[Any, Array], Array]) -> Callable[[Any, Parts, Weights], Array | None]:
    """The rule of an op that moves the elements of its only operand."""
    return lambda op, parts, _: move(op, parts[op.operands[0]]) if op.operands[0] in parts else None


_RULES: Mapping[type[Operation], Callable[[Any, Parts, Weights], Array | None]] = {
    BroadcastInDimOp: _moved(_broadcast),
    ReshapeOp: _moved(lambda op, parts: parts.reshape(shape_of(op.result))),
    ReverseOp: _moved(lambda op, parts: np.flip(parts, array_values(op.dimensions))),
    SliceOp: _moved(_sliced),
    TransposeOp: _moved(lambda op, parts: parts.transpose(array_values(op.permutation))),
    ConcatenateOp: _joined,
    ConvolutionOp: _convolved,
    DotGeneralOp: _product,
    GatherOp: _taken,
    PadOp: _padded,
    ReduceOp: _reduced,
    ReduceWindowOp: _windows,
    ScatterOp: _scattered,
}
"""The rules of ops that are not elementwise."""
