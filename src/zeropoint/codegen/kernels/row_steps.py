"""Finds the steps of an integer layer normalization among the scalars of a row, by its definition.

The bounds of its integers hold of this sequence of ops as a whole, so it is found as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zeropoint.codegen.kernels.elements import Elementwise, Number, Reduce, Scalar, Scalars
from zeropoint.numerics.layer_norm import MOST_TERMS, LayerNorm
from zeropoint.numerics.layer_norm_steps import NormalizationSteps, row_steps


class _MissingStep(Exception):
    """A step that the body does not have."""


@dataclass(frozen=True)
class FoundScalar:
    """A scalar of a body, by its number."""

    number: int


Operand = FoundScalar | int


def _op(name: str) -> Callable[..., FoundScalar]:
    """A step that is one op, of the type of the scalars among its operands."""

    def step(steps: _Steps, *operands: Operand) -> FoundScalar:
        return steps.op(name, operands)

    return step


class _Steps:
    """`RowWords` of a body: each op is the scalar that computes it. Raises _MissingStep if there is none."""

    def __init__(self, body: Scalars) -> None:
        self._body = body
        self._numbers = {i: n for n, i in enumerate(body)}

    def _find(self, i: Scalar) -> FoundScalar:
        if i not in self._numbers:
            raise _MissingStep
        return FoundScalar(self._numbers[i])

    def op(self, name: str, operands: Sequence[Operand]) -> FoundScalar:
        type_ = next(self._body[each.number].type for each in operands if isinstance(each, FoundScalar))
        found = [
            each if isinstance(each, FoundScalar) else self._find(Scalar(Number(each), type_)) for each in operands
        ]
        return self._find(Scalar(Elementwise(name), type_, tuple(each.number for each in found)))

    def _converted(self, value: FoundScalar, type_: str) -> FoundScalar:
        if self._body[value.number].type == type_:
            return value
        return self._find(Scalar(Elementwise("convert"), type_, (value.number,)))

    def total(self, values: FoundScalar) -> FoundScalar:
        return self._find(Scalar(Reduce("add", 0), "i32", (values.number,)))

    def wide(self, value: FoundScalar) -> FoundScalar:
        return self._converted(value, "i64")

    def word(self, value: FoundScalar) -> FoundScalar:
        return self._converted(value, "i32")

    def every(self, number: FoundScalar) -> FoundScalar:
        return self.word(number)

    add = _op("add")
    subtract = _op("subtract")
    multiply = _op("multiply")
    divide = _op("divide")
    maximum = _op("maximum")
    both = _op("and")
    raised = _op("shift_left")
    leading_zeros = _op("count_leading_zeros")

    def shifted(self, value: FoundScalar, amount: Operand) -> FoundScalar:
        return value if amount == 0 else self.op("shift_right_arithmetic", (value, amount))


@dataclass(frozen=True)
class NormalizedRow:
    """A layer normalization among scalars: the i32 that it normalizes, of i8 or i16, its constants and its steps."""

    integers: int
    norm: LayerNorm
    steps: NormalizationSteps[FoundScalar]


def normalized_rows(body: Scalars, length: int) -> Iterator[NormalizedRow]:
    """The layer normalizations of rows of `length` elements; `body` has no scalar twice."""
    anchors = [i.arguments[0] for i in body if i.name == "count_leading_zeros"]
    sums = sorted({i.arguments[0] for i in body if isinstance(i.what, Reduce)})
    if length > MOST_TERMS:
        return
    for v in anchors:
        norm, steps = LayerNorm(length, _epsilon(body, v)), _Steps(body)
        for q in sums:
            if body[q].name != "convert" or not _is_narrow(body[body[q].arguments[0]]):
                continue
            try:
                yield NormalizedRow(q, norm, row_steps(steps, norm, FoundScalar(q)))
            except _MissingStep:
                continue


def _is_narrow(i: Scalar) -> bool:
    return i.type in ("i8", "i16") and i.signed


def _epsilon(body: Scalars, v: int) -> int:
    """What is added to the spread before the maximum; 0 if nothing is."""
    least = body[v]
    added = body[least.arguments[0]] if least.name == "maximum" else least
    number = body[added.arguments[1]].what if added.name == "add" else None
    return int(number.number) if isinstance(number, Number) else 0
