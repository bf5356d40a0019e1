"""Integer layer normalization by products of 16-bit numbers, with the same bits.

    t = (((c G) >> 32) + 2^8) >> 9,    c = (q - mu) 2^l - rho                    (`numerics.layer_norm`)
      = (q G 2^l - mu G 2^l - rho G + 2^40) >> 41                                two roundings down are one
      = (q G + K) >> (41 - l),    K = ((2^40 - rho G) >> l) - mu G               q G and mu G are integers
      = (q g + k + ((q g' + k') >> 16)) >> (25 - l),    G = 2^16 g + g',    K = 2^16 k + k'

g' is an i16 with its sign, k' has none. Where l exceeds 25 by e, (q - mu) 2^e takes the place of q, 25 that of l, and
mu in K is 0. Of 8-bit numbers, 2^4 q has room in an i16, so that the last shift is by 29 - l. The sums are computed for
even and for odd elements (`interleaved.py`), with all that is between them and the result.

**No overflow.** The bounds are those of the definition: |rho| < 2^l, 0 <= G <= 2^30, l <= 29, and q is an i16.

- |rho G| < 2^59, |K| < 2^45 + 2^40 + 2^30, so k is an i32. |q g'| <= 2^30, and with k' it is an i32.
- |q - mean| < 2^16, so the sum before the last shift is less than 2^30 + 2^24 + 2. Its terms may wrap around.
- |c| < 2^30, so where l > 25, |q - mu| < 2^(30-l) + 1 and |(q - mu) 2^e| < 2^6, an i16.
- Of 8-bit numbers, |2^4 q| <= 2^11, |2^4 K| < 2^44 + 2^42, and the sum is less than 2^28 + 2^27.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zeropoint.codegen.kernels.bodies import NewBody
from zeropoint.codegen.kernels.elements import Number, Scalar, Scalars
from zeropoint.codegen.kernels.row_steps import NormalizedRow, normalized_rows
from zeropoint.codegen.kernels.word_scalars import EveryOther, Interleaved, PairProduct, Rebased
from zeropoint.codegen.llvm.isa import InstructionSet

WORD = 16
MORE = 4
"""The greatest e."""
LEAST = 8
"""The least vectors of i32 that a row has in this form."""
MOST_LEFT = 41 - WORD
"""The greatest l with which the sum is shifted to the right."""
BOUNDS = {"i16": (-(1 << 15), (1 << 15) - 1), "i8": (-(1 << 7), (1 << 7) - 1)}
"""The types of results, and their numbers."""
BETWEEN = ("add", "subtract", "multiply", "shift_right_arithmetic", "maximum", "minimum", "clamp")
"""Ops between normalized values and result that have this form."""


def has_form(isa: InstructionSet, length: int) -> bool:
    """Whether an instruction multiplies i16 and adds pairs, and a row is long enough for more numbers to pay off."""
    return isa.multiply_add is not None and length >= LEAST * isa.width


def with_words(body: Scalars, wide: Sequence[bool], length: int, isa: InstructionSet) -> tuple[Scalars, Sequence[bool]]:
    """The body of a row of `length` elements with layer normalization in this form, and which scalars are wide.

    As it is if there is none, or if what is computed from the normalized values has no such form.
    """
    for row in normalized_rows(body, length):
        between = _between(body, row.steps.normalized.number)
        if between is not None:
            return _Made(body, wide, between, isa.adds_products).whole(row)
    return body, wide


def _between(body: Scalars, first: int) -> set[int] | None:
    """The scalars from the normalized values to the clamp before the result; None if one of them has no such form."""
    found, results = {first}, 0
    for n, i in enumerate(body):
        if n in found or found.isdisjoint(i.arguments):
            continue
        if _is_result(body, i):
            results += 1
        elif i.name in BETWEEN and i.type == "i32" and i.signed:
            found.add(n)
        else:
            return None
    return found if results and len(body) - 1 not in found else None


def _is_result(body: Scalars, i: Scalar) -> bool:
    """Whether a scalar is a clamped i32 in a type that has its bounds."""
    if i.name != "convert" or i.type not in BOUNDS or not i.signed or body[i.arguments[0]].name != "clamp":
        return False
    first, _, last = body[i.arguments[0]].arguments
    low, high = BOUNDS[i.type]
    return all(isinstance(n, Number) and low <= n.number <= high for n in (body[first].what, body[last].what))


class _Made(NewBody):
    """`numbers` are those of scalars that are not `between`.

    `pairs` has the new numbers of those between, for even and for odd elements.
    """

    def __init__(self, old: Scalars, was_wide: Sequence[bool], between: set[int], adds: bool):
        super().__init__()
        self.old, self.was_wide, self.between, self.adds = old, was_wide, between, adds
        self.wide: list[bool] = []
        self.pairs: dict[int, tuple[int, int]] = {}

    def whole(self, row: NormalizedRow) -> tuple[Scalars, Sequence[bool]]:
        """The new body, and which of its scalars are wide."""
        for n, i in enumerate(self.old):
            if n == row.integers:
                self.numbers[n] = self.op("convert", "i32", self._words(self.numbers[i.arguments[0]]))
            elif n == row.steps.normalized.number:
                self.pairs[n] = self._normalized(row)
            elif n in self.between:
                even, odd = (self.append(replace(i, arguments=self._every_other(i, part))) for part in (0, 1))
                self.pairs[n] = even, odd
            elif self.between.isdisjoint(i.arguments):
                self.numbers[n] = self.append(self.moved(i))
                self.wide[-1] |= self.was_wide[n]
            else:
                self.numbers[n] = self._result(i)
        return tuple(self.body), self.wide

    def append(self, i: Scalar) -> int:
        self.wide.append(any(self.wide[n] for n in i.arguments))
        return super().append(i)

    def _every_other(self, i: Scalar, part: int) -> tuple[int, ...]:
        """The arguments of a scalar between, for even (0) or for odd (1) elements."""
        found: list[int] = []
        for k in i.arguments:
            if k in self.pairs:
                found.append(self.pairs[k][part])
            elif self.was_wide[k]:
                found.append(self.op(EveryOther(part), self.old[k].type, self.numbers[k]))
            else:
                found.append(self.numbers[k])
        return tuple(found)

    def _result(self, i: Scalar) -> int:
        """Both halves packed to i16, then clamped: a vector has twice as many elements there."""
        low, x, high = self.old[i.arguments[0]].arguments
        words = self.op(Interleaved(), "i16", *self.pairs[x])
        ends = [self.op(self.old[n].what, "i16") for n in (low, high)]
        clamped = self.op("clamp", "i16", ends[0], words, ends[1])
        return clamped if i.type == "i16" else self.op("convert", i.type, clamped)

    def _normalized(self, row: NormalizedRow) -> tuple[int, int]:
        """t of even and of odd elements."""
        q, factor, k, shift = self._line(row)
        half = self.op("add", "i64", factor, self.number(1 << WORD - 1, "i64"))
        (high, _), (_, low), (start, carried) = self._parts(half), self._parts(factor), self._parts(k)
        one, word = self.number(1 << WORD, "i32"), self.number(WORD, "i32")
        found: list[int] = []
        for part in (0, 1):
            # A factor in the upper half of a pair is that of the odd element.
            factors = [self.op("shift_left", "i32", each, word) if part else each for each in (high, low)]
            total = self.op(PairProduct(), "i32", q, factors[0], start)
            small = self.op(PairProduct(), "i32", q, factors[1], carried)
            total = (
                self.op(PairProduct(), "i32", small, one, total)
                if self.adds
                else self.op("add", "i32", total, self.op("shift_right_arithmetic", "i32", small, word))
            )
            found.append(self.op("shift_right_arithmetic", "i32", total, self.op("convert", "i32", shift)))
        return found[0], found[1]

    def _words(self, n: int) -> int:
        """An i8 or i16 as i16: pairs of i16 are added to i32 in one instruction."""
        return n if self.body[n].type == "i16" else self.op("convert", "i16", n)

    def _parts(self, number: int) -> tuple[int, int]:
        """A number of a row as 2^16 times an i32, and the rest."""
        high = self.op("shift_right_arithmetic", "i64", number, self.number(WORD, "i64"))
        low = self.op("and", "i64", number, self.number((1 << WORD) - 1, "i64"))
        return self.op("convert", "i32", high), self.op("convert", "i32", low)

    def _line(self, row: NormalizedRow) -> tuple[int, int, int, int]:
        """q, G, K, and the last shift."""
        steps = row.steps
        mean, left, rho, factor = (
            self.numbers[each.number] for each in (steps.mean, steps.left, steps.rho, steps.factor)
        )
        (q,) = self.body[self.numbers[row.integers]].arguments
        shift = self.op("subtract", "i64", self.number(MOST_LEFT, "i64"), left)
        bytes_ = self.old[self.old[row.integers].arguments[0]].type == "i8"
        if row.norm.most_left > MOST_LEFT and not bytes_:
            q, mean, left, shift = self._rebased(q, mean, left)
        product = self.op("subtract", "i64", self.number(1 << 40, "i64"), self.op("multiply", "i64", rho, factor))
        rest = self.op("shift_right_arithmetic", "i64", product, left)
        k = self.op("subtract", "i64", rest, self.op("multiply", "i64", mean, factor))
        if row.norm.most_left > MOST_LEFT and bytes_:
            # Numbers of 8 bits have room for every e.
            q = self.op("multiply", "i16", q, self.number(1 << MORE, "i16"))
            k = self.op("multiply", "i64", k, self.number(1 << MORE, "i64"))
            shift = self.op("add", "i64", shift, self.number(MORE, "i64"))
        return q, factor, k, shift

    def _rebased(self, q: int, mean: int, left: int) -> tuple[int, int, int, int]:
        """What takes the places of q, mu in K, l and the last shift, where l may exceed 25."""
        zero, most = self.number(0, "i64"), self.number(MOST_LEFT, "i64")
        more = self.op("maximum", "i64", self.op("subtract", "i64", left, most), zero)
        left = self.op("subtract", "i64", left, more)
        # All bits of the mean, or none.
        below = self.op("subtract", "i64", zero, more)
        inside = self.op("and", "i64", mean, self.op("shift_right_arithmetic", "i64", below, self.number(63, "i64")))
        unit = self.op("shift_left", "i64", self.number(1, "i64"), more)
        by, off = (self.op("convert", "i16", n) for n in (unit, self.op("multiply", "i64", inside, unit)))
        q = self.op(Rebased(), "i16", q, by, off)
        return q, self.op("subtract", "i64", mean, inside), left, self.op("subtract", "i64", most, left)
