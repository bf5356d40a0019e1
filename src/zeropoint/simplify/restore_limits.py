"""Selects the limit of a function, after the function, where its operand is infinite.

```mlir
%0 = stablehlo.select %shown, %x, %minus_infinity
%1 = stablehlo.exponential %0
```
becomes
```mlir
%0 = stablehlo.select %shown, %x, %minus_infinity
%1 = stablehlo.exponential %0
%2 = stablehlo.select %shown, %1, %zero
```
This changes no float result. It is needed because no quantized type holds -inf: it saturates at the least number of the
range, whose exponential is not 0. The first select stays, so that hidden numbers of `%x` do not widen the range. A sum
with a constant that has -inf becomes a selection by a constant.

Masks of a softmax are not changed, not even before a maximum with the least f32: `solve/masks/bound_masks.py` bounds
them by the scores. Nor is a sum before a relu, where `solve/masks/bound_terms.py` bounds the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    DivideOp,
    ExponentialMinusOneOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    ReduceOp,
    SelectOp,
    SignOp,
    SubtractOp,
    TanhOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite, without_statements

LIMITS: Mapping[type[Operation], Callable[[float], float]] = {
    AbsOp: abs,
    ExponentialMinusOneOp: lambda end: -1.0 if end < 0 else np.inf,
    ExponentialOp: lambda end: 0.0 if end < 0 else np.inf,
    LogisticOp: lambda end: 0.0 if end < 0 else 1.0,
    NegateOp: lambda end: -end,
    SignOp: lambda end: -1.0 if end < 0 else 1.0,
    TanhOp: lambda end: -1.0 if end < 0 else 1.0,
}
"""Maps functions of one value to their results for -inf and inf."""


@dataclass(frozen=True)
class Inserted:
    """A value has the infinite number `end` where `holds` equals `where`.

    `made` are ops for a value that replaces it.
    """

    holds: SSAValue
    where: bool
    end: float
    made: tuple[Operation, ...] = ()


@dataclass
class RestoreLimits(RewritePattern):
    """f(select(p, x, -inf)) -> select(p, f(select(p, x, -inf)), f(-inf)), also for sums with constants that
    have -inf.
    """

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Select the limit of one op after it, where an operand is infinite."""
        for index, value in enumerate(op.operands):
            found = self._inserted(value, op)
            limit = None if found is None else _settled(op, index, found.end, self.weights)
            if found is None or limit is None or _is_restored(op, found, self.weights):
                continue
            if found.made:
                rewriter.insert(found.made)
                op.operands[index] = found.made[-1].results[0]
            numbers = self._splat(limit, op)
            made = _selection(found, numbers[-1].results[0], op.results[0])
            made.location = op.location
            readers = list(op.results[0].uses)
            rewriter.insert([*numbers, made], InsertPoint.after(op))
            for use in readers:
                if use.operation is not made:
                    use.operation.operands[use.index] = made.result
            rewriter.notify_op_modified(op)
            return

    def _splat(self, number: float, like: Operation) -> list[Operation]:
        """Ops that broadcast a number to the type of an op's result."""
        (result,) = like.results
        scalar = constant_op(np.array(number, element_dtype(element_of(result))), self.weights)
        made: list[Operation] = [scalar, BroadcastInDimOp(scalar.output, result.type, [])]
        for each in made:
            each.location = like.location
        return made

    def _inserted(self, value: SSAValue, reader: Operation) -> Inserted | None:
        """The infinite number that a select, or a sum with a constant, inserts into the value; None without one."""
        op = value.owner
        if isinstance(op, SelectOp) and isinstance(element_of(value), AnyFloat):
            for branch, where in ((op.on_true, True), (op.on_false, False)):
                end = splat_value(branch, self.weights)
                if end is not None and np.isinf(end):
                    return Inserted(op.pred, where, end)
        if isinstance(op, AddOp) and isinstance(element_of(value), AnyFloat) and not _is_relu(reader, self.weights):
            for index in (1, 0):
                found = self._added(op, index)
                if found is not None:
                    return found
        return None

    def _added(self, total: AddOp, index: int) -> Inserted | None:
        """A sum with a constant that has -inf or inf, as a selection of that number or of a finite sum."""
        mask = total.operands[index]
        spread = mask.owner if isinstance(mask.owner, BroadcastInDimOp) else None
        array = constant_array(mask if spread is None else spread.operand, self.weights)
        if array is None or np.isnan(array).any():
            return None
        ends = set(array[np.isinf(array)].tolist())
        if len(ends) != 1:
            return None
        end, made = ends.pop(), list[Operation]()
        held = self._spread(np.isinf(array), spread, made)
        finite = self._spread(np.where(np.isinf(array), array.dtype.type(0), array), spread, made)
        shown = without_statements(total.clone())
        shown.operands[index] = finite
        made += [shown, *self._splat(end, total)]
        found = Inserted(held, True, end)
        selection = _selection(found, made[-1].results[0], shown.results[0])
        for each in (*made, selection):
            each.location = total.location
        return Inserted(held, True, end, (*made, selection))

    def _spread(self, array: Array, like: BroadcastInDimOp | None, made: list[Operation]) -> SSAValue:
        """A constant, broadcast in the same way as another one."""
        constant = constant_op(array, self.weights)
        made.append(constant)
        if like is None:
            return constant.output
        kind = TensorType(element_of(constant.output), shape_of(like.result))
        made.append(BroadcastInDimOp(constant.output, kind, list(array_values(like.broadcast_dimensions))))
        return made[-1].results[0]


def _selection(found: Inserted, inserted: SSAValue, shown: SSAValue) -> SelectOp:
    """A select of `inserted` where the infinite number is, and of `shown` elsewhere."""
    pair = (inserted, shown) if found.where else (shown, inserted)
    return SelectOp(found.holds, *pair)


def _is_restored(op: Operation, found: Inserted, weights: Weights) -> bool:
    """Whether the only reader of an op already selects a number at the same elements."""
    use = op.results[0].get_unique_use()
    reader = None if use is None else use.operation
    if not isinstance(reader, SelectOp) or reader.pred is not found.holds:
        return False
    return splat_value(reader.on_true if found.where else reader.on_false, weights) is not None


def _is_relu(op: Operation, weights: Weights) -> bool:
    """Whether an op clamps at 0 from below, which kernels absorb."""
    low = op.operands[0] if isinstance(op, ClampOp) else None
    lows = [low] if low is not None else op.operands if isinstance(op, MaximumOp) else []
    return any(splat_value(value, weights) == 0 for value in lows)


def _settled(op: Operation, index: int, end: float, weights: Weights) -> float | None:
    """An op's result for an infinite operand; None unless it is finite, or every reader's result for it is.

    A difference is infinite if the other operand is finite. It counts only in a sum of exponentials of differences, as
    in a log-sum-exp.
    """
    limit = _limit(op, index, end, weights)
    if limit is None or np.isfinite(limit):
        return limit
    readers = [use for use in op.results[0].uses]
    settled = [_settled(use.operation, use.index, limit, weights) for use in readers]
    return limit if readers and all(one is not None for one in settled) else None


def _limit(op: Operation, index: int, end: float, weights: Weights) -> float | None:
    """The result of an op for an infinite operand `index`; None if it is not known."""
    if type(op) in LIMITS:
        return LIMITS[type(op)](end)
    if isinstance(op, ClampOp):
        return splat_value(op.min if end < 0 else op.max, weights) if index == 1 else None
    if isinstance(op, SubtractOp):
        return (-end if index else end) if _is_summed_exponential(op) else None
    number = splat_value(op.operands[1 - index], weights) if len(op.operands) == 2 else None
    return None if number is None or not np.isfinite(number) else _limit_with(op, index, end, number)


def _limit_with(op: Operation, index: int, end: float, number: float) -> float | None:
    """The result of an op for an infinite operand `index` and a finite number."""
    if isinstance(op, MaximumOp):
        # A number as low as a mask's would only replace -inf by another number that no scale holds.
        return max(number, end) if number > HIDDEN else None
    if isinstance(op, MinimumOp):
        return min(number, end)
    if isinstance(op, DivideOp) and index == 1:
        return 0.0
    return end * float(np.sign(number)) if isinstance(op, MultiplyOp | DivideOp) and number else None


def _is_summed_exponential(op: SubtractOp) -> bool:
    """Whether the difference is only read by an exponential, and that only by a reduction."""
    use = op.result.get_unique_use()
    if use is None or not isinstance(use.operation, ExponentialOp):
        return False
    summed = use.operation.result.get_unique_use()
    return summed is not None and isinstance(summed.operation, ReduceOp)


def restore_limits(program: Program) -> Program:
    """A copy in which the limits of functions are selected where their operands are infinite."""
    program = program.for_change()
    rewrite(program, RestoreLimits(program.weights))
    remove_dead_ops(program.entry)
    return program
