"""Reductions whose result depends on the order of the elements, in the order of the interpreter.

```mlir
%v, %i = stablehlo.reduce(%x, %n init: %low, %zero) ({ the greater one, and its position }) across dimensions = [0]
```
combines neighbours level by level. A level is computed by elementwise ops on strided slices, and an odd last element
moves to the next level. The initial value is combined last, from the left. `linalg.reduce` guarantees no order, so it
is only used for bodies of one associative op.

Sums and products of f32 and f64 have the order of `numerics/sums.py`: a loop adds rows of 16 numbers, then the 16
partial sums are added by halves. In a `reduce_window` of them, each window starts with the neutral element, -0 (for
products, 1), and the initial value is combined last. Windows of other types start with the initial value.

Source: the schedule of `interp/reduction.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.expand.padding import padded
from zeropoint.expand.reductions import reduced
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.window_padding import padding_of, pads
from zeropoint.numerics.sums import PARTIALS
from zeropoint.quant_passes.errors import LoweringError

ASSOCIATIVE = (hlo.AddOp, hlo.AndOp, hlo.MaximumOp, hlo.MinimumOp, hlo.MultiplyOp, hlo.OrOp, hlo.XorOp)
"""Ops whose integer reductions become `linalg.reduce`. For floats, these are `_ORDER_FREE`."""
_ORDER_FREE = (hlo.MaximumOp, hlo.MinimumOp)
_PARTED: dict[type[Operation], type[hlo.AddOp | hlo.MultiplyOp]] = {
    hlo.AddOp: hlo.AddOp,
    hlo.MultiplyOp: hlo.MultiplyOp,
}
"""Ops that combine f32 and f64 in 16 partial results."""
_UNROLLED = 8
"""Maximum number of rows that are combined without a loop."""


def expand_ordered_reductions(program: Program) -> None:
    """Expand, in place, reductions whose result depends on the order: all but integer ones of one op of `ASSOCIATIVE`
    and float ones of one op of `_ORDER_FREE`.

    Raises LoweringError for a body with an op that is not elementwise.
    """
    for op in [op for op in program.module.walk() if isinstance(op, hlo.ReduceOp | hlo.ReduceWindowOp)]:
        emit = Emission(Builder(InsertPoint.before(op)), program.weights, op.location)
        if isinstance(op, hlo.ReduceOp):
            if not _is_order_free(op):
                Rewriter.replace_op(op, [], _combined(emit, op))
        elif (kind := _parted(op)) is not None and not _starts_neutral(emit, op, kind):
            Rewriter.replace_op(op, [], [_window(emit, op, kind)])


def _is_order_free(op: hlo.ReduceOp) -> bool:
    kind, integers = body_op(op.body), isinstance(element_of(op.inputs[0]), IntegerType)
    return len(op.inputs) == 1 and kind in (ASSOCIATIVE if integers else _ORDER_FREE)


def _parted(op: hlo.ReduceOp | hlo.ReduceWindowOp) -> type[hlo.AddOp | hlo.MultiplyOp] | None:
    """The op of a body that combines f32 or f64 in partial results; None for other bodies and element types."""
    kind = body_op(op.body)
    is_parted = len(op.inputs) == 1 and isinstance(element_of(op.inputs[0]), Float32Type | Float64Type)
    return _PARTED.get(kind) if is_parted and kind is not None else None


def _neutral(kind: type[Operation]) -> float:
    return 1.0 if kind is hlo.MultiplyOp else -0.0


def _starts_neutral(emit: Emission, op: hlo.ReduceWindowOp, kind: type[Operation]) -> bool:
    """Whether the initial value is the neutral element, so that it may be combined first as well as last."""
    found, neutral = emit.array(op.init_values[0]), _neutral(kind)
    return found is not None and bool(found == neutral) and bool(np.signbit(found) == np.signbit(neutral))


def _window(emit: Emission, op: hlo.ReduceWindowOp, kind: type[hlo.AddOp | hlo.MultiplyOp]) -> SSAValue:
    """The initial value combined with the result of windows that start with the neutral element."""
    start, value = op.init_values[0], op.inputs[0]
    if pads(op):
        value = padded(emit, value, start, *padding_of(op))
    neutral = emit.constant(np.array(_neutral(kind), element_dtype(element_of(start))))
    (total,) = reduced(emit, op, [value, neutral], ("padding", "base_dilations"))
    return emit.add(kind(emit.spread(start, shape_of(total), ()), total))


def _combined(emit: Emission, op: hlo.ReduceOp) -> list[SSAValue]:
    dims, shape = sorted(array_values(op.dimensions, ())), shape_of(op.inputs[0])
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    sizes, count = [shape[dim] for dim in kept], prod(shape[dim] for dim in dims)
    start = [emit.spread(value, sizes, ()) for value in op.init_values]
    if count == 0:
        return start
    values = [_reshaped(emit, emit.add(hlo.TransposeOp(value, [*dims, *kept])), [count, *sizes]) for value in op.inputs]
    kind = _parted(op)
    totals = _tree(emit, op, values) if kind is None else [_in_parts(emit, kind, values[0])]
    return _applied(emit, op, start, [_reshaped(emit, value, sizes) for value in totals])


def _tree(emit: Emission, op: hlo.ReduceOp, values: list[SSAValue]) -> list[SSAValue]:
    """Combine neighbouring rows until one is left."""
    while (length := shape_of(values[0])[0]) > 1:
        even = length - length % 2
        left, right = ([_rows(emit, value, first, even, 2) for value in values] for first in (0, 1))
        made = _applied(emit, op, left, right)
        if length % 2:
            last = [_rows(emit, value, even, length, 1) for value in values]
            made = [emit.add(hlo.ConcatenateOp(pair, 0)) for pair in zip(made, last, strict=True)]
        values = made
    return values


def _in_parts(emit: Emission, kind: type[hlo.AddOp | hlo.MultiplyOp], value: SSAValue) -> SSAValue:
    """Combine all rows into one: partial result p of rows p, p + 16, ...; then the partial results by halves."""
    count = shape_of(value)[0]
    parts = _rows(emit, value, 0, min(count, PARTIALS), 1)
    whole = count // PARTIALS
    if whole > _UNROLLED:
        parts = _looped(emit, kind, value, parts)
    else:
        for row in range(1, whole):
            parts = emit.add(kind(parts, _rows(emit, value, row * PARTIALS, (row + 1) * PARTIALS, 1)))
    if whole and count % PARTIALS:
        parts = _onto_first(emit, kind, parts, _rows(emit, value, whole * PARTIALS, count, 1))
    half = PARTIALS // 2
    while half:
        if (length := shape_of(parts)[0]) > half:
            behind = _rows(emit, parts, half, length, 1)
            parts = _onto_first(emit, kind, _rows(emit, parts, 0, half, 1), behind)
        half //= 2
    return parts


def _onto_first(emit: Emission, kind: type[hlo.AddOp | hlo.MultiplyOp], parts: SSAValue, behind: SSAValue) -> SSAValue:
    """Combine the first partial results with the rows in `behind`; the others stay unchanged."""
    count, more = shape_of(parts)[0], shape_of(behind)[0]
    if count == more:
        return emit.add(kind(parts, behind))
    made = emit.add(kind(_rows(emit, parts, 0, more, 1), behind))
    return emit.add(hlo.ConcatenateOp([made, _rows(emit, parts, more, count, 1)], 0))


def _looped(emit: Emission, kind: type[hlo.AddOp | hlo.MultiplyOp], value: SSAValue, parts: SSAValue) -> SSAValue:
    """Combine the partial results with all further groups of 16 rows, in a loop."""
    (count, *rest), zero = shape_of(value), emit.constant(np.array(0, np.int64))
    step, limit = (emit.constant(np.array(n, np.int64)) for n in (PARTIALS, count - count % PARTIALS))
    types: list[Attribute] = [zero.type, parts.type]
    cond, body = Block(arg_types=types), Block(arg_types=types)
    again = hlo.CompareOp(cond.args[0], limit, hlo.ComparisonDirection.LT)
    cond.add_ops([again, hlo.ReturnOp(again.results)])
    rows = hlo.DynamicSliceOp(value, [body.args[0], *(zero for _ in rest)], [PARTIALS, *rest])
    total, place = kind(body.args[1], rows.result), hlo.AddOp(body.args[0], step)
    body.add_ops([rows, total, place, hlo.ReturnOp([place.result, total.result])])
    for made in (*cond.ops, *body.ops):
        made.location = emit.location
    return emit.several(hlo.WhileOp([step, parts], Region(cond), Region(body)))[1]


def _applied(emit: Emission, op: hlo.ReduceOp, left: Sequence[SSAValue], right: Sequence[SSAValue]) -> list[SSAValue]:
    made = emit.all_applied(op.body.block, [*left, *right])
    if made is None:
        raise LoweringError(f"{describe(op)}: found a body with an op that is not elementwise, expected none", op)
    return made


def _rows(emit: Emission, value: SSAValue, first: int, limit: int, step: int) -> SSAValue:
    """Every `step`-th row from `first` to `limit`."""
    shape = shape_of(value)
    rest = [0] * (len(shape) - 1)
    return emit.add(hlo.SliceOp(value, [first, *rest], [limit, *shape[1:]], [step, *(1 for _ in rest)]))


def _reshaped(emit: Emission, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    return emit.add(hlo.ReshapeOp(value, TensorType(element_of(value), shape)))
