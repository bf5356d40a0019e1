"""`If`, `Loop` and `Scan`: their graphs are inlined.

A computed condition becomes a `select`. Both branches are computed, and all trips that a loop may make. All ops are
pure, so the results are the same, and quantization needs no support for control flow. Loops that may make more than
`TRIPS` trips become a `while`, whose body stays float.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from onnx import GraphProto
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.looped import Trip, looped, row_at
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import AddOp, AndOp, ComparisonDirection, ReverseOp, SelectOp, TransposeOp
from zeropoint.ir.tensors import shape_of

TRIPS = 512
"""Maximum number of trips of a loop that is unrolled. Other loops become a `while`."""


def _chosen(condition: SSAValue, on_true: SSAValue, on_false: SSAValue, build: Builder) -> SSAValue:
    if on_true is on_false:
        return on_true
    if on_true.type != on_false.type:
        raise NodeError(f"found {on_true.type} and {on_false.type} for a computed condition, expected one type")
    return build.apply(SelectOp, condition, on_true, on_false)


def if_(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`If`: one branch if the condition is constant, else a `select` between the results of both."""
    branches = [node.graph(name) for name in ("then_branch", "else_branch")]
    array = node.constant(0)
    if array is not None:
        return tuple(build.inline(branches[0 if bool(array.reshape(-1)[0]) else 1], []))
    condition = node.scalar(0)
    then, otherwise = (build.inline(branch, []) for branch in branches)
    return tuple(_chosen(condition, a, b, build) for a, b in zip(then, otherwise, strict=True))


def loop(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`Loop`: up to `TRIPS` trips are unrolled. A computed condition selects between old and new values."""
    body = node.graph("body")
    carried = [node.operand(index) for index in range(2, node.input_count)]
    scanned: list[list[SSAValue]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    if scanned:  # the trips decide the sizes of the outputs, so the user is asked to fix what they depend on
        node.parameter(0, "trip count")
        node.parameter(1, "condition")
    most, start = node.constant(0), node.constant(1)
    alive: SSAValue | bool = True
    if node.has(1):
        alive = bool(start.reshape(-1)[0]) if start is not None else node.scalar(1)
    if scanned and (alive is False or (most is not None and int(most.reshape(-1)[0]) < 1)):
        raise NodeError("found scan outputs of a loop without a trip, expected one trip or more")
    if alive is False:
        return tuple(carried)
    if most is None or int(most.reshape(-1)[0]) > TRIPS:
        return _while(node, body, alive, carried, build)
    trips = int(most.reshape(-1)[0])
    for trip in range(trips):
        if alive is False:
            break
        condition = np.array(True) if alive is True else alive
        again, *results = build.inline(body, [np.array(trip, np.int64), condition, *carried])
        new, outputs = results[: len(carried)], results[len(carried) :]
        if isinstance(alive, SSAValue):
            if scanned:
                raise NodeError("found scan outputs of a loop with a computed condition, expected a constant one")
            new = [_chosen(alive, *pair, build) for pair in zip(new, carried, strict=True)]
        carried, alive = new, _next(alive, again, build)
        scanned = [[*kept, output] for kept, output in zip(scanned, outputs, strict=True)]
    return (*carried, *(_stacked(kept, 0, build) for kept in scanned))


def _while(
    node: OnnxNode, body: GraphProto, alive: SSAValue | Literal[True], carried: Sequence[SSAValue], build: Builder
) -> tuple[SSAValue, ...]:
    """`Loop` as a `while`: with many trips, with a computed number of trips, or with only a condition."""
    most = node.constant(0)
    count = None if most is None else int(most.reshape(-1)[0])
    limit = node.scalar(0) if node.has(0) and most is None else None

    def trip(number: SSAValue, state: Sequence[SSAValue]) -> Trip:
        # Inside the body, the condition is known to be true.
        again, *results = build.inline(body, [number, np.array(True), *state])
        array, condition = constant_array(again, build.weights), build.reshape(again, ())
        known = None if array is None else bool(array.reshape(-1)[0])
        if limit is not None:
            following = build.apply(AddOp, number, build.constant(np.array(1, np.int64)))
            fewer = build.compare(ComparisonDirection.LT, following, limit)
            condition = fewer if known else build.apply(AndOp, fewer, condition)
            known = None
        ends = None if known else condition
        return Trip(results[: len(carried)], results[len(carried) :], ends)

    if limit is not None:
        some = build.compare(ComparisonDirection.GT, limit, 0)
        alive = build.apply(AndOp, some, alive) if isinstance(alive, SSAValue) else some
    state, rows = looped(build, count, carried, trip, alive if isinstance(alive, SSAValue) else None)
    return (*state, *rows)


def _next(alive: SSAValue | bool, again: SSAValue, build: Builder) -> SSAValue | bool:
    array = constant_array(again, build.weights)
    if array is not None:
        return alive if bool(array.reshape(-1)[0]) else False
    again = build.reshape(again, ())
    return build.apply(AndOp, alive, again) if isinstance(alive, SSAValue) else again


def _stacked(values: Sequence[SSAValue], axis: int, build: Builder) -> SSAValue:
    rank = len(shape_of(values[0])) + 1
    axis = axis_of(axis, rank)
    rows = [
        build.reshape(value, [*shape_of(value)[:axis], 1, *shape_of(value)[axis:]])
        for value in values
    ]  # fmt: skip
    return concatenated(rows, axis, build)


def scan(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`Scan`, once per element of the scanned inputs: unrolled up to `TRIPS` trips."""
    if node.opset < 9:
        raise NodeError("found the form of opset 8, expected one of opset 9 or newer")
    body = node.graph("body")
    count = node.integer("num_scan_inputs", 0)
    states = [node.operand(index) for index in range(node.input_count - count)]
    inputs = [node.operand(index) for index in range(node.input_count - count, node.input_count)]
    results_count = len(body.output) - len(states)
    axes = node.integers("scan_input_axes") or (0,) * count
    axes = [axis_of(axis, len(shape_of(value))) for axis, value in zip(axes, inputs, strict=True)]
    backwards = node.integers("scan_input_directions") or (0,) * count
    out_axes = node.integers("scan_output_axes") or (0,) * results_count
    out_backwards = node.integers("scan_output_directions") or (0,) * results_count
    length = shape_of(inputs[0])[axes[0]]
    if not length:
        raise NodeError("found no elements to scan, expected 1 or more")
    if length > TRIPS:

        def once(number: SSAValue, state: Sequence[SSAValue]) -> Trip:
            rows = [
                row_at(value, axis, number, build, reverse=bool(reverse))
                for value, axis, reverse in zip(inputs, axes, backwards, strict=True)
            ]
            results = build.inline(body, [*state, *rows])
            return Trip(results[: len(states)], results[len(states) :])

        last, stacked = looped(build, length, states, once)
        given = zip(stacked, out_axes, out_backwards, strict=True)
        return (*last, *(_turned(rows, axis, bool(reverse), build) for rows, axis, reverse in given))
    scanned: list[list[SSAValue]] = [[] for _ in range(results_count)]
    for trip in range(length):
        rows = [
            _row(value, axis, length - 1 - trip if reverse else trip, build)
            for value, axis, reverse in zip(inputs, axes, backwards, strict=True)
        ]
        results = build.inline(body, [*states, *rows])
        states = results[: len(states)]
        for kept, output, reverse in zip(scanned, results[len(states) :], out_backwards, strict=True):
            kept.insert(0 if reverse else len(kept), output)
    return (*states, *(_stacked(kept, axis, build) for kept, axis in zip(scanned, out_axes, strict=True)))


def _turned(rows: SSAValue, axis: int, reverse: bool, build: Builder) -> SSAValue:
    """Move stacked rows from dimension 0 to another dimension; reverse their order if `reverse`."""
    rank = len(shape_of(rows))
    axis = axis_of(axis, rank)
    if reverse:
        rows = build.insert(ReverseOp(rows, [0]))
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return rows if axis == 0 else build.insert(TransposeOp(rows, order))


def _row(value: SSAValue, axis: int, at: int, build: Builder) -> SSAValue:
    shape = shape_of(value)
    return build.reshape(part_of(value, axis, range(at, at + 1), build), [*shape[:axis], *shape[axis + 1 :]])
