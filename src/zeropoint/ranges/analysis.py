"""Bounds of the integer values of a program.

A forward analysis: the range of a result follows from the ranges of the op's operands. Ranges are computed on demand
and cached, so that the analysis can run while a program is being built. The result of an op that is not in `RULES` has
the range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import ConvertOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.storage import integer_range
from zeropoint.ranges.interval import Interval

IntervalRule = Callable[["Ranges", Any], Interval]


def type_interval(element: Attribute) -> Interval:
    """All integers of a type, 0 and 1 for booleans, and 0 for other types, whose ranges are never used."""
    if isinstance(element, UniformQuantizedType):
        return Interval.of(element.storage.minimum, element.storage.maximum)
    if element == i1:
        return Interval.of(0, 1)
    kind = element_dtype(element).kind
    # Not the range of the dtype, because an i4 is held in 8 bits.
    return Interval.of(*integer_range(width_of(element), signed=kind == "i")) if kind in "iu" else Interval.of(0, 0)


def width_of(element: Attribute) -> int:
    """The number of bits of an integer type, or of the storage of a quantized type."""
    if isinstance(element, UniformQuantizedType):
        return element.storage.type.width
    assert isinstance(element, IntegerType)
    width: int = element.bitwidth
    return width


def _holds(element: Attribute, numbers: Array) -> bool:
    """Whether conversion to a type keeps the integers of an array. For floats, only zeros count."""
    whole = type_interval(element)
    return numbers.size == 0 or (whole.least <= int(numbers.min()) and int(numbers.max()) <= whole.greatest)


@dataclass
class Ranges:
    """The ranges of a program's values, computed on demand.

    `rules` has a function for each kind of op. `known` has the ranges found so far. An input has the range of its type
    unless `known` has a narrower one. `stated` has bounds on results before wrapping that are tighter than those of the
    op's rule (`normalized_rows.py`).
    """

    weights: Weights
    rules: Mapping[type[Operation], IntervalRule]
    known: dict[SSAValue, Interval] = field(default_factory=dict[SSAValue, Interval])
    stated: dict[SSAValue, Interval] = field(default_factory=dict[SSAValue, Interval])
    constants: dict[Attribute, Interval] = field(default_factory=dict[Attribute, Interval])
    """The ranges of constants, by their elements."""

    def of(self, value: SSAValue) -> Interval:
        """The range of an integer value. It is computed on demand, after the ranges of its operands."""
        # An explicit stack, because recursion along a chain of thousands of ops would exceed Python's stack.
        pending = [value]
        while pending:
            current = pending[-1]
            # A value is computed at its second visit, when all of its operands are known.
            missing = [operand for operand in self._needed(current) if operand not in self.known]
            if current in self.known or not missing:
                pending.pop()
                if current not in self.known:
                    self.known[current] = self._found(current)
                continue
            pending += missing
        return self.known[value]

    def array(self, value: SSAValue) -> Array | None:
        """The array of an integer constant, also through conversions that keep its numbers; None for other values."""
        # Narrow weights are constants with a `convert` to the type of the contraction.
        types = list[Attribute]()
        while isinstance(value, OpResult) and isinstance(value.op, ConvertOp):
            types.append(element_of(value))
            value = value.op.operand
        found = constant_array(value, self.weights)
        if found is None or found.dtype.kind not in "biu":
            return None
        return found if all(_holds(element, found) for element in types) else None

    def splat(self, value: SSAValue) -> float | None:
        """The number that a splat constant repeats; None otherwise."""
        return splat_value(value, self.weights)

    def computed(self, op: Operation) -> Interval:
        """The range of the numbers that an op with a rule computes, before they wrap around."""
        stated = self.stated.get(op.results[0])
        return self.rules[type(op)](self, op) if stated is None else stated

    def _needed(self, value: SSAValue) -> list[SSAValue]:
        """The operands whose ranges the rule of a value may need."""
        if isinstance(value, OpResult) and type(value.op) in self.rules and len(value.op.results) == 1:
            return list(value.op.operands)
        return []

    def _found(self, value: SSAValue) -> Interval:
        element = element_of(value)
        whole = type_interval(element)
        if isinstance(element, UniformQuantizedType):
            return whole  # rules do not know zero points
        rule = self.rules.get(type(value.op)) if isinstance(value, OpResult) and len(value.op.results) == 1 else None
        if rule is None or element_dtype(element).kind not in "biu" or not isinstance(value, OpResult):
            return whole
        found = self.computed(value.op)
        # A result that may exceed its type wraps around, so it can be any value of the type.
        return found if found.is_bounded and found.within(whole.least, whole.greatest) else whole
