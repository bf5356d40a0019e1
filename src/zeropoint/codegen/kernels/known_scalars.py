"""Rewrite scalars whose magnitude is known to forms with fewer instructions and the same bits.

    i32(round_nearest_even(x))              =  bits(x + 1.5 * 2^23) - MAGIC_BITS          |x| <= 2^22
    requantize(i32(round_nearest_even(x)))  =  the same of x within the bounds of the result, for any x
    requantize by float32-rne               =  the same of f32(x) m, or x itself for m = 1
    f32(requantize by float32-rne)          =  f32(x) m, clamped, plus and minus 1.5 * 2^23
    requantize by fixed32-double            =  the upper half of one product, of x with room for a left shift
    f32(f64(a) f64(b) + f64(c))             =  one f32 multiply-add, if the sum in f64 is exact
    f32(f64(a) f64(b))                      =  a b in f32
    clamp of a float                        =  two comparisons, which NaN and -0 would need more than

The arithmetic of runtimes is full of these: integers times factors, in f64 to state an FMA. An integer is a multiple of
1, and an f32 one of its last bit, so the magnitude and the last bit of a sum are known. It is exact in f64 if they are
at most 53 bits apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zeropoint.codegen.kernels import high_products
from zeropoint.codegen.kernels.bodies import NewBody
from zeropoint.codegen.kernels.double_rounding import Lifted
from zeropoint.codegen.kernels.elements import (
    Argument,
    Compare,
    Dequantize,
    Number,
    Requantize,
    Scalar,
    Scalars,
)
from zeropoint.codegen.kernels.finite import Nearest, Rounded, Truncated, Within
from zeropoint.codegen.kernels.quantize import NEAR
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.types import FLOATS, WIDTHS
from zeropoint.numerics import Multiplier, Requantization, RequantizeBehaviour
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.storage import signed_range

_SLACK = 1 + 2.0**-20
"""Rounding to f32 enlarges a number by less than this factor."""
_LARGEST = 2.0**100
"""Floats up to this size, and products of two of them in f64, do not overflow."""
_WORD = "i32"
LEAST_STEP = -1074
"""All f64, and so all f32, are multiples of 2^-1074."""


@dataclass(frozen=True)
class Magnitude:
    """A finite number with |x| <= `most` that is a multiple of 2^`step`."""

    most: float
    step: int

    @staticmethod
    def of(numbers: AnyArray) -> Magnitude | None:
        """What is known of each of some numbers; None if one is not finite."""
        numbers = np.asarray(numbers, np.float64)
        if not np.isfinite(numbers).all():
            return None
        fractions, exponents = np.frexp(numbers[numbers != 0])
        # 53 bits of the fraction as an integer, whose lowest bit that is set is the step.
        whole = np.abs(fractions * 2.0**53).astype(np.int64)
        lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
        steps = exponents.astype(np.int64) - 53 + lowest
        return Magnitude(float(np.abs(numbers).max(initial=0)), int(steps.min(initial=0)))


def _of_type(i: Scalar) -> Magnitude | None:
    """What the type of a scalar says; None for floats and integers of 64 bits."""
    if i.type in FLOATS or WIDTHS[i.type] > WIDTHS[_WORD]:
        return None
    bits = WIDTHS[i.type]
    return Magnitude(2.0 ** (bits - 1) if i.signed and bits > 1 else 2.0**bits - 1, 0)


def _fits(known: Magnitude, i: Scalar) -> bool:
    """Whether numbers of a magnitude fit the integer type of a scalar."""
    return i.signed and known.most < 2.0 ** (WIDTHS[i.type] - 1)


class _Rewriting(NewBody):
    def __init__(self, body: Scalars, isa: InstructionSet, arguments: Mapping[int, Magnitude | None]):
        super().__init__()
        self.old, self.isa, self.given = body, isa, arguments
        self.known: list[Magnitude | None] = []
        self.products: dict[int, tuple[int, Requantize]] = {}
        """The f32 that requantized integers are rounded from."""

    def run(self) -> Scalars:
        for n, i in enumerate(self.old):
            self.numbers[n] = self._made(self.moved(i))
        # The result is the last one.
        result = self.numbers[len(self.old) - 1]
        if result != len(self.body) - 1:
            last = self.body[result]
            self.op("convert", last.type, result, signed=last.signed)
        return self.needed

    def append(self, i: Scalar) -> int:
        self.known.append(self._of(i))
        return super().append(i)

    def _made(self, i: Scalar) -> int:
        """Append a scalar, or another form of it. Returns its number."""
        if (i.name, i.type) == ("add", "double"):
            found = self._multiply_add(i)
        elif i.name == "convert":
            found = self._nearest(i) if i.type not in FLOATS else self._to_float(i) if i.type == "float" else None
        elif isinstance(i.what, Requantize):
            found = self._requantized(i, i.what)
        else:
            found = self._within(i) if i.name == "clamp" else None
        return self.append(i) if found is None else found

    # Other forms; None for scalars that have none.

    def _nearest(self, i: Scalar) -> int | None:
        """A rounded float as an integer."""
        (n,) = i.arguments
        rounded = self.body[n]
        if rounded.name != "round_nearest_even" or rounded.type != "float" or not self._is_near(rounded.arguments[0]):
            return None
        return self._converted(i, self.op(Nearest(), _WORD, *rounded.arguments))

    def _is_near(self, n: int) -> bool:
        known = self.known[n]
        return known is not None and known.most <= NEAR

    def _converted(self, like: Scalar, n: int) -> int:
        """The scalar `n` in the type of `like`."""
        of = self.body[n]
        if (of.type, of.signed) == (like.type, like.signed):
            return n
        return self.op("convert", like.type, n, signed=like.signed)

    def _requantized(self, i: Scalar, by: Requantize) -> int | None:
        if by.behaviour is RequantizeBehaviour.FIXED32_DOUBLE:
            return self._doubled(i, by)
        acc, by_one, factor = i.arguments[0], self._is_one(i.arguments[1]), self.known[i.arguments[1]]
        if by.behaviour is not RequantizeBehaviour.FLOAT32_RNE or factor is None:
            return None
        limited = self._limited(self.body[acc], by) if by_one else None
        if limited is not None:
            return self._converted(i, self._plus(limited, by.zero_point))
        known = self.known[acc]
        if known is None or self.body[acc].type != _WORD or known.most * factor.most * _SLACK > NEAR:
            return None
        if abs(by.zero_point) > NEAR:
            return None  # the sum could exceed 32 bits
        product = None
        if not by_one:
            product = self.op("multiply", "float", self.op("convert", "float", acc), i.arguments[1])
            acc = self.op(Nearest(), _WORD, product)
        low, high = (self.number(n, _WORD) for n in (by.low, by.high))
        total = self._plus(acc, by.zero_point)
        result = self._converted(i, self.op("clamp", _WORD, low, total, high))
        if product is not None:
            self.products[result] = product, by
            self.known[result] = Magnitude(max(abs(by.low), abs(by.high)), 0)
        return result

    def _is_one(self, n: int) -> bool:
        what = self.body[n].what
        return isinstance(what, Number) and what.number == 1

    def _doubled(self, i: Scalar, by: Requantize) -> int | None:
        """fixed32-double in 32 bits (`double_rounding.py`), if the multiplier is a number."""
        acc, *parts = i.arguments
        known, numbers = self.known[acc], [what for n in parts if isinstance(what := self.body[n].what, Number)]
        is_word = self.body[acc].type == _WORD and self.body[acc].signed
        if known is None or not is_word or len(numbers) != len(parts) or not high_products.has_form(self.isa):
            return None
        factor, exponent = (int(number.number) for number in numbers)
        multiplier = Multiplier(by.behaviour, np.array([factor]), np.array([exponent]))
        output, reach = Requantization(multiplier, by.zero_point, by.low, by.high), np.array([math.ceil(known.most)])
        lifted = Lifted.of(output, reach, by.zero_point)
        if lifted is None:
            return None
        found = self._lifted(acc, lifted, multiplier, by.zero_point)
        if (by.low, by.high) != signed_range(WIDTHS[_WORD]):
            found = self.op("clamp", _WORD, self.number(by.low, _WORD), found, self.number(by.high, _WORD))
        return self._converted(i, found)

    def _lifted(self, acc: int, by: Lifted, multiplier: Multiplier, zero: int) -> int:
        assert multiplier.shift is not None
        factor, term, *below, shift = (int(part[0]) for part in by.parts(multiplier.multiplier, multiplier.shift, zero))
        raised = self.op("multiply", _WORD, acc, self.number(1 << by.lift, _WORD))
        if factor and factor & factor - 1 == 0:
            high = self._shifted(raised, 33 - factor.bit_length())
        else:
            high = self.op("multiply_high", _WORD, raised, self.number(factor, _WORD))
        added = self.number(term, _WORD)
        if by.below:
            negative = self.op(Compare("lt"), "i1", acc, self.number(0, _WORD), signed=False)
            added = self.op("select", _WORD, negative, self.number(below[0], _WORD), added)
        result = self._shifted(self.op("add", _WORD, high, added), shift)
        return self._plus(result, zero) if by.apart else result

    def _shifted(self, n: int, by: int) -> int:
        """A scalar shifted to the right."""
        return self.op("shift_right_arithmetic", _WORD, n, self.number(by, _WORD))

    def _plus(self, n: int, number: int) -> int:
        return self.op("add", _WORD, n, self.number(number, _WORD)) if number else n

    def _limited(self, acc: Scalar, by: Requantize) -> int | None:
        """A float that is rounded to `acc`, within the bounds of the result before it is rounded. NaN becomes 0."""
        rounded = self.body[acc.arguments[0]] if acc.name == "convert" else acc
        low, high = by.low - by.zero_point, by.high - by.zero_point
        if rounded.name != "round_nearest_even" or acc.type != _WORD or not acc.signed or max(-low, high) > NEAR:
            return None
        (x,), real = rounded.arguments, rounded.type
        known = self.op(Compare("eq"), "i1", x, x, signed=False)
        number = self.op("select", real, known, x, self.number(0.0, real))
        inside = self.op(Within(low, high), real, number)
        if real == "float":
            return self.op(Nearest(), _WORD, inside)
        return self.op(Truncated(), _WORD, self.append(replace(rounded, arguments=(inside,))))

    def _within(self, i: Scalar) -> int | None:
        """A clamp of a finite float to numbers."""
        low, x, high = i.arguments
        ends = [self.body[n].what for n in (low, high)]
        if i.type not in FLOATS or self.known[x] is None or not all(isinstance(end, Number) for end in ends):
            return None
        first, last = (end.number for end in ends if isinstance(end, Number))
        # A bound of 0 replaces zeros of both signs, as maximum(x, +0) and minimum(x, -0) do.
        signs = (math.copysign(1, number) for number in (first, last) if number == 0)
        if not first <= last or any(sign != (1 if first == 0 else -1) for sign in signs):
            return None
        return self.append(replace(i, what=Within(first, last), arguments=(x,)))

    def _to_float(self, i: Scalar) -> int | None:
        """A requantized integer as f32; a product of f32 in f64, or one with an addend, that is rounded to f32."""
        of = self.body[i.arguments[0]]
        if of.type == _WORD:
            return self._rounded(i.arguments[0])
        if of.type != "double":
            return None
        if (factors := self._factors(of)) is not None:
            return self.op("multiply", "float", *factors)
        if of.name != "multiply_add" or not self._is_exact(*of.arguments):
            return None
        words = [self._word(n) for n in of.arguments]
        known = tuple(n for n in words if n is not None)
        return self.op("plus_product", "float", *known) if len(known) == len(words) else None

    def _multiply_add(self, i: Scalar) -> int | None:
        """A sum in f64 with a product of two f32, which is exact."""
        for product, addend in (i.arguments, i.arguments[::-1]):
            if self.isa.fused and self._factors(self.body[product]) is not None:
                factors = self.body[product].arguments
                return self.op("multiply_add", "double", *factors, addend)
        return None

    def _factors(self, i: Scalar) -> tuple[int, int] | None:
        """The f32 whose product in f64 a scalar is; None for other scalars."""
        if i.name != "multiply" or i.type != "double":
            return None
        first, second = (self._word(n) for n in i.arguments)
        return None if first is None or second is None else (first, second)

    def _word(self, n: int) -> int | None:
        """The f32 that equals an f64; None if there is none."""
        i = self.body[n]
        if isinstance(i.what, Number):
            same = float(np.float32(i.what.number)) == i.what.number
            return self.op(i.what, "float") if same else None
        if i.name != "convert":
            return None
        (of,) = i.arguments
        if self.body[of].type == "float":
            return of
        known = self.known[of]
        if known is None or known.most > 1 << 24:
            return None
        # Integers of 24 bits are f32.
        real = self._rounded(of)
        return self.op(i.what, "float", *i.arguments) if real is None else real

    def _rounded(self, n: int) -> int | None:
        """A requantized integer, plus or minus numbers, as f32, rounded as such; None for other integers."""
        plus = 0
        while n not in self.products:
            i = self.body[n]
            last = self.body[i.arguments[-1]] if i.arguments else None
            if last is None or not _is_signed_word(i):
                return None
            if isinstance(last.what, Number) and i.name in ("add", "subtract"):
                plus += int(last.what.number) if i.name == "add" else -int(last.what.number)
            elif i.name != "convert" or not _is_signed_word(last):
                return None
            n = i.arguments[0]
        product, by = self.products[n]
        low, high, plus = by.low - by.zero_point, by.high - by.zero_point, by.zero_point + plus
        # f32 has all integers up to 2^24. Sums that wrap around on the way wrap back.
        if max(map(abs, (low, high, plus))) > NEAR or not _is_signed_word(self.body[n]):
            return None
        return self.op(Rounded(low, high, plus), "float", product)

    def _is_exact(self, *arguments: int) -> bool:
        """Whether f64 represents a b + c."""
        known = [each for n in arguments if (each := self.known[n]) is not None]
        if len(known) != len(arguments):
            return False
        a, b, c = known
        return a.most * b.most + c.most <= 2.0 ** (52 + min(a.step + b.step, c.step))

    # What is known of a scalar.

    def _of(self, i: Scalar) -> Magnitude | None:
        if isinstance(i.what, Argument):
            return self.given.get(i.what.index) or _of_type(i)
        if isinstance(i.what, Number):
            return Magnitude.of(np.array(i.what.number, np.float32 if i.type == "float" else np.float64))
        if isinstance(i.what, Rounded):
            return Magnitude(max(abs(i.what.low + i.what.plus), abs(i.what.high + i.what.plus)), 0)
        if isinstance(i.what, Within) and self.known[i.arguments[0]] is None:
            return Magnitude(max(abs(i.what.low), abs(i.what.high)), LEAST_STEP)
        operands = [self.known[n] for n in i.arguments]
        known = [each for each in operands if each is not None]
        found = self._computed(i, known) if known and len(known) == len(operands) else None
        if found is None or i.type == "i1":
            return _of_type(i)
        if i.type in FLOATS:
            return found if found.most < _LARGEST else None
        # Integers beyond their type wrap.
        return found if _fits(found, i) else _of_type(i)

    def _computed(self, i: Scalar, of: Sequence[Magnitude]) -> Magnitude | None:
        found = _of_sum(i, of) or self._of_bits(i, of)
        if found is not None:
            return found
        first, slack = of[0], _slack(i)
        if isinstance(i.what, Within):
            ends = Magnitude.of(np.array([i.what.low, i.what.high]))
            return None if ends is None else _either([ends, first])
        if i.name in ("clamp", "maximum", "minimum"):
            return _either(of)
        if i.name == "convert":
            # Truncation to an integer gives a multiple of 1.
            return Magnitude(first.most * slack, first.step if i.type in FLOATS else max(first.step, 0))
        if i.name in ("round_nearest_even", "floor", "ceil", "round_nearest_afz") or isinstance(i.what, Nearest):
            return Magnitude(math.ceil(first.most), max(first.step, 0))
        if isinstance(i.what, Dequantize) and (scale := Magnitude.of(np.array(i.what.scale, np.float32))) is not None:
            return Magnitude((first.most + abs(i.what.zero_point)) * scale.most * slack, scale.step)
        return None

    def _of_bits(self, i: Scalar, of: Sequence[Magnitude]) -> Magnitude | None:
        """What is known of an integer scalar of double rounding; None for other scalars."""
        if i.name == "multiply_high":
            return Magnitude(of[0].most * of[1].most / 2.0**32 + 1, 0)
        if i.name == "shift_right_arithmetic" and isinstance(by := self.body[i.arguments[1]].what, Number):
            return Magnitude(of[0].most / 2.0**by.number + 1, 0)
        return _either(of[1:]) if i.name == "select" and i.type not in FLOATS else None


def _is_signed_word(i: Scalar) -> bool:
    return i.type == _WORD and i.signed


def _slack(i: Scalar) -> float:
    return _SLACK if i.type in FLOATS else 1.0


def _of_sum(i: Scalar, of: Sequence[Magnitude]) -> Magnitude | None:
    """What is known of a sum or product; None for other scalars."""
    first, last = of[0], of[-1]
    if i.name in ("add", "subtract"):
        return Magnitude((first.most + last.most) * _slack(i), min(first.step, last.step))
    if i.name == "multiply":
        return Magnitude(first.most * last.most * _slack(i), first.step + last.step)
    if i.name in ("plus_product", "multiply_add"):
        return Magnitude((first.most * of[1].most + last.most) * _slack(i), min(first.step + of[1].step, last.step))
    return None


def _either(of: Sequence[Magnitude]) -> Magnitude:
    return Magnitude(max(each.most for each in of), min(each.step for each in of))


def of_known(body: Scalars, isa: InstructionSet, arguments: Mapping[int, Magnitude | None] | None = None) -> Scalars:
    """A body with these forms. `arguments` has what is known of each `Argument`."""
    return _Rewriting(body, isa, {} if arguments is None else arguments).run()


def known_of(body: Scalars, isa: InstructionSet, arguments: Mapping[int, Magnitude | None]) -> list[Magnitude | None]:
    """What is known of each scalar of a body, which is not changed."""
    rewriting = _Rewriting(body, isa, arguments)
    return [rewriting.known[rewriting.append(i)] for i in body]
