"""Keep values float that the model tests for NaN or infinities, back to the origin of these numbers.

```mlir
%s = "quant.region"(%scores, %mask) ({ add })      -inf where a score is hidden
%p = "quant.region"(%s) ({ softmax })              NaN in rows with hidden scores only
%n = "quant.region"(%p, %p) ({ compare NE })       is it NaN?
%r = "quant.region"(%n, %zero, %p) ({ select })    zeros in such rows
```
Integers are always finite: a bounded mask would make such rows uniform, and the test would find nothing. So the test,
the softmax and the sum stay float. A test is a comparison of a value with itself or with an infinite constant, or
`is_finite`. Values that infinite numbers from masks or constants can reach are followed back through functions, data
movement, a softmax and one product (for a test of an attention's output). Constant masks with a visible score in every
row give no NaN. Nor do the roots and quotients of RMS norms, and whole powers (`least_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import broadcast_array, is_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConvolutionOp,
    DotGeneralOp,
    IsFiniteOp,
    MaximumOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.keep_float import with_float
from zeropoint.solve.widths.least_numbers import LeastNumbers
from zeropoint.targets.logical_kernels import NORMALIZATIONS

WHY = "the model tests for NaN or infinite numbers here, and integers are always finite"
PRODUCTS = 1
"""The number of products that a test is followed through."""
PRODUCT = DotGeneralOp | ConvolutionOp
SOFTMAX = ("softmax", "log_softmax")
NORMALIZES = (*NORMALIZATIONS, "mean", "average_pool")
"""Kernels that divide, but never by 0."""
Given = Mapping[SSAValue, SSAValue]


@dataclass
class _Walk:
    """Follows infinite numbers through a program.

    `infinite` maps each value that may hold them to whether they may fill a row. `answers` are the booleans that follow
    from tests, and `tested` are the tested values.
    """

    weights: Weights
    infinite: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])
    answers: set[SSAValue] = field(default_factory=set[SSAValue])
    tested: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    tests: list[Operation] = field(default_factory=list[Operation])
    leasts: LeastNumbers = field(init=False)

    def __post_init__(self) -> None:
        self.leasts = LeastNumbers(self.weights)

    def visit(self, op: Operation) -> None:
        """Follow infinite numbers through an op."""
        self.leasts.visit(op)
        inner, given = _opened(op)
        tested = [value for each in inner for value in self._tested(each, given)]
        if tested:
            self.tests.append(op)
            self.tested |= dict.fromkeys(tested)
            self.answers.update(op.results)
        elif not any(_is_float(value) for value in op.results):
            if any(value in self.answers for value in op.operands):
                self.answers.update(op.results)
        elif (fills := self._reached(op, inner, given)) is not None:
            self.infinite |= dict.fromkeys(op.results, fills)

    def _tested(self, op: Operation, given: Given) -> list[SSAValue]:
        """The values that an op tests for NaN or infinities. A test for NaN counts only if the value may be NaN."""
        if isinstance(op, IsFiniteOp):
            return [given.get(op.x, op.x)]
        if not isinstance(op, CompareOp):
            return []
        lhs, rhs = (given.get(value, value) for value in (op.lhs, op.rhs))
        if lhs is rhs:
            return [lhs] if lhs in self.infinite else []
        ends = [self._infinities(value, given).any() for value in (op.lhs, op.rhs)]
        return [value for value, is_end in zip((rhs, lhs), ends, strict=True) if is_end]

    def _reached(self, op: Operation, inner: Sequence[Operation], given: Given) -> bool | None:
        """Whether infinite numbers may fill a row of the results; None if the results have none."""
        kernel = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else ""
        found = self._given(op, inner)
        for each in inner:
            if isinstance(each, SelectOp):
                if given.get(each.pred, each.pred) in self.answers:
                    return None
                found |= self._selected(each, given)
            elif isinstance(each, MaximumOp | ClampOp) and self._limits(each, given):
                return None
            elif isinstance(each, ConcatenateOp | PadOp):
                found |= {value: False for value in op.operands if self._infinities(value, {}).any()}
            elif kernel not in NORMALIZES and self.leasts.makes_infinite(each):
                found[each.results[0]] = True
        if not found or (kernel == "softmax" and not any(found.values())):
            return None
        # Two masks may together hide a row, and a product sums over rows.
        return any(found.values()) or len(found) > 1 or _is_product(op)

    def _given(self, op: Operation, inner: Sequence[Operation]) -> dict[SSAValue, bool]:
        """The operands and inner constants with infinite numbers, and whether these may fill a row."""
        found: dict[SSAValue, bool] = {}
        constants = [each.results[0] for each in inner if each is not op and is_constant(each.results[0])]
        # The initial value of a reduction, -inf for a maximum, does not become an element of the result.
        begins = {value for each in inner if isinstance(each, ReduceOp | ReduceWindowOp) for value in each.init_values}
        for value in (value for value in (*op.operands, *constants) if value not in begins):
            held = self._infinities(value, {})
            if held.any():
                found[value] = _fills(held)
            elif value in self.infinite:
                found[value] = self.infinite[value]
        return found

    def _selected(self, op: SelectOp, given: Given) -> dict[SSAValue, bool]:
        """The infinite constants that a select inserts, and whether they may fill a row."""
        predicate = broadcast_array(op.pred, self.weights, given)
        found: dict[SSAValue, bool] = {}
        for value, where in ((op.on_true, True), (op.on_false, False)):
            held = self._infinities(value, given)
            if held.any():
                inserted = _source(value, given)
                found[inserted] = predicate is None or _fills((predicate.astype(np.bool_) == where) & held)
        return found

    def _limits(self, op: MaximumOp | ClampOp, given: Given) -> bool:
        """Whether an op raises -inf to a finite number."""
        values = [op.min] if isinstance(op, ClampOp) else op.operands
        arrays = [broadcast_array(value, self.weights, given) for value in values]
        return any(array is not None and bool(np.isfinite(array).all()) for array in arrays)

    def _infinities(self, value: SSAValue, given: Given) -> Array:
        """Where a constant is infinite; nowhere for other values."""
        array = broadcast_array(value, self.weights, given)
        return np.isinf(array) if array is not None and array.dtype.kind == "f" else np.zeros((), np.bool_)

    def kept(self, ops: Sequence[Operation]) -> list[Operation]:
        """The ops that stay float, in program order."""
        found = self._behind_tests()
        for op in ops:
            # A kernel's operand saturates at the least observed number, so a softmax would not hide it.
            reads = any(value in self.infinite and unstated(value).owner in found for value in op.operands)
            if reads and (_is_softmax(op) or (op.results and op.results[0] in self.infinite and not _is_product(op))):
                found.add(op)
        return [op for op in ops if op in found]

    def _behind_tests(self) -> set[Operation]:
        """The ops from the tested values back to the origin of infinite numbers, and the tests."""
        found = set(self.tests)
        left: dict[SSAValue, int] = {}
        pending = [(value, PRODUCTS) for value in self.tested]
        while pending:
            value, products = pending.pop()
            value = unstated(value)
            op = value.owner
            if not isinstance(op, Operation) or value not in self.infinite or left.get(value, -1) >= products:
                continue
            left[value] = products
            if _is_product(op):
                products -= 1
            if products < 0:
                continue
            found.add(op)
            pending += [(operand, 0 if _is_softmax(op) else products) for operand in op.operands]
        return found


def _is_product(op: Operation) -> bool:
    return any(isinstance(each, PRODUCT) for each in _opened(op)[0])


def _is_softmax(op: Operation) -> bool:
    return isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in SOFTMAX


def _opened(op: Operation) -> tuple[list[Operation], Given]:
    """The ops in a region, with what its arguments stand for; the op itself if it is not a region."""
    if not isinstance(op, QuantizeRegionOp):
        return [op], {}
    block = op.body.block
    return [each for each in block.ops if each.results], dict(zip(block.args, op.inputs, strict=True))


def _source(value: SSAValue, given: Given) -> SSAValue:
    """The operand of a region that an inner value is broadcast from; the value itself in other cases."""
    inner = value
    while inner not in given and isinstance(inner.owner, BroadcastInDimOp):
        inner = inner.owner.operand
    return given.get(inner, inner if given else value)


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(element_of(value), AnyFloat)


def _fills(hidden: Array) -> bool:
    """Whether some row along any dimension is hidden completely."""
    return bool(hidden.all()) or any(
        size > 1 and bool(hidden.all(axis=axis).any()) for axis, size in enumerate(hidden.shape)
    )


def is_kept(region: QuantizeRegionOp) -> bool:
    """Whether a region stays float because of a test."""
    return region.attributes.get(FLOAT_REASON) == StringAttr(WHY)


def keep_tested(program: Program) -> Program:
    """A copy in which values that are tested for NaN or infinities stay float; the program itself if there are none.

    Kernels with demands from a recipe are left unchanged.
    """
    walk = _Walk(program.weights)
    walk.infinite = {
        value: True for value, port in zip(program.entry.args, program.inputs, strict=True) if port.is_mask
    }
    ops = [op for op in program.entry.ops if not isinstance(op, ReturnOp)]
    for op in ops:
        walk.visit(op)
    return with_float(program, walk.kept(ops), WHY)
