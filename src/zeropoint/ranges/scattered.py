"""The ranges of `scatter`, `select_and_scatter` and of reductions over processes.

Source: the StableHLO specification, "scatter", "select_and_scatter", "all_reduce", "reduce_scatter".
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.stablehlo.channels import replica_groups
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.interval import UNBOUNDED, Interval

MOST_PROCESSES = 1 << 30
"""Assumed number of processes if the op has no list of groups."""


def scatter(ranges: Ranges, op: hlo.ScatterOp) -> Interval:
    """The input combined with all updates in `scatter_indices`, because their positions may all be equal."""
    body, start, each = body_op(op.update_computation), ranges.of(op.inputs[0]).hull, ranges.of(op.updates[0]).hull
    if body is hlo.AddOp:
        return start + each.any_of(_positions(op))
    if body in (hlo.MaximumOp, hlo.MinimumOp):
        return start.join(each)
    return type_interval(element_of(op.results[0]))


def _positions(op: hlo.ScatterOp) -> int:
    """The maximum number of updates to one element."""
    shape = shape_of(op.scatter_indices)
    if DYNAMIC_INDEX in shape:
        return UNBOUNDED
    at = op.scatter_dimension_numbers.data.index_vector_dim
    return prod(size for axis, size in enumerate(shape) if axis != at)


def select_and_scatter(ranges: Ranges, op: hlo.SelectAndScatterOp) -> Interval:
    """The initial value combined with one source value for each window that contains an element."""
    body, start, each = body_op(op.scatter), ranges.of(op.init_value).hull, ranges.of(op.source).hull
    if body is hlo.AddOp:
        return start + each.with_zero().any_of(_windows(op))
    if body in (hlo.MaximumOp, hlo.MinimumOp):
        return start.join(each)
    return type_interval(element_of(op.result))


def _windows(op: hlo.SelectAndScatterOp) -> int:
    """The maximum number of windows that contain one element."""
    ones = (1,) * len(shape_of(op.operand))
    sizes, strides = array_values(op.window_dimensions, ones), array_values(op.window_strides, ones)
    # Windows start every `step` elements, so at most ceil(size / step) of them contain one element.
    return prod(-(-size // step) for size, step in zip(sizes, strides, strict=True))


def over_processes(ranges: Ranges, op: hlo.AllReduceOp | hlo.ReduceScatterOp) -> Interval:
    """The combined values of a group of processes, all of which run this program on inputs of the same types."""
    body, each = body_op(op.computation), ranges.of(op.operands[0]).hull
    if body is hlo.AddOp:
        return each.with_zero().any_of(_processes(op))
    return each if body in (hlo.MaximumOp, hlo.MinimumOp) else type_interval(element_of(op.results[0]))


def _processes(op: hlo.AllReduceOp | hlo.ReduceScatterOp) -> int:
    sizes = [len(group) for group in replica_groups(op.replica_groups)]
    return max(sizes) if any(sizes) else MOST_PROCESSES
