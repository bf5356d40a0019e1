"""The ranges of sums of products and of reductions.

A sum with constant weights has bounds per output channel. For the upper bound, positive weights are multiplied by the
greatest input and negative weights by the least. For the lower bound, it is the reverse. Both bounds are attained.

Source: the project's numerics notes, "Accumulators": the proof for each output channel, from the actual weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis, weights_by_channel
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.window_padding import pads
from zeropoint.numerics.accumulator import signed_sums
from zeropoint.numerics.arrays import IntArray
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.interval import UNBOUNDED, Interval, product

NARROW = 4
"""Sums of weights of at most so many bytes fit i64."""


@dataclass(frozen=True)
class Sums:
    """The ranges of the complete sums of a contraction, and of all partial sums of their terms in any order."""

    whole: Interval
    partial: Interval


def contraction(ranges: Ranges, op: ContractionOp) -> Interval:
    """The range of the complete sums."""
    return sums_of(ranges, op).whole


def sums_of(ranges: Ranges, op: ContractionOp) -> Sums:
    """The ranges from the actual weights, if one operand is constant; otherwise from the number of terms."""
    lhs, rhs = ranges.array(op.lhs), ranges.array(op.rhs)
    rank = len(shape_of(op.result))
    if rhs is not None:
        return _weighted(*_weights(op, rhs), rank, ranges.of(op.lhs).hull, pads=pads(op))
    if lhs is not None and isinstance(op, hlo.DotGeneralOp):
        return _weighted(*_left_weights(op, lhs), rank, ranges.of(op.rhs).hull, pads=False)
    each = ranges.of(op.lhs).hull * ranges.of(op.rhs).hull
    partial = each.any_of(terms(op))
    # At a padded border, a sum has fewer terms, so it is a partial sum.
    return Sums(partial if pads(op) else each.times(terms(op)), partial)


def dynamic_convolution(ranges: Ranges, op: hlo.DynamicConvOp) -> Interval:
    """The range of all partial sums, because padding that is computed at run time may leave out any terms."""
    return (ranges.of(op.lhs).hull * ranges.of(op.rhs).hull).any_of(terms(op))


def _weighted(weights: Array, axis: int | None, rank: int, x: Interval, *, pads: bool) -> Sums:
    """Sums with `weights` of shape (channels, terms). If `axis` is None, one range covers all channels."""
    positive, negative = _totals(weights)
    up, down = Interval(positive, positive), Interval(negative, negative)

    def bounds(given: Interval) -> Interval:
        # The greatest sum takes the greatest input at positive weights and the least at negative ones.
        found = up * given - down * given
        return found.hull if axis is None else Interval.channels(found.low, found.high, axis, rank)

    # In a partial sum, a missing term counts as 0. So the bounds hold for every order of summation.
    partial = bounds(x.with_zero())
    return Sums(partial if pads or x.least <= 0 <= x.greatest else bounds(x), partial)


def _totals(weights: Array) -> tuple[IntArray, IntArray]:
    """The sums of the positive weights of each channel, and of the magnitudes of the negative ones, or upper bounds."""
    if weights.dtype.kind in "iu" and weights.dtype.itemsize <= NARROW:
        return signed_sums(weights)  # at most 2^31 times the number of terms, which is far below 2^32
    # -(-2^63) and unsigned weights from 2^63 do not fit i64. `UNBOUNDED` fits no accumulator.
    wide = weights.astype(np.uint64 if weights.dtype.kind == "u" else np.int64)
    weights = np.clip(wide, -UNBOUNDED if weights.dtype.kind == "i" else 0, UNBOUNDED).astype(np.int64)
    return _total(np.maximum(weights, 0)), _total(np.maximum(-weights, 0))


def _total(weights: Array) -> IntArray:
    """Sums of nonnegative numbers over the terms, or an upper bound if the sums might exceed i64."""
    count, greatest = weights.shape[1], int(weights.max(initial=0))
    # Below 2^62 a sum in i64 cannot wrap around.
    if count * greatest <= 1 << 62:
        return weights.sum(axis=1, dtype=np.int64)
    rows = len(weights)
    return np.broadcast_to(product(np.asarray(greatest, np.int64), np.asarray(count, np.int64)), (rows,))


def _weights(op: ContractionOp, array: Array) -> tuple[Array, int | None]:
    """The weights as (channels, terms), and the channel dimension of the result, or None."""
    axis = weight_channel_axis(op)
    if axis is not None:
        return weights_by_channel(array, axis), output_channel_axis(op)
    assert isinstance(op, hlo.DotGeneralOp)
    return _rows(array, op.dot_dimension_numbers.data.rhs_contracting_dimensions), None


def _left_weights(op: hlo.DotGeneralOp, array: Array) -> tuple[Array, int | None]:
    dims = op.dot_dimension_numbers.data
    batching, contracting = dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions
    free = [d for d in range(array.ndim) if d not in (*batching, *contracting)]
    return _rows(array, contracting), 0 if len(free) == 1 and not batching else None


def _rows(array: Array, contracting: tuple[int, ...]) -> Array:
    """(channels, terms): one row for each index of the dimensions that are not contracted."""
    kept = [d for d in range(array.ndim) if d not in contracting]
    return array.transpose(*kept, *contracting).reshape(-1, prod(array.shape[d] for d in contracting))


def terms(op: ContractionOp | hlo.DynamicConvOp | hlo.ReduceOp | hlo.ReduceWindowOp) -> int:
    """The number of terms of one sum."""
    if isinstance(op, hlo.ConvolutionOp | hlo.DynamicConvOp):
        kernel = shape_of(op.rhs)
        # The kernel has only the input features of one group, so this needs no division by groups.
        return prod(kernel) // max(kernel[op.dimension_numbers.data.kernel_output_feature_dimension], 1)
    if isinstance(op, hlo.DotGeneralOp):
        return prod(shape_of(op.lhs)[d] for d in op.dot_dimension_numbers.data.lhs_contracting_dimensions)
    if isinstance(op, hlo.ReduceWindowOp):
        return prod(array_values(op.window_dimensions))
    return prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))


def combined(op: hlo.ReduceOp | hlo.ReduceWindowOp) -> str | None:
    """The name of the op of a body that is one op on both arguments; None for other bodies."""
    block = op.body.block
    inner = list(block.ops)
    # Two ops, the combining one and the return. A set, because the order of the arguments does not matter.
    plain = len(op.inputs) == 1 and len(inner) == 2 and set(inner[0].operands) == set(block.args)
    return inner[0].name.removeprefix("stablehlo.") if plain and len(inner[0].results) == 1 else None


def reduction(ranges: Ranges, op: hlo.ReduceOp | hlo.ReduceWindowOp) -> Interval:
    """The range of a sum, maximum or minimum; the range of the result's type for another body."""
    return reduction_sums(ranges, op).whole


def reduction_sums(ranges: Ranges, op: hlo.ReduceOp | hlo.ReduceWindowOp) -> Sums:
    """The complete and the partial sums (or maxima, minima), including the initial value."""
    name, whole = combined(op), type_interval(element_of(op.results[0]))
    if name not in ("add", "maximum", "minimum"):
        return Sums(whole, whole)
    start, each = ranges.of(op.init_values[0]).hull, ranges.of(op.inputs[0])
    if name == "add":
        return _window_sums(op, each, start) if isinstance(op, hlo.ReduceWindowOp) else _sums(op, each, start)
    # A result combines elements along these dimensions, so it gets the hull of their ranges.
    each = each.without(_moving(op))
    # The initial value alone is a result only without elements: in padding, or along dimensions of size 0.
    if _has_elements(op):
        found = each.extreme(start, np.maximum if name == "maximum" else np.minimum)
    else:
        found = each.join(start)
    if isinstance(op, hlo.ReduceOp):
        found = found.moved(lambda bounds: bounds.squeeze(array_values(op.dimensions)))
    return Sums(found, found)


def _has_elements(op: hlo.ReduceOp | hlo.ReduceWindowOp) -> bool:
    """Whether every result combines at least one element of the operand. Dynamic dimensions may have size 0."""
    if isinstance(op, hlo.ReduceWindowOp):
        return bool((_counts(op).low > 0).all())
    shape = shape_of(op.inputs[0])
    # `DYNAMIC_INDEX` is negative.
    return all(shape[axis] > 0 for axis in array_values(op.dimensions))


def _moving(op: hlo.ReduceOp | hlo.ReduceWindowOp) -> Sequence[int]:
    """The dimensions along which elements are combined."""
    if isinstance(op, hlo.ReduceOp):
        return array_values(op.dimensions)
    before, after = shape_of(op.inputs[0]), shape_of(op.results[0])
    window = array_values(op.window_dimensions)
    return [axis for axis, size in enumerate(window) if size > 1 or before[axis] != after[axis]]


def _sums(op: hlo.ReduceOp, each: Interval, start: Interval) -> Sums:
    shape, axes = shape_of(op.inputs[0]), array_values(op.dimensions)
    # The initial value may be added at any point.
    partial = each.with_zero().summed(shape, axes) + start.with_zero()
    return Sums(each.summed(shape, axes) + start, partial)


def _window_sums(op: hlo.ReduceWindowOp, each: Interval, start: Interval) -> Sums:
    """Sums over windows. Each has `_counts` elements of the operand; padding contributes the initial value."""
    each, inside = each.without(_moving(op)), _counts(op)
    # StableHLO pads the operand with the initial value, so each tap outside adds it once more.
    outside = Interval.of(terms(op), terms(op)) - inside
    partial = inside * each.with_zero() + outside * start.with_zero() + start.with_zero()
    return Sums(inside * each + outside * start + start, partial)


def _counts(op: hlo.ReduceWindowOp) -> Interval:
    """The number of operand elements in each window: the product, over dimensions, of the taps that hit one."""
    before, after = shape_of(op.inputs[0]), shape_of(op.results[0])
    rank = len(before)
    ones = (1,) * rank
    window, strides = array_values(op.window_dimensions), array_values(op.window_strides, ones)
    apart, between = array_values(op.window_dilations, ones), array_values(op.base_dilations, ones)
    counts = Interval.of(1, 1)
    for axis, (low, high) in enumerate(padding_values(op.padding, rank)):
        if DYNAMIC_INDEX in (before[axis], after[axis]):
            # Without padding, windows of one element lie inside. In other windows, any tap may be outside.
            inside = window[axis] == between[axis] == 1 and low <= 0 and high <= 0
            counts = counts * Interval.of(int(inside), window[axis])
            continue
        starts = np.arange(after[axis])[:, None] * strides[axis] - low
        taps = starts + np.arange(window[axis]) * apart[axis]
        # A tap between dilated elements reads the initial value.
        met = (taps >= 0) & (taps <= (before[axis] - 1) * between[axis]) & (taps % between[axis] == 0)
        along = met.sum(axis=1)
        # Equal counts are reduced to one, which broadcasts, so that the interval has no pair for each position.
        if along.size and (along == along[0]).all():
            along = along[:1]
        counts = counts * Interval.channels(along, along, axis, rank)
    return counts
