"""Find the parts of an op's operands that a part of its result needs, and copy the op for these parts.

```mlir
%y = stablehlo.transpose %x, dims = [0, 2, 1]        part 4 to 7 along dimension 1
%y = stablehlo.convolution(%x, %w) {feature_group_count = 8}      one group: its channels and its filters
```
Part 4 to 7 of the transpose's result along dimension 1 is the transpose of part 4 to 7 of `%x` along dimension 2. An op
has a rule if it computes a part of its result exactly from parts of its operands. Ops that mix the elements of a part
with others have no rule, or their rule returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import output_channel_axis, weight_channel_axis
from zeropoint.ir.functions import is_function
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.weights import Weights


@dataclass(frozen=True, eq=False)
class Cut:
    """The elements `chosen` along a dimension of a value, in this order."""

    axis: int
    chosen: Array

    def is_all_of(self, value: SSAValue) -> bool:
        """Whether the cut is the whole value in its original order."""
        return np.array_equal(self.chosen, np.arange(shape_of(value)[self.axis]))

    def agrees(self, other: Cut | None) -> bool:
        """Whether another cut takes the same elements of the same dimension."""
        return other is not None and self.axis == other.axis and np.array_equal(self.chosen, other.chosen)

    @property
    def key(self) -> tuple[int, bytes]:
        """A hashable key, equal for cuts of the same elements."""
        return self.axis, np.asarray(self.chosen, np.int64).tobytes()


Needed = list[tuple[SSAValue, Cut | None]]
"""Operands, each with the part that is needed, or None if all of it is needed."""


def part_type(value: SSAValue, axis: int, count: int) -> TensorType[Attribute]:
    """The type of a value with another size along one dimension."""
    shape = list(shape_of(value))
    shape[axis] = count
    return with_shape(value, shape)


def needed(op: Operation, cut: Cut | None) -> Needed | None:
    """The parts of the operands that a part of an op's only result needs. None if they are unknown or not parts."""
    if cut is None:
        return [(operand, None) for operand in op.operands]
    if isinstance(op, ConstantOp):
        return []
    if len(op.results) != 1:
        return None
    if is_function(op):
        shape, shapes = shape_of(op.results[0]), [shape_of(operand) for operand in op.operands]
        pairs = zip(op.operands, shapes, strict=True)
        return [(o, cut if s else None) for o, s in pairs] if {*shapes} <= {shape, ()} else None
    rule = _RULES.get(type(op))
    return None if rule is None else rule(op, cut)


def copied(op: Operation, cut: Cut | None, values: dict[SSAValue, SSAValue], weights: Weights) -> Operation:
    """Copy an op for a part of its result. `values` maps the operands to their parts."""
    if cut is None:
        return op.clone(values)
    if isinstance(op, ConstantOp):
        array = constant_array(op.output, weights)
        assert array is not None
        return constant_op(np.take(array, cut.chosen, cut.axis), weights, location=op.location)
    if isinstance(op, SliceOp):
        return _slice(op, cut, values[op.operand])
    copy = op.clone(values)
    if isinstance(copy, ConvolutionOp) and copy.feature_group_count.value.data > 1:
        assert isinstance(op, ConvolutionOp)
        filters = shape_of(op.rhs)[op.dimension_numbers.data.kernel_output_feature_dimension]
        copy.feature_group_count = IntegerAttr(cut.chosen.size * _groups(op) // filters, i64)
    Rewriter.replace_value_with_new_type(copy.results[0], part_type(op.results[0], cut.axis, cut.chosen.size))
    return copy


def _slice(op: SliceOp, cut: Cut, operand: SSAValue) -> SliceOp:
    """The slice of an operand that has only the elements of the part along its dimension."""
    bounds = [list(array_values(one)) for one in (op.start_indices, op.limit_indices, op.strides)]
    for numbers, all_of_it in zip(bounds, (0, int(cut.chosen.size), 1), strict=True):
        numbers[cut.axis] = all_of_it
    made = SliceOp(operand, *bounds)
    made.location = op.location
    return made


def _broadcast(op: BroadcastInDimOp, cut: Cut) -> Needed:
    dimensions = list(array_values(op.broadcast_dimensions))
    source = dimensions.index(cut.axis) if cut.axis in dimensions else None
    is_repeated = source is None or shape_of(op.operand)[source] != shape_of(op.result)[cut.axis]
    return [(op.operand, None if is_repeated or source is None else Cut(source, cut.chosen))]


def _transposed(op: TransposeOp, cut: Cut) -> Needed:
    return [(op.operand, Cut(array_values(op.permutation)[cut.axis], cut.chosen))]


def _reshaped(op: ReshapeOp, cut: Cut) -> Needed | None:
    found = reshaped_cut(shape_of(op.operand), shape_of(op.result), cut)
    return None if found is None else [(op.operand, found)]


def reshaped_cut(before: tuple[int, ...], after: tuple[int, ...], cut: Cut) -> Cut | None:
    """The part of a reshape's operand that becomes a part of its result, in the same order.

    The cut dimension of the result may be one dimension of the operand, a factor of one, or several merged dimensions.
    In the last case, the part must be a part along one of them and contain all of the others. None otherwise.
    """
    first, size = prod(after[: cut.axis]), after[cut.axis]
    for source, count in enumerate(before):
        outer = prod(before[:source])
        if count == 1 or outer > first or outer * count < first * size:
            continue
        start = next((n for n in range(cut.axis + 1) if prod(after[:n]) == outer), None)
        end = next((n for n in range(cut.axis + 1, len(after) + 1) if prod(after[:n]) == outer * count), None)
        if start is None or end is None:
            return None
        positions = np.arange(count).reshape(after[start:end])
        return Cut(source, np.take(positions, cut.chosen, cut.axis - start).reshape(-1))
    return _merged_cut(before, cut, first, size)


def _merged_cut(before: tuple[int, ...], cut: Cut, first: int, size: int) -> Cut | None:
    """The part along one of the operand's dimensions that a reshape merges; None if it is along several of them."""
    start = next((n for n in range(len(before)) if prod(before[:n]) == first and before[n] > 1), None)
    end = next((n for n in range(len(before) + 1) if prod(before[:n]) == first * size and n > (start or 0)), None)
    if start is None or end is None or not cut.chosen.size:
        return None
    merged = before[start:end]
    along = [np.unique(one) for one in np.unravel_index(cut.chosen, merged)]
    partial = [n for n, found in enumerate(along) if found.size < merged[n]]
    if len(partial) != 1:
        return None
    whole = np.ravel_multi_index(np.meshgrid(*along, indexing="ij"), merged).reshape(-1)
    return Cut(start + partial[0], along[partial[0]]) if np.array_equal(whole, cut.chosen) else None


def _sliced(op: SliceOp, cut: Cut) -> Needed:
    start, stride = (array_values(array)[cut.axis] for array in (op.start_indices, op.strides))
    return [(op.operand, Cut(cut.axis, start + stride * cut.chosen))]


def _reversed(op: ReverseOp, cut: Cut) -> Needed | None:
    return None if cut.axis in array_values(op.dimensions) else [(op.operand, cut)]


def _padded(op: PadOp, cut: Cut) -> Needed | None:
    amounts = (array_values(one)[cut.axis] for one in (op.edge_padding_low, op.edge_padding_high, op.interior_padding))
    return None if any(amounts) else [(op.operand, cut), (op.padding_value, None)]


def _reduced(op: ReduceOp, cut: Cut) -> Needed:
    left = [axis for axis in range(len(shape_of(op.inputs[0]))) if axis not in array_values(op.dimensions)]
    return [(op.inputs[0], Cut(left[cut.axis], cut.chosen)), (op.init_values[0], None)]


def _windows(op: ReduceWindowOp, cut: Cut) -> Needed | None:
    """A rule for windows of size 1 along the dimension: each window has one element of it."""
    same = shape_of(op.inputs[0])[cut.axis] == shape_of(op.results[0])[cut.axis]
    if array_values(op.window_dimensions)[cut.axis] != 1 or not same:
        return None
    return [(op.inputs[0], cut), (op.init_values[0], None)]


def _joined(op: ConcatenateOp, cut: Cut) -> Needed | None:
    """A part along a dimension that is not joined is the same part of each operand. (Others: `part_values.py`.)"""
    return None if op.dimension.value.data == cut.axis else [(value, cut) for value in op.inputs]


def _convolved(op: ConvolutionOp, cut: Cut) -> Needed | None:
    """A part of a convolution's filters. It must be whole groups, if any, which need only their own input channels."""
    layout = op.dimension_numbers.data
    if op.batch_group_count.value.data != 1:
        return None
    if _groups(op) == 1:
        return _weighted(op, cut)
    if cut.axis != layout.output_feature_dimension:
        return None
    filters = shape_of(op.result)[cut.axis] // _groups(op)
    channels = shape_of(op.lhs)[layout.input_feature_dimension] // _groups(op)
    groups = cut.chosen[::filters] // filters
    if not np.array_equal(_elements(groups, filters), cut.chosen):
        return None
    read = Cut(layout.input_feature_dimension, _elements(groups, channels))
    return [(op.lhs, read), (op.rhs, Cut(layout.kernel_output_feature_dimension, cut.chosen))]


def _groups(op: ConvolutionOp) -> int:
    return int(op.feature_group_count.value.data)


def _elements(groups: Array, size: int) -> Array:
    return (groups[:, None] * size + np.arange(size)).reshape(-1)


def _weighted(op: ConvolutionOp | DotGeneralOp, cut: Cut) -> Needed | None:
    """A part of the output channels needs a part of the weights and the whole first operand."""
    channels = weight_channel_axis(op)
    if cut.axis != output_channel_axis(op) or channels is None:
        return None
    return [(op.lhs, None), (op.rhs, Cut(channels, cut.chosen))]


def _product(op: DotGeneralOp, cut: Cut) -> Needed | None:
    """A part of a batch needs parts of both operands. A part of the rows needs a part of the first and the whole second
    one."""
    dimensions = op.dot_dimension_numbers.data
    batch = list(dimensions.lhs_batching_dimensions)
    if cut.axis < len(batch):
        axes = batch[cut.axis], list(dimensions.rhs_batching_dimensions)[cut.axis]
        return [(op.lhs, Cut(axes[0], cut.chosen)), (op.rhs, Cut(axes[1], cut.chosen))]
    used = (*batch, *dimensions.lhs_contracting_dimensions)
    free = [axis for axis in range(len(shape_of(op.lhs))) if axis not in used]
    if cut.axis < len(batch) + len(free):
        return [(op.lhs, Cut(free[cut.axis - len(batch)], cut.chosen)), (op.rhs, None)]
    return _weighted(op, cut)


_RULES: Mapping[type[Operation], Callable[[Any, Cut], Needed | None]] = {
    BroadcastInDimOp: _broadcast,
    ConcatenateOp: _joined,
    ConvolutionOp: _convolved,
    DotGeneralOp: _product,
    PadOp: _padded,
    ReduceOp: _reduced,
    ReduceWindowOp: _windows,
    ReshapeOp: _reshaped,
    ReverseOp: _reversed,
    SliceOp: _sliced,
    TransposeOp: _transposed,
}
"""The rules of ops that are not elementwise."""
