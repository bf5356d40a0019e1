"""Sine, cosine, tangent, their inverses and the hyperbolic functions in f64, as steps of arithmetic.

An angle is reduced with as many bits of 2 / pi as its exponent needs. For x = m 2^e, only the bits of 2^e 2 / pi below
4 matter. 192 of them are multiplied by m. The remainder is at most pi / 4 and has full relative precision, even for the
largest f64. Source: Payne and Hanek, "Radian reduction for trigonometric functions".
"""

from __future__ import annotations

import math

from zeropoint.numerics.elementary import (
    exponential,
    exponential_minus_one,
    keeping_nan,
    log,
    log_plus_one,
    plus_product,
    polynomial,
    where,
)
from zeropoint.numerics.steps import Steps, V, in_one_step

COUNT = 21
"""The number of words of 2 / pi after a leading zero word, which small exponents read."""


def _two_over_pi(bits: int) -> int:
    """2 / pi times 2^bits, rounded down; pi by Machin's formula."""
    one = 1 << bits + 64

    def arctangent_of_inverse(n: int) -> int:
        total = term = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))
    return (one << bits + 1) // pi


def _words() -> list[int]:
    """A zero word, then the bits of 2 / pi after the binary point, as signed 64-bit numbers."""
    bits = _two_over_pi(64 * COUNT)
    words = [bits >> 64 * (COUNT - 1 - n) & (1 << 64) - 1 for n in range(COUNT)]
    return [0] + [word - (word >> 63 << 64) for word in words]


WORDS = _words()


def _reduced(s: Steps[V], x: V) -> tuple[V, V]:
    """(n, r) with |x| = n pi / 2 + r modulo 2 pi, |r| <= pi / 4; n as i64. Unspecified for infinities and NaN."""
    magnitude = s.magnitude(x)
    small = s.inverse(s.is_greater(magnitude, math.pi / 4))
    bits = s.bits(magnitude)
    # For 2^-1 and above; smaller arguments are selected below.
    exponent = s.bounded(s.down(bits, 52), 1022, 2046)
    m = s.merged(s.masked(bits, (1 << 52) - 1), 1 << 52)
    # Bit j of 2 / pi (bit 0 is 1/2) has weight 2^(e - j - 1), which is below 4 from j = e - 2 on.
    high, middle, low = s.words_from(WORDS, s.added(exponent, 64 - 1075 - 2), 3)
    second = s.multiplied(m, middle)
    below = s.added(second, s.upper_product(m, low))
    carry = s.is_below(below, second)
    above = s.added(s.multiplied(m, high), s.upper_product(m, middle))
    above = s.select(carry, s.added(above, 1), above)
    quadrant = s.down(s.added(above, 1 << 61), 62)
    rest = s.subtracted(above, s.up(quadrant, 62))
    # rest 2^-62 + below 2^-126 as three parts, each with fewer bits than an f64 significand.
    parts = [
        (s.halved(rest, 11), 11 - 62),
        (s.masked(rest, (1 << 11) - 1), -62),
        (s.down(below, 12), 12 - 126),
    ]
    first, *others = (s.times(s.to_floats(part), 2.0**power) for part, power in parts)
    for part in others:
        first = s.plus(first, part)
    r = s.select(small, magnitude, s.times(first, math.pi / 2))
    return s.select(small, s.integer(bits, 0), quadrant), r


def _sine_of_rest(s: Steps[V], r: V) -> V:
    """sin r on |r| <= pi / 4: its Taylor series."""
    z = s.times(r, r)
    series = polynomial(s, z, [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, 9)])
    return plus_product(s, s.times(r, z), series, r)


def _cosine_of_rest(s: Steps[V], r: V) -> V:
    """cos r on |r| <= pi / 4: the rounding error of 1 - r^2 / 2 is added to the rest of the series."""
    z = s.times(r, r)
    half = s.times(z, 0.5)
    first = s.minus(s.number(r, 1.0), half)
    lost = s.minus(s.minus(s.number(r, 1.0), first), half)
    series = polynomial(s, z, [(-1) ** n / math.factorial(2 * n) for n in range(2, 9)])
    return s.plus(first, plus_product(s, s.times(z, z), series, lost))


def _is_negative(s: Steps[V], x: V) -> V:
    """Whether the sign bit is set, also for zeros."""
    return s.is_less(s.signed(s.number(x, 1.0), x), 0.0)


def _of_finite(s: Steps[V], x: V, result: V) -> V:
    """The result; NaN if x is infinite or NaN."""
    finite = s.is_less(s.magnitude(x), math.inf)
    return s.select(finite, result, s.number(x, math.nan))


@in_one_step("sine")
def sine(s: Steps[V], x: V) -> V:
    """sin x."""
    n, r = _reduced(s, x)
    result = s.select(s.is_set(n, 1), _cosine_of_rest(s, r), _sine_of_rest(s, r))
    result = s.select(s.is_set(n, 2), s.negated(result), result)
    return _of_finite(s, x, s.select(_is_negative(s, x), s.negated(result), result))


@in_one_step("cosine")
def cosine(s: Steps[V], x: V) -> V:
    """cos x."""
    n, r = _reduced(s, x)
    result = s.select(s.is_set(n, 1), _sine_of_rest(s, r), _cosine_of_rest(s, r))
    return _of_finite(s, x, s.select(s.is_set(s.added(n, 1), 2), s.negated(result), result))


@in_one_step("tan")
def tan(s: Steps[V], x: V) -> V:
    """tan x."""
    n, r = _reduced(s, x)
    sine_, cosine_ = _sine_of_rest(s, r), _cosine_of_rest(s, r)
    odd = s.is_set(n, 1)
    result = s.over(s.select(odd, s.negated(cosine_), sine_), s.select(odd, sine_, cosine_))
    return _of_finite(s, x, s.select(_is_negative(s, x), s.negated(result), result))


def _arctangent_of_ratio(s: Steps[V], small: V, large: V) -> V:
    """atan(small / large) for 0 <= small <= large; above tan(pi / 8), as pi / 4 + atan((s - l) / (s + l))."""
    ratio = s.over(small, large)
    above = s.is_greater(ratio, math.sqrt(2) - 1)
    turned = s.over(s.minus(ratio, 1.0), s.plus(ratio, 1.0))
    q = s.select(above, turned, ratio)
    z = s.times(q, q)
    series = polynomial(s, z, [(-1) ** n / (2 * n + 1) for n in range(1, 21)])
    angle = plus_product(s, s.times(q, z), series, q)
    return s.select(above, s.plus(angle, math.pi / 4), angle)


def atan2(s: Steps[V], y: V, x: V) -> V:
    """The angle of the point (x, y), like C's atan2: the signs of zeros count, and two infinities give a diagonal."""
    rise, run = s.magnitude(y), s.magnitude(x)
    steep = s.is_greater(rise, run)
    small, large = s.select(steep, run, rise), s.select(steep, rise, run)
    same = s.is_equal(small, large)
    # 0 / 0 and inf / inf.
    none = s.is_equal(large, 0.0)
    one = s.number(x, 1.0)
    small = s.select(same, s.select(none, s.number(x, 0.0), one), small)
    large = s.select(same, one, large)
    angle = _arctangent_of_ratio(s, small, large)
    # pi / 2 as a sum of two numbers. The second one is far below an ulp of the first.
    across = s.minus(s.minus(s.number(x, math.pi / 2), angle), -6.123233995736766e-17)
    angle = s.select(steep, across, angle)
    backwards = _is_negative(s, x)
    behind = s.minus(s.minus(s.number(x, math.pi), angle), -1.2246467991473532e-16)
    result = s.signed(s.select(backwards, behind, angle), y)
    return keeping_nan(s, x, keeping_nan(s, y, result))


def atan(s: Steps[V], x: V) -> V:
    """The arc tangent."""
    return atan2(s, x, s.number(x, 1.0))


def _complement(s: Steps[V], x: V) -> V:
    """sqrt(1 - x^2); NaN for |x| > 1."""
    product = s.times(s.minus(s.number(x, 1.0), x), s.plus(x, 1.0))
    return s.root(product)


def asin(s: Steps[V], x: V) -> V:
    """The arc sine; NaN for |x| > 1."""
    return atan2(s, x, _complement(s, x))


def acos(s: Steps[V], x: V) -> V:
    """The arc cosine, 2 atan(sqrt((1 - x) / (1 + x))); NaN for |x| > 1."""
    rise, run = s.minus(s.number(x, 1.0), x), s.plus(x, 1.0)
    return s.times(atan2(s, s.root(rise), s.root(run)), 2.0)


def sinh(s: Steps[V], x: V) -> V:
    """(e + e / (e + 1)) / 2 with e = e^|x| - 1, with the sign of x; in two factors if e^|x| overflows f64."""
    magnitude = s.magnitude(x)
    e = exponential_minus_one(s, magnitude)
    result = s.times(s.plus(e, s.over(e, s.plus(e, 1.0))), 0.5)
    root = exponential(s, s.times(magnitude, 0.5))
    result = where(s, s.is_equal(e, math.inf), s.times(s.times(root, 0.5), root), result)
    return s.signed(result, x)


def cosh(s: Steps[V], x: V) -> V:
    """(e + 1 / e) / 2 with e = e^|x|; in two factors if e^|x| overflows f64."""
    magnitude = s.magnitude(x)
    e = exponential(s, magnitude)
    result = s.times(s.plus(e, s.over(s.number(x, 1.0), e)), 0.5)
    root = exponential(s, s.times(magnitude, 0.5))
    return where(s, s.is_equal(e, math.inf), s.times(s.times(root, 0.5), root), result)


def asinh(s: Steps[V], x: V) -> V:
    """log(1 + x + x^2 / (1 + sqrt(1 + x^2))) of |x|, with the sign of x; log 2 x for large |x|."""
    magnitude = s.magnitude(x)
    square = s.times(magnitude, magnitude)
    root = s.root(s.plus(square, 1.0))
    result = log_plus_one(s, s.plus(magnitude, s.over(square, s.plus(root, 1.0))))
    great = s.plus(log(s, magnitude), math.log(2))
    result = where(s, s.is_greater(magnitude, 2.0**28), great, result)
    return keeping_nan(s, x, s.signed(result, x))


def acosh(s: Steps[V], x: V) -> V:
    """log(1 + t + sqrt(2 t + t^2)) with t = x - 1; NaN for x < 1; log 2 x for large x."""
    t = s.minus(x, 1.0)
    root = s.root(plus_product(s, t, t, s.times(t, 2.0)))
    result = log_plus_one(s, s.plus(t, root))
    result = where(s, s.is_greater(x, 2.0**28), s.plus(log(s, x), math.log(2)), result)
    return where(s, s.is_less(x, 1.0), math.nan, result)


def atanh(s: Steps[V], x: V) -> V:
    """log((1 + x) / (1 - x)) / 2; NaN for |x| > 1."""
    magnitude = s.magnitude(x)
    ratio = s.over(s.times(magnitude, 2.0), s.minus(s.number(x, 1.0), magnitude))
    return s.signed(s.times(log_plus_one(s, ratio), 0.5), x)
