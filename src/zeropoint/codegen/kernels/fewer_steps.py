"""Integer scalars of rows in forms with fewer instructions per element and the same bits, as in layer normalization.

    (x - m) k - r          =  x k - (m k + r)                               modulo 2^32
    i16(clamp(a, x, b))    =  clamp(a, i16(clamp(-2^15, x, 2^15 - 1)), b)    for a and b in i16

m, k and r are numbers of the row. The first is true of integers, so also of their lowest 32 bits. In the second, a
vector has twice as many elements when the bounds apply, and saturating to i16 is a part of narrowing on x86.
Conversions to the same type are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zeropoint.codegen.kernels import high_products, pair_sums
from zeropoint.codegen.kernels.elements import Elementwise, Number, Scalar, Scalars
from zeropoint.codegen.kernels.high_products import needed, with_high_products
from zeropoint.codegen.kernels.pair_sums import with_pair_sums
from zeropoint.codegen.llvm.isa import InstructionSet

_ADD = Elementwise("add")
_WORD = -(1 << 15), (1 << 15) - 1


def in_fewer_steps(body: Scalars, wide: Sequence[bool], length: int, isa: InstructionSet) -> Scalars:
    """The body of a row of `length` elements with these forms, sums of pairs and upper halves of products.

    `wide` says which scalars differ between the elements of a row.
    """
    body = _with_forms(body, wide)
    body = with_high_products(body) if high_products.has_form(isa) else body
    return with_pair_sums(body, length) if pair_sums.has_form(isa) else body


def _with_forms(body: Scalars, wide: Sequence[bool]) -> Scalars:
    made = _Made()
    for n, i in enumerate(body):
        number = made.difference(n, body, wide) if i.name == "subtract" else None
        if i.name == "convert":
            number = made.narrowed(n, body)
            # The last one is the result, and stays the last one.
            if number is None and n < len(body) - 1 and _is_idle(i, body[i.arguments[0]]):
                number = made.numbers[i.arguments[0]]
        made.numbers.append(made.append(made.moved(i)) if number is None else number)
    return needed(tuple(made.body))


def _is_idle(convert: Scalar, of: Scalar) -> bool:
    """Whether a conversion is to the type of its operand."""
    return (convert.type, convert.signed) == (of.type, of.signed)


def _constant(i: Scalar) -> float | None:
    return i.what.number if isinstance(i.what, Number) else None


class _Made:
    """A body in the making; `numbers` has the new number of each scalar of the old one."""

    def __init__(self) -> None:
        self.body: list[Scalar] = []
        self.numbers: list[int] = []

    def append(self, i: Scalar) -> int:
        self.body.append(i)
        return len(self.body) - 1

    def moved(self, i: Scalar) -> Scalar:
        return replace(i, arguments=tuple(self.numbers[n] for n in i.arguments))

    def difference(self, n: int, body: Scalars, wide: Sequence[bool]) -> int | None:
        """(x - m) k - r by its second form; None for anything else."""
        i = body[n]
        product, r = i.arguments
        if i.type != "i32" or body[product].name != "multiply" or wide[r] or not wide[product]:
            return None
        # A product may have its factors in either order.
        inner, k = sorted(body[product].arguments, key=lambda factor: not wide[factor])
        if wide[k] or body[inner].name != "subtract":
            return None
        x, m = body[inner].arguments
        if wide[m] or not wide[x]:
            return None
        times = body[product]
        moved = self.append(replace(times, arguments=(self.numbers[m], self.numbers[k])))
        moved = self.append(replace(i, what=_ADD, arguments=(moved, self.numbers[r])))
        scaled = self.append(replace(times, arguments=(self.numbers[x], self.numbers[k])))
        return self.append(replace(i, arguments=(scaled, moved)))

    def narrowed(self, n: int, body: Scalars) -> int | None:
        """A clamped i32 that becomes an i16 by its second form; None for anything else."""
        i = body[n]
        clamp = body[i.arguments[0]]
        if (i.type, clamp.type, clamp.name, i.signed, clamp.signed) != ("i16", "i32", "clamp", True, True):
            return None
        low, x, high = clamp.arguments
        first, last = (_constant(body[k]) for k in (low, high))
        if first is None or last is None or min(first, last) < _WORD[0] or max(first, last) > _WORD[1]:
            return None
        inside = [self.append(replace(clamp, what=Number(bound), arguments=())) for bound in _WORD]
        saturated = self.append(replace(clamp, arguments=(inside[0], self.numbers[x], inside[1])))
        word = self.append(replace(i, arguments=(saturated,)))
        ends = [self.append(replace(i, what=Number(bound), arguments=())) for bound in (first, last)]
        return self.append(replace(i, what=clamp.what, arguments=(ends[0], word, ends[1])))
