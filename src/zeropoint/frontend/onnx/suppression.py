"""`NonMaxSuppression`: each trip selects the best remaining box and drops the boxes that overlap it.

The number of selected boxes depends on values, but shapes are static. So the result has a row for every box that may be
selected, and the unused rows at the end are -1 in every column. Up to 512 trips are unrolled. More trips become a
`stablehlo.while`, which ends when no box is left.

    %best = stablehlo.reduce(%left) applies stablehlo.maximum                 // [batches, classes]
    %box = stablehlo.reduce(select %left == %best, %index, boxes) applies stablehlo.minimum
    %corners = stablehlo.reduce(select %positions == %box, %parts, -inf) applies stablehlo.maximum
    %gone = %index == %box, or the overlap with %box is above the threshold
    %left, %index = stablehlo.select %gone, (-inf, boxes), (%left, %index)
    %row = stablehlo.select %box < boxes, %box, -1

Source: the ONNX operator specification and its reference implementation. Of equal scores, the first box is selected. A
box with a NaN score is never selected, and a box with a NaN coordinate is never suppressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType, f32, i1, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.indexing import gathered
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.ordering import comparator
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    ComparisonDirection,
    ConstantOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OrOp,
    ReturnOp,
    SelectOp,
    SortOp,
    SubtractOp,
    WhileOp,
)
from zeropoint.ir.tensors import element_of, shape_of, with_element

TRIPS = 512
"""Maximum number of trips that are unrolled."""
GT, LT, EQ, GE = (ComparisonDirection.GT, ComparisonDirection.LT, ComparisonDirection.EQ, ComparisonDirection.GE)


@dataclass(frozen=True)
class _Boxes:
    """The smallest and largest coordinates of boxes along both sides. All values have one shape."""

    lows: tuple[SSAValue, SSAValue]
    highs: tuple[SSAValue, SSAValue]

    @property
    def parts(self) -> tuple[SSAValue, ...]:
        return (*self.lows, *self.highs)

    @staticmethod
    def of(parts: list[SSAValue]) -> _Boxes:
        return _Boxes((parts[0], parts[1]), (parts[2], parts[3]))

    def area(self, build: Builder) -> SSAValue:
        sides = [build.apply(SubtractOp, *pair) for pair in zip(self.highs, self.lows, strict=True)]
        return build.apply(MultiplyOp, *sides)


@dataclass(frozen=True)
class _Search:
    """The values that every trip reads: boxes and areas broadcast to the shape of the scores, threshold, constants."""

    boxes: _Boxes
    areas: SSAValue
    overlap: SSAValue
    positions: SSAValue
    zero: SSAValue
    lowest: SSAValue
    end: SSAValue

    @staticmethod
    def of(boxes: _Boxes, scores: SSAValue, overlap: SSAValue, build: Builder) -> _Search:
        spread = _Boxes.of([build.broadcast(part, scores.type, [0, 2]) for part in boxes.parts])
        positions = build.iota(shape_of(scores), 2, i64)
        return _Search(
            spread,
            build.broadcast(boxes.area(build), scores.type, [0, 2]),
            build.broadcast(overlap, scores.type, ()),
            positions,
            build.splat(0, scores),
            build.splat(-np.inf, scores),
            build.splat(shape_of(scores)[2], positions),
        )


def non_max_suppression(node: OnnxNode, build: Builder) -> SSAValue:
    """`NonMaxSuppression`: a row of batch, class and box for each box that may be selected. Unused last rows are -1."""
    boxes, scores = node.operand(0), node.operand(1)
    shapes = shape_of(boxes), shape_of(scores)
    if len(shapes[0]) != 3 or len(shapes[1]) != 3 or shapes[0] != (shapes[1][0], shapes[1][2], 4):
        raise NodeError(
            f"found boxes of shape {list(shapes[0])} and scores of shape {list(shapes[1])}, expected [batches, boxes, "
            f"4] and [batches, classes, boxes]"
        )
    center = node.integer("center_point_box", 0)
    most = node.integers_at(2, "max_output_boxes_per_class") or (0,)
    batches, classes, count = shapes[1]
    kept = min(max(most[0], 0), count)
    if not batches * classes * kept:
        return build.constant(np.zeros((0, 3), np.int64))
    overlap = node.scalar(3) if node.has(3) else build.scalar(0.0, scores)
    floor = build.broadcast(node.scalar(4), scores.type, ()) if node.has(4) else build.splat(-np.inf, scores)
    last = build.block.last_op
    candidates = build.compare(GT if node.has(4) else GE, scores, floor)
    search = _Search.of(_corners(boxes, bool(center), build), scores, overlap, build)
    left = build.apply(SelectOp, candidates, scores, search.lowest)
    index = build.apply(SelectOp, candidates, search.positions, search.end)
    taken = (_written_out if kept <= TRIPS else _looped)(search, left, index, kept, build)
    result = _rows(taken, build)
    _keep_float(build.block, last)
    return result


def _keep_float(block: Block, last: Operation | None) -> None:
    """Mark the float ops after `last` as float, because quantized overlaps would select other boxes."""
    op = block.first_op if last is None else last.next_op
    while op is not None:
        values = (*op.operands, *op.results)
        if not isinstance(op, ConstantOp) and any(isinstance(element_of(value), AnyFloat) for value in values):
            op.attributes[FLOAT_REASON] = StringAttr("it selects boxes by exact overlaps")
        op = op.next_op


def _corners(boxes: SSAValue, center: bool, build: Builder) -> _Boxes:
    """The corners [batches, boxes] of boxes [batches, boxes, 4], which are two opposite corners or center and size."""
    shape = shape_of(boxes)[:2]
    columns = [build.reshape(part_of(boxes, 2, range(i, i + 1), build), shape) for i in range(4)]
    pairs = list(zip(columns[:2], columns[2:], strict=True))
    if center:
        halves = [(middle, build.apply(DivideOp, size, build.splat(2, size))) for middle, size in pairs]
        lows = [build.apply(SubtractOp, *pair) for pair in halves]
        highs = [build.apply(AddOp, *pair) for pair in halves]
    else:
        lows = [build.apply(MinimumOp, *pair) for pair in pairs]
        highs = [build.apply(MaximumOp, *pair) for pair in pairs]
    return _Boxes.of([*lows, *highs])


def _written_out(search: _Search, left: SSAValue, index: SSAValue, kept: int, build: Builder) -> SSAValue:
    """The selected boxes of every batch and class in order, then -1: [batches, classes, kept]. Trips are unrolled."""
    rows: list[SSAValue] = []
    for _ in range(kept):
        left, index, row = _trip(search, left, index, build)
        rows.append(build.reshape(row, [*shape_of(row), 1]))
    return concatenated(rows, 2, build)


def _looped(search: _Search, left: SSAValue, index: SSAValue, kept: int, build: Builder) -> SSAValue:
    """Like `_written_out`, by a `while` that ends when no box is left."""
    shape = shape_of(left)
    none = build.broadcast(build.constant(np.array(-1, np.int64)), TensorType(i64, [*shape[:2], kept]), ())
    start = [build.constant(np.array(0, np.int64)), left, index, none]
    outer = build.block
    cond, body = (Block(arg_types=[value.type for value in start]) for _ in range(2))
    build.block = cond
    some = build.reduce(build.compare(LT, cond.args[2], shape[2]), [0, 1, 2], 0, OrOp)
    cond.add_op(ReturnOp([build.apply(AndOp, build.compare(LT, cond.args[0], kept), some)]))
    build.block = body
    trip, left, index, taken = body.args
    left, index, row = _trip(search, left, index, build)
    slots = build.iota(shape_of(taken), 2, i64)
    here = build.compare(EQ, slots, build.broadcast(trip, slots.type, ()))
    taken = build.apply(SelectOp, here, build.broadcast(row, taken.type, [0, 1]), taken)
    body.add_op(ReturnOp([build.apply(AddOp, trip, build.scalar(1, trip)), left, index, taken]))
    build.block = outer
    op = WhileOp(start, Region(cond), Region(body))
    build.insert(op)
    return op.results_[3]


def _trip(search: _Search, left: SSAValue, index: SSAValue, build: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The remaining scores and positions after a trip, and the box that it selects; -1 if none is left."""
    box = _best(left, index, search, build)
    at = build.compare(EQ, search.positions, build.broadcast(box, index.type, [0, 1]))
    # The corners of the selected box: a maximum in which all other boxes count as -inf.
    hidden = [build.apply(SelectOp, at, part, search.lowest) for part in search.boxes.parts]
    corners = [build.reduce(part, [2], -np.inf, MaximumOp) for part in hidden]
    other = _Boxes.of([build.broadcast(part, left.type, [0, 1]) for part in corners])
    area = build.broadcast(_Boxes.of(corners).area(build), left.type, [0, 1])
    gone = build.apply(OrOp, at, _overlapping(search, other, area, build))
    found = build.compare(LT, box, shape_of(left)[2])
    row = build.apply(SelectOp, found, box, build.splat(-1, box))
    return build.apply(SelectOp, gone, search.lowest, left), build.apply(SelectOp, gone, search.end, index), row


def _best(left: SSAValue, index: SSAValue, search: _Search, build: Builder) -> SSAValue:
    """The position of the best box of every batch and class; the number of boxes if none is left.

    Dropped boxes have the score -inf and the number of boxes as position, so that they never win against other boxes.
    """
    best = build.reduce(left, [2], -np.inf, MaximumOp)
    same = build.compare(EQ, left, build.broadcast(best, left.type, [0, 1]))
    return build.reduce(build.apply(SelectOp, same, index, search.end), [2], shape_of(left)[2], MinimumOp)


def _overlapping(search: _Search, other: _Boxes, area: SSAValue, build: Builder) -> SSAValue:
    """Where intersection / union exceeds the threshold. Boxes without an area overlap no other box."""
    conditions: list[SSAValue] = []
    sides: list[SSAValue] = []
    for side in range(2):
        low = build.apply(MaximumOp, search.boxes.lows[side], other.lows[side])
        high = build.apply(MinimumOp, search.boxes.highs[side], other.highs[side])
        conditions.append(build.compare(GT, high, low))
        sides.append(build.apply(SubtractOp, high, low))
    common = build.apply(MultiplyOp, *sides)
    union = build.apply(SubtractOp, build.apply(AddOp, search.areas, area), common)
    conditions += [build.compare(GT, part, search.zero) for part in (common, search.areas, area, union)]
    result = build.compare(GT, build.apply(DivideOp, common, union), search.overlap)
    for condition in conditions:
        result = build.apply(AndOp, result, condition)
    return result


def _rows(taken: SSAValue, build: Builder) -> SSAValue:
    """Selected boxes [batches, classes, kept] as rows of batch, class and box. Unused rows are last, and -1.

    A stable sort by 1 for a selected box and 0 for an unused entry moves the unused ones to the end. Runtimes have this
    sort as top-k.
    """
    _, classes, kept = shape_of(taken)
    total = prod(shape_of(taken))
    flat = build.reshape(taken, [total])
    keys = build.iota([total], 0, i64)
    if total > kept:
        is_taken = converted(build.compare(GE, flat, 0), f32, build)
        sort = SortOp([is_taken, keys], comparator([f32, i64], GT), dimension=0, stable=True)
        build.insert(sort)
        keys = sort.results_[1]
        flat = gathered(flat, keys, 0, build)
    pair = build.apply(DivideOp, keys, build.splat(kept, keys))  # the batch and class, as one number
    batch = build.apply(DivideOp, pair, build.splat(classes, pair))
    class_ = build.apply(SubtractOp, pair, build.apply(MultiplyOp, batch, build.splat(classes, batch)))
    table = concatenated([build.reshape(column, [total, 1]) for column in (batch, class_, flat)], 1, build)
    valid = build.broadcast(build.compare(GE, flat, 0), with_element(table, i1), [0])
    return build.apply(SelectOp, valid, table, build.splat(-1, table))
