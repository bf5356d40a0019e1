"""Lower bounds that follow from how a value is computed, without data: squares, means of them, sums with constants.

```mlir
%0 = stablehlo.multiply %x, %x                     0 at least
%1 = stablehlo.reduce(%0 init: %zero) add          0 at least
%2 = stablehlo.add %1, %epsilon                    1e-6 at least
%3 = stablehlo.rsqrt %2                            so no infinite number begins here
```
NaN and infinite operands are left to the caller, and so is overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    DivideOp,
    ExponentialOp,
    LogisticOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PowerOp,
    ReduceOp,
    ReshapeOp,
    ReverseOp,
    RsqrtOp,
    SliceOp,
    SqrtOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights

_MOVES = BroadcastInDimOp | ConcatenateOp | ReshapeOp | ReverseOp | SliceOp | StatisticsOp | TransposeOp
_REPEATED = 2
"""The operands of a reduction of one value: the value, and the initial one."""


@dataclass
class LeastNumbers:
    """The lower bounds of values; a value without one has none. Ops are visited in program order.

    `given` has what the arguments of regions stand for.
    """

    weights: Weights
    found: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    given: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def of(self, value: SSAValue) -> float:
        """The bound of a value, or the least number of a constant."""
        if value in self.found:
            return self.found[value]
        array = self._array(value)
        return -inf if array is None or not array.size or np.isnan(array).any() else float(array.min())

    def visit(self, op: Operation) -> None:
        """Find the bounds of an op's results; for a region, those of the values in it, too."""
        if isinstance(op, QuantizeRegionOp):
            self._enter(op)
            return
        least = self._least(op) if len(op.results) == 1 else -inf
        if least > -inf:
            self.found[op.results[0]] = least

    def makes_infinite(self, op: Operation) -> bool:
        """Whether an op may make NaN or infinite numbers from finite operands."""
        if isinstance(op, DivideOp):
            divisor = self._array(op.rhs)
            return not (self.of(op.rhs) > 0 if divisor is None else divisor.all())
        if isinstance(op, SqrtOp):
            return not self.of(op.operand) >= 0
        if isinstance(op, LogOp | RsqrtOp):
            return not self.of(op.operand) > 0
        if isinstance(op, PowerOp):
            exponents = self._array(op.rhs)
            whole = exponents is not None and bool(((exponents >= 0) & (exponents == np.floor(exponents))).all())
            return not whole and not self.of(op.lhs) > 0
        return False

    def _enter(self, region: QuantizeRegionOp) -> None:
        """Follow the values of a region from its operands to its results."""
        block = region.body.block
        for inner, outer in zip(block.args, region.inputs, strict=True):
            self.given[inner] = outer
            if (least := self.of(outer)) > -inf:
                self.found[inner] = least
        for op in block.ops:
            if isinstance(op, ReturnOp):
                self.found |= {
                    outer: least
                    for outer, inner in zip(region.results, op.operands, strict=True)
                    if (least := self.of(inner)) > -inf
                }
            else:
                self.visit(op)

    def _least(self, op: Operation) -> float:
        if isinstance(op, _MOVES):
            return min(map(self.of, op.operands))
        if isinstance(op, MultiplyOp | DivideOp | PowerOp):
            return self._of_product(op)
        if isinstance(op, AddOp):
            return self.of(op.lhs) + self.of(op.rhs)
        if isinstance(op, MaximumOp | MinimumOp):
            return (max if isinstance(op, MaximumOp) else min)(self.of(op.lhs), self.of(op.rhs))
        if isinstance(op, ReduceOp) and len(op.operands) == _REPEATED:
            return self._of_reduction(op)
        return self._of_function(op)

    def _of_function(self, op: Operation) -> float:
        if isinstance(op, ClampOp):
            return min(self.of(op.min), self.of(op.max))
        if isinstance(op, SqrtOp):
            return sqrt(max(self.of(op.operand), 0.0))
        return 0.0 if isinstance(op, AbsOp | ExponentialOp | LogisticOp) else -inf

    def _of_product(self, op: MultiplyOp | DivideOp | PowerOp) -> float:
        """Squares, even powers, and products and quotients of numbers that are not negative."""
        one, other = self.of(op.lhs), self.of(op.rhs)
        if isinstance(op, PowerOp):
            exponents = self._array(op.rhs)
            even = exponents is not None and bool((exponents % 2 == 0).all())
            return 0.0 if even or one >= 0 else -inf
        if isinstance(op, MultiplyOp) and op.lhs is op.rhs:
            return 0.0
        if isinstance(op, DivideOp):
            return 0.0 if one >= 0 and other > 0 else -inf
        # In f32, because a product of two small numbers may be 0.
        return float(np.float32(one) * np.float32(other)) if one >= 0 and other >= 0 else -inf

    def _of_reduction(self, op: ReduceOp) -> float:
        """Sums of numbers that are not negative, and the greatest or least of numbers."""
        combined, begin = body_op(op.body), self.of(op.init_values[0])
        least = self.of(op.inputs[0])
        if combined is AddOp:
            return 0.0 if least >= 0 and begin >= 0 else -inf
        if combined is MaximumOp:
            return max(least, begin)
        return min(least, begin) if combined is MinimumOp else -inf

    def _array(self, value: SSAValue) -> Array | None:
        array = broadcast_array(value, self.weights, self.given)
        return array if array is not None and array.dtype.kind in "fiu" else None
