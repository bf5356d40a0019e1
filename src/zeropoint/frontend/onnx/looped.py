"""Loops that are not unrolled: a `stablehlo.while` around one trip.

```mlir
%r:3 = stablehlo.while(%trip = %zero, %state = %x, %rows = %zeros) : tensor<i64>, tensor<4xf32>, tensor<2000x4xf32>
cond {
  %more = stablehlo.compare LT, %trip, %count
} do {
  ...                                                   // one trip
  %all = stablehlo.dynamic_update_slice %rows, %row, %trip, %zero
  %next = stablehlo.add %trip, %one
}
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Block, Region, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.ir.constants import constant_op
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    ComparisonDirection,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    ReturnOp,
    SubtractOp,
    WhileOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_shape


@dataclass(frozen=True)
class Trip:
    """The results of a trip: the next `state`, the `rows` to stack, and whether there is another trip (`again`)."""

    state: Sequence[SSAValue]
    rows: Sequence[SSAValue] = ()
    again: SSAValue | None = None


def looped(
    build: Builder,
    count: int | None,
    start: Sequence[SSAValue],
    trip: Callable[[SSAValue, Sequence[SSAValue]], Trip],
    alive: SSAValue | None = None,
) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """Emit a loop of `count` trips, or fewer if `alive` or the `again` of a trip is false.

    Returns the last state, and the rows of all trips in order, [count, ...]. `trip` emits one trip, given its number
    (i64) and the state. Raises NodeError if the type of a state changes, if nothing ends the loop, or if the number of
    rows would depend on a condition.
    """
    outer, body = build.block, Block(arg_types=[TensorType(i64, []), *(value.type for value in start)])
    initial = [build.constant(np.array(0, np.int64)), *start]
    try:
        build.block = body
        made = trip(body.args[0], body.args[1:])
        _check(made, start, count, alive)
        zero = build.constant(np.array(0, np.int64))
        results = [build.apply(AddOp, body.args[0], build.constant(np.array(1, np.int64))), *made.state]
        wide = [with_shape(row, [count or 0, *shape_of(row)]) for row in made.rows]
        for row, type_ in zip(made.rows, wide, strict=True):
            whole = body.insert_arg(type_, len(body.args))
            part = build.reshape(row, [1, *shape_of(row)])
            places = [body.args[0], *(zero for _ in shape_of(row))]
            results.append(build.insert(DynamicUpdateSliceOp(whole, part, places)))
        ends = alive is not None or made.again is not None
        if ends:
            body.insert_arg(TensorType(i1, []), len(body.args))
            results.append(build.constant(np.array(True)) if made.again is None else made.again)
        body.add_op(ReturnOp(results))
        cond = Block(arg_types=body.arg_types)
        build.block = cond
        more = [] if count is None else [build.compare(ComparisonDirection.LT, cond.args[0], count)]
        more += cond.args[-1:] if ends else []
        cond.add_op(ReturnOp([more[0] if len(more) == 1 else build.apply(AndOp, *more)]))
    finally:
        build.block = outer
    for type_ in wide:
        none = constant_op(
            np.zeros((), element_dtype(element_of(type_))), build.weights, element_type=element_of(type_)
        )
        initial.append(build.broadcast(build.insert(none), type_, ()))
    if ends:
        initial.append(build.constant(np.array(True)) if alive is None else alive)
    op = WhileOp(initial, Region(cond), Region(body))
    build.insert(op)
    _, *found = op.results_[: len(initial) - ends]
    return found[: len(start)], found[len(start) :]


def _check(made: Trip, start: Sequence[SSAValue], count: int | None, alive: SSAValue | None) -> None:
    for old, new in zip(start, made.state, strict=True):
        if old.type != new.type:
            raise NodeError(
                f"found a state of {old.type} that becomes {new.type}, expected the same type in every trip"
            )
    if count is None and made.again is None:
        raise NodeError("found a loop without an end, expected a trip count or a computed condition")
    if made.rows and (alive is not None or made.again is not None):
        raise NodeError("found scan outputs of a loop with a computed condition, expected a constant one")


def row_at(value: SSAValue, axis: int, trip: SSAValue, build: Builder, *, reverse: bool = False) -> SSAValue:
    """Row number `trip` along a dimension, counted from the end if `reverse`. The dimension is removed."""
    shape = shape_of(value)
    if reverse:
        trip = build.apply(SubtractOp, build.constant(np.array(shape[axis] - 1, np.int64)), trip)
    zero = build.constant(np.array(0, np.int64))
    places = [trip if d == axis else zero for d in range(len(shape))]
    sizes = [1 if d == axis else size for d, size in enumerate(shape)]
    row = build.insert(DynamicSliceOp(value, places, sizes))
    return build.reshape(row, [*shape[:axis], *shape[axis + 1 :]])
