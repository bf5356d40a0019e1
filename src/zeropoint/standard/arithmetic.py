"""The arithmetic ops of fixed-point formulas, on one element or on all elements of a tensor.

`fixed_point.py` states each formula once. `tensors.py` emits it as StableHLO on tensors, `scalars.py` as arith ops in
the body of a `linalg.generic`.

A parameter is a number, or an array with one number per channel. No op is emitted for a parameter that changes nothing:
a sum with 0, a product with 1, a shift by 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import SSAValue

from zeropoint.numerics.arrays import AnyArray

BinaryKind = Literal[
    "add",
    "and",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "round_away",
    "round_even",
    "shift_left",
    "shift_right",
    "shift_right_logical",
    "subtract",
    "xor",
]
"""The binary ops. `shift_right` is arithmetic."""
ComparisonKind = Literal["eq", "ge", "gt", "le", "lt", "ne"]
"""Comparisons, of signed integers."""
Parameter = int | float | AnyArray
"""A number, or an array with one number per channel."""
Element = IntegerType | AnyFloat
"""The type of an element."""
ArithmeticOperand = SSAValue | Parameter

_NEUTRAL: dict[BinaryKind, int] = {"add": 0, "subtract": 0, "multiply": 1, "shift_left": 0, "shift_right": 0}
"""Maps ops to the right operand that leaves the left one unchanged."""


class ElementwiseArithmetic(ABC):
    """Emits elementwise ops. Integer results wrap around, as in arith and StableHLO."""

    @abstractmethod
    def parameter(self, value: Parameter, element: Element, like: SSAValue) -> SSAValue:
        """A constant of type `element`, with the shape of `like`."""

    @abstractmethod
    def emit(self, kind: BinaryKind, *operands: SSAValue) -> SSAValue:
        """A binary op on operands of one type."""

    @abstractmethod
    def compare(self, relation: ComparisonKind, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """x `relation` y, as i1."""

    @abstractmethod
    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        """x where the condition holds, y elsewhere."""

    @abstractmethod
    def converted(self, x: SSAValue, element: Element) -> SSAValue:
        """x converted to another type.

        Integers are sign-extended or truncated. Floats must be whole numbers in the range of the type.
        """

    @abstractmethod
    def looked_up(self, table: SSAValue, index: SSAValue) -> SSAValue:
        """table[index], for an index of i32 inside the table."""

    @abstractmethod
    def element(self, x: SSAValue) -> Element:
        """The type of the elements of x."""

    def of(self, value: ArithmeticOperand, like: SSAValue) -> SSAValue:
        """An operand as a value with the type of `like`."""
        return value if isinstance(value, SSAValue) else self.parameter(value, self.element(like), like)

    def _with(self, kind: BinaryKind, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        if not isinstance(y, SSAValue) and kind in _NEUTRAL and bool((np.asarray(y) == _NEUTRAL[kind]).all()):
            return x
        return self.emit(kind, x, self.of(y, x))

    def add(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """x + y."""
        return self._with("add", x, y)

    def subtract(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """x - y."""
        return self._with("subtract", x, y)

    def multiply(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """x * y."""
        return self._with("multiply", x, y)

    def shift_left(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """x * 2^y."""
        return self._with("shift_left", x, y)

    def shift_right(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """floor(x / 2^y)."""
        return self._with("shift_right", x, y)

    def bit_and(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """The bitwise and of x and y."""
        return self._with("and", x, y)

    def bit_or(self, x: SSAValue, y: ArithmeticOperand) -> SSAValue:
        """The bitwise or of x and y."""
        return self._with("or", x, y)

    @abstractmethod
    def clamp(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """min(max(x, low), high)."""

    def round_away(self, x: SSAValue) -> SSAValue:
        """A float rounded to the nearest integer, ties away from zero."""
        return self.emit("round_away", x)

    def round_even(self, x: SSAValue) -> SSAValue:
        """A float rounded to the nearest integer, ties to even."""
        return self.emit("round_even", x)
