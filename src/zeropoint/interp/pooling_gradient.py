"""`select_and_scatter`.

Source: the StableHLO specification; the RFC "StableHLO quantization for reduction ops" for `scatter` in another type.

`select` is applied to the elements of a window in lexicographic order: true keeps the current element, false takes the
next one. Padding is never selected. If several windows select an element, their values are added in the order of
`source`, starting from the initial value.
"""

from __future__ import annotations

import itertools

import numpy as np

from zeropoint.interp.binding import BodyFunction, Kernel, Scope
from zeropoint.interp.quantized import implicit_conversion
from zeropoint.interp.reduction import CombineArrays, Reducer
from zeropoint.ir.stablehlo import SelectAndScatterOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_of, shape_of


def select_and_scatter(op: SelectAndScatterOp, scope: Scope) -> Kernel:
    """result[i] = scatter over init_value and the values of source whose windows select operand[i]."""
    rank = len(shape_of(op.operand))
    window, strides = array_values(op.window_dimensions, (1,) * rank), array_values(op.window_strides, (1,) * rank)
    padding = padding_values(op.padding, rank)
    select = scope.body(op.select.block)
    reducer = Reducer.of(op.scatter.block, [op.source], [op.init_value], [op.result], scope)
    chosen_from = implicit_conversion(element_of(op.operand), element_of(op.select.block.args[0]), scope.profile)

    def run(operand: Array, source: Array, init_value: Array) -> Array:
        shape: tuple[int, ...] = operand.shape
        sizes: tuple[int, ...] = source.shape
        # The start of each window, per dimension.
        origins = [np.arange(size) * step - low for size, step, (low, _) in zip(sizes, strides, padding, strict=True)]
        positions = _chosen(chosen_from(operand), window, origins, sizes, select)
        total = np.full(operand.size, reducer.start([init_value])[0])
        _add_up(total, positions, reducer.into([source])[0].reshape(-1), reducer.combine)
        return reducer.out_of((total.reshape(shape),))[0]

    return run


def _chosen(
    operand: Array, window: tuple[int, ...], origins: list[Array], sizes: tuple[int, ...], select: BodyFunction
) -> Array:
    """The flat index of the element that each window selects; -1 for a window of padding only."""
    best = np.zeros(sizes, operand.dtype)
    positions = np.full(sizes, -1, np.int64)
    for tap in itertools.product(*(range(extent) for extent in window)):
        indices = [origin + at for origin, at in zip(origins, tap, strict=True)]
        is_inside = np.ones(sizes, np.bool_)
        for dim, (index, size) in enumerate(zip(indices, operand.shape, strict=True)):
            along = [-1 if other == dim else 1 for other in range(len(sizes))]
            is_inside = is_inside & ((index >= 0) & (index < size)).reshape(along)
        clipped = [np.clip(index, 0, max(size - 1, 0)) for index, size in zip(indices, operand.shape, strict=True)]
        candidate = operand[np.ix_(*clipped)] if indices else operand
        keeps = np.broadcast_to(select(best, candidate)[0], sizes)
        takes = is_inside & ((positions < 0) | ~keeps)
        flat = np.ravel_multi_index(np.ix_(*clipped), operand.shape) if indices else np.zeros((), np.int64)
        positions = np.where(takes, np.broadcast_to(flat, sizes), positions)
        best = np.where(takes, candidate, best)
    return positions.reshape(-1)


def _add_up(total: Array, positions: Array, values: Array, scatter: CombineArrays) -> None:
    """Add values to their positions in order: the first value of every position, then the second value, and so on."""
    order = np.argsort(positions, kind="stable")
    order = order[positions[order] >= 0]
    ordered = positions[order]
    if not len(ordered):
        return
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turns = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.r_[begins, len(ordered)]))
    for turn in range(int(turns.max()) + 1):
        now = turns == turn
        at = ordered[now]
        total[at] = scatter((total[at],), (values[order[now]],))[0]
