"""Reductions whose result depends on the order of the elements, in the order of the interpreter.

```mlir
%v, %i = stablehlo.reduce(%x, %n init: %low, %zero) ({ the greater one, and its position }) across dimensions = [0]
```
combines neighbours, level by level, each level by elementwise ops on strided slices; an odd last element moves to the
next level. The initial value is combined last, from the left. `linalg.reduce`, for bodies of one associative op, has no
order that could be relied on.

Source: the schedule of `interp/reduction.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.quant_passes.errors import LoweringError

ASSOCIATIVE = (hlo.AddOp, hlo.AndOp, hlo.MaximumOp, hlo.MinimumOp, hlo.MultiplyOp, hlo.OrOp, hlo.XorOp)
"""Bodies of one op that `linalg.reduce` computes."""


def expand_ordered_reductions(program: Program) -> None:
    """Replace the reductions with other bodies than one op of `ASSOCIATIVE`, in place.

    Raises LoweringError for a body with an op that is not elementwise.
    """
    for op in [op for op in program.module.walk() if isinstance(op, hlo.ReduceOp)]:
        if len(op.inputs) > 1 or body_op(op.body) not in ASSOCIATIVE:
            emit = Emission(Builder(InsertPoint.before(op)), program.weights, op.location)
            Rewriter.replace_op(op, [], _combined(emit, op))


def _combined(emit: Emission, op: hlo.ReduceOp) -> list[SSAValue]:
    dims, shape = sorted(array_values(op.dimensions, ())), shape_of(op.inputs[0])
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    sizes, count = [shape[dim] for dim in kept], prod(shape[dim] for dim in dims)
    start = [emit.spread(value, sizes, ()) for value in op.init_values]
    if count == 0:
        return start
    values = [_reshaped(emit, emit.add(hlo.TransposeOp(value, [*dims, *kept])), [count, *sizes]) for value in op.inputs]
    while (length := shape_of(values[0])[0]) > 1:
        even = length - length % 2
        left, right = ([_rows(emit, value, first, even, 2) for value in values] for first in (0, 1))
        made = _applied(emit, op, left, right)
        if length % 2:
            last = [_rows(emit, value, even, length, 1) for value in values]
            made = [emit.add(hlo.ConcatenateOp(pair, 0)) for pair in zip(made, last, strict=True)]
        values = made
    return _applied(emit, op, start, [_reshaped(emit, value, sizes) for value in values])


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
