"""Chains of ops that only clamp a value to constant bounds: relu, relu6, clip."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from xdsl.ir import Operation

from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo import ClampOp, MaximumOp, MinimumOp
from zeropoint.ir.weights import Weights


@dataclass
class Bounds:
    """The composition of relu, relu6 and clip: min(max(x, low), high)."""

    low: float = -inf
    high: float = inf

    def then_at_least(self, bound: float) -> None:
        """Compose with max(x, bound)."""
        self.low, self.high = max(self.low, bound), max(self.high, bound)

    def then_at_most(self, bound: float) -> None:
        """Compose with min(x, bound)."""
        self.low, self.high = min(self.low, bound), min(self.high, bound)

    def then(self, op: Operation, weights: Weights) -> bool:
        """Compose with an op that clamps to constants; False for any other op."""
        if isinstance(op, ClampOp):
            low, high = splat_value(op.min, weights), splat_value(op.max, weights)
            if low is None or high is None:
                return False
            self.then_at_least(low)
            self.then_at_most(high)
            return True
        if isinstance(op, MaximumOp | MinimumOp):
            numbers = [
                number for number in (splat_value(op.lhs, weights), splat_value(op.rhs, weights)) if number is not None
            ]
            if len(numbers) != 1:
                return False
            (self.then_at_least if isinstance(op, MaximumOp) else self.then_at_most)(numbers[0])
            return True
        return False
