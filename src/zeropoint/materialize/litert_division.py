"""LiteRT's quotients of 16-bit values, in fixed point (`numerics.litert_division` has the formulas).

```mlir
%1 = "quant.region"(%0, %b) ({ divide }) {logical_kernel = "divide"} : ... i16 by i16 to i16
```
becomes, under a profile with LiteRT's kernels,
```mlir
%a, %b = (both negated if %b is negative)
%z = count_leading_zeros(%b)
%x = (1 / (%b * (1 << (%z - 1))), by three Newton steps)          31 fractional bits
%h = count_leading_zeros(max(%a, -1 - %a)) - 1
%q = ((%a << %h) * %x + 2^30) >> 31
%s = (%q * %multiplier + 2^30) >> 31
%1 = %s / 2^(31 - %z + %h - exponent), rounded away from 0, plus the zero point, clamped
```
All products are of 64 bits. Some clamps change no value. They give range analysis the bounds of a shift.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.materialize.litert_fixed_point import divided_away, reciprocal, times
from zeropoint.materialize.words import Words
from zeropoint.numerics.litert_division import BITS
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN

MOST_BITS = 17
"""The bits of the difference of two 16-bit integers, with its sign."""


def word_quotient(run: Words, dividend: SSAValue, divisor: SSAValue, multiplier: tuple[int, int]) -> SSAValue:
    """The quotients of i32 numbers of at most `MOST_BITS` bits in steps of the result, of 33 bits at most, as i64.

    `multiplier` is the quotient of the scales as mantissa and exponent, for which LiteRT's kernel `divides`. A divisor
    of 0, at which the runtime stops, gives more steps than any storage type has.
    """
    mantissa, exponent = multiplier
    sign = run.add(run.multiply(run.shifted(divisor, 31), 2), 1)
    dividend, positive = run.multiply(dividend, sign), run.multiply(divisor, sign)
    factor, bits = _reciprocal(run, run.maximum(positive, 1))
    raised, headroom = _raised(run, dividend)
    scaled = times(run, times(run, raised, factor), mantissa)
    amount = run.clamped(run.subtract(run.add(bits, headroom), exponent), 0, BITS)
    found = divided_away(run, scaled, amount)
    by_zero = run.converted(run.subtract(1, run.clamped(positive, 0, 1)), i64)
    endless = run.multiply(run.converted(run.clamped(dividend, -1, 1), i64), 1 << 32)
    return run.add(run.clamped(found, INT32_MIN, INT32_MAX), run.multiply(endless, by_zero))


def _reciprocal(run: Words, positive: SSAValue) -> tuple[SSAValue, SSAValue]:
    """2^k / n with 31 fractional bits, and k, the position of the number's highest bit, as i64."""
    zeros = run.converted(run.clamped(run.leading_zeros(positive), 32 - MOST_BITS, BITS), i64)
    power = run.clamped(run.raised(1, run.subtract(zeros, 1)), 1, 1 << (BITS - 1))
    half = run.clamped(run.multiply(run.converted(positive, i64), power), 1 << (BITS - 1), INT32_MAX)
    return reciprocal(run, half), run.subtract(BITS, zeros)


def _raised(run: Words, number: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The number shifted left as far as 32 bits allow, and by how many bits, as i64; 31 for 0."""
    magnitude = run.maximum(number, run.subtract(-1, number))
    headroom = run.converted(run.subtract(run.clamped(run.leading_zeros(magnitude), 1, 32), 1), i64)
    power = run.clamped(run.raised(1, headroom), 1, 1 << BITS)
    return run.clamped(run.multiply(run.converted(number, i64), power), INT32_MIN, INT32_MAX), headroom
