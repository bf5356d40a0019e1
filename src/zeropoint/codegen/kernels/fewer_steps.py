"""Rewrite integer scalars of rows to forms with fewer instructions per element and the same bits.

    (x - m) k - r          =  x k - (m k + r)                               modulo 2^32
    x i32(1 << s)          =  x << s, and 0 for s above 31                  modulo 2^32
    i16(clamp(a, x, b))    =  clamp(a, saturated(x), b)                     for a and b in i16

m, k, r and s are numbers of the row, as in layer normalization. The first identity holds for integers, and so for their
lowest 32 bits. In the second, a shift is one instruction, and a product of 32 bits is two on Intel's processors. In the
third, a vector has twice as many elements when it is clamped, and saturation to i16 is part of narrowing on x86.
Conversions to the same type are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zeropoint.codegen.kernels import high_products, normalized, pair_sums
from zeropoint.codegen.kernels.bodies import NewBody
from zeropoint.codegen.kernels.elements import Elementwise, Number, Scalar, Scalars
from zeropoint.codegen.kernels.high_products import with_high_products
from zeropoint.codegen.kernels.pair_sums import with_pair_sums
from zeropoint.codegen.kernels.word_scalars import Raised, Saturated
from zeropoint.codegen.llvm.isa import InstructionSet

_ADD = Elementwise("add")
_WORD = -(1 << 15), (1 << 15) - 1


def in_fewer_steps(
    body: Scalars, wide: Sequence[bool], length: int, isa: InstructionSet, *, words: bool = True
) -> Scalars:
    """The body of a row of `length` elements with these forms, sums of pairs and upper halves of products.

    `wide` says which scalars differ between the elements of a row, `words` whether layer normalizations get their form
    with numbers ahead of the rows.
    """
    body, wide = _without_idle(body, wide)
    words = words and normalized.has_form(isa, length)
    body, wide = normalized.with_words(body, wide, length, isa) if words else (body, wide)
    body = _with_forms(body, wide, raises=isa.shift_left is not None)
    body = with_high_products(body) if high_products.has_form(isa) else body
    return with_pair_sums(body, length) if pair_sums.has_form(isa) else body


def _without_idle(body: Scalars, wide: Sequence[bool]) -> tuple[Scalars, Sequence[bool]]:
    """The body without conversions to the same type, and which of its scalars are wide."""
    new, kept = NewBody(), list[bool]()
    for n, i in enumerate(body):
        i = new.moved(i)
        # The last one is the result, and stays the last one.
        idle = n < len(body) - 1 and i.name == "convert" and _is_idle(i, new.body[i.arguments[0]])
        new.numbers[n] = i.arguments[0] if idle else new.append(i)
        if not idle:
            kept.append(wide[n])
    return tuple(new.body), kept


def _with_forms(body: Scalars, wide: Sequence[bool], *, raises: bool) -> Scalars:
    made = _Made(raises)
    for n, i in enumerate(body):
        number = made.difference(n, body, wide) if i.name == "subtract" else None
        number = made.narrowed(n, body) if i.name == "convert" else number
        made.numbers[n] = made.append(made.moved(i)) if number is None else number
    return made.needed


def _is_idle(convert: Scalar, of: Scalar) -> bool:
    """Whether a conversion keeps the type of its operand."""
    return (convert.type, convert.signed) == (of.type, of.signed)


def _constant(i: Scalar) -> float | None:
    return i.what.number if isinstance(i.what, Number) else None


class _Made(NewBody):
    """`raises` says whether the machine has an instruction that shifts each i32 by its own amount."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self._raises = raises

    def difference(self, n: int, body: Scalars, wide: Sequence[bool]) -> int | None:
        """The other form of (x - m) k - r; None for other scalars."""
        i = body[n]
        product, r = i.arguments
        if i.type != "i32" or body[product].name != "multiply" or wide[r] or not wide[product]:
            return None
        # The factors of a product may be in either order.
        inner, k = sorted(body[product].arguments, key=lambda factor: not wide[factor])
        if wide[k] or body[inner].name != "subtract":
            return None
        x, m = body[inner].arguments
        if wide[m] or not wide[x]:
            return None
        times = body[product]
        moved = self.append(replace(times, arguments=(self.numbers[m], self.numbers[k])))
        moved = self.append(replace(i, what=_ADD, arguments=(moved, self.numbers[r])))
        scaled = self.product(times, x, k, body)
        return self.append(replace(i, arguments=(scaled, moved)))

    def product(self, times: Scalar, x: int, k: int, body: Scalars) -> int:
        """The product x k of i32, as a shift if k is a power of two that the row computes."""
        power = body[body[k].arguments[0]] if body[k].name == "convert" else body[k]
        is_power = (power.name, power.type) == ("shift_left", "i64") and _constant(body[power.arguments[0]]) == 1
        if not self._raises or not is_power:
            return self.append(replace(times, arguments=(self.numbers[x], self.numbers[k])))
        # Shift amounts are unsigned. All amounts from 32 on give 0, so they are clamped to 32.
        of = self.op("convert", "i64", self.numbers[power.arguments[1]], signed=False)
        of = self.op("minimum", "i64", of, self.number(32, "i64", signed=False), signed=False)
        amount = self.append(replace(times, what=Elementwise("convert"), arguments=(of,)))
        return self.append(replace(times, what=Raised(), arguments=(self.numbers[x], amount)))

    def narrowed(self, n: int, body: Scalars) -> int | None:
        """The other form of a clamped i32 that is converted to i16; None for other scalars."""
        i = body[n]
        clamp = body[i.arguments[0]]
        if (i.type, clamp.type, clamp.name, i.signed, clamp.signed) != ("i16", "i32", "clamp", True, True):
            return None
        low, x, high = clamp.arguments
        first, last = (_constant(body[k]) for k in (low, high))
        if first is None or last is None or min(first, last) < _WORD[0] or max(first, last) > _WORD[1]:
            return None
        word = self.append(replace(i, what=Saturated(), arguments=(self.numbers[x],)))
        ends = [self.append(replace(i, what=Number(bound), arguments=())) for bound in (first, last)]
        return self.append(replace(i, what=clamp.what, arguments=(ends[0], word, ends[1])))
