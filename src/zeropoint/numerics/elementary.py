"""Elementary functions as steps of arithmetic: one definition for the interpreter and for native code.

exp and log reduce their argument by powers of two. They use the Taylor series of e^r on |r| <= ln 2 / 2, and that of
artanh. erf is a polynomial in x^2 below 1, and 1 - t exp(-x^2 + P(t)), t = 2 / (2 + x), from 1 on. Both polynomials are
least-squares fits at 200 Chebyshev nodes; their relative errors are below 2^-47.

`IN_FLOAT` functions are computed in f32 for f32. Functions of other types, and all `IN_DOUBLE` functions, are computed
in f64 and rounded. Errors are measured in `tests/numerics/test_elementary.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zeropoint.numerics.steps import Steps, V, in_one_step

_LN2_HIGH = float.fromhex("0x1.62e42fefa3800p-1")
"""ln 2 with 42 bits: its product with an exponent is exact."""
_LN2_LOW = float.fromhex("0x1.ef35793c76730p-45")
_LN2_HIGH_F32 = 355 / 512
"""ln 2 with 9 bits: its product with an exponent of f32 is exact in f32."""
_LN2_LOW_F32 = math.log(2) - 355 / 512
_EXP_F32 = (
    1.0, 1.0, 0.4999999341226158, 0.16666520105542568, 0.04166839425900351, 0.008368780622565816, 0.0013814464761396888,
)  # fmt: skip
"""e^r on |r| <= ln 2 / 2, with a relative error below 2^-27: the Taylor series, with its last terms fitted."""
_ERF_BELOW = (
    0.9654687386698675, -0.14053608902271764, 0.019852496688987045, -0.0022854855611330535, 0.000217517156014883,
    -1.753716950640876e-05, 1.2233828210749006e-06, -7.511554105286796e-08, 4.115686638147927e-09,
    -2.0367666491305977e-10, 9.236933607387223e-12, -3.237635725184409e-13,
)  # fmt: skip
"""erf(x) / x in u = 2 x^2 - 1."""
_ERF_ABOVE = (
    -0.7274922853522043, 0.27658358936131017, 0.010174695380269869, -0.0031116996673369013, -0.00040147120456856373,
    9.560006267971304e-05, 1.6041270376142727e-05, -4.5271460857177575e-06, -6.020118032550748e-07,
    2.5642049534633294e-07, 1.4576422018127891e-08, -1.4584433917108574e-08, 4.274180213353532e-10,
    7.229009133764024e-10, -2.743363202669802e-11, -4.495315053881076e-11, -3.054888883683491e-11,
    2.1355429235195536e-11, 7.781676409594362e-12, -6.7253656452897016e-12,
)  # fmt: skip
"""log(erfc(x) / t) + x^2 in u, t = 11/24 + 5/24 u."""

_ERFC = (
    -0.6513268598908546, 0.6419697923564901, 0.019476473204185912, -0.009561514786808615, -0.0009465953444819635,
    0.00036683949785268745, 4.2523324806901955e-05, -2.027857811250579e-05, -1.6242900044830957e-06,
    1.3036558352774337e-06, 1.562644191737705e-08, -8.523809603177421e-08, 6.529054767449546e-09,
    5.059343552961779e-09, -9.913640860668236e-10, -2.273651469485717e-10, 9.646767678708286e-11,
    2.394116125960446e-12, -6.8859404239996905e-12, 8.952871019229982e-13, 3.1166916107400883e-13,
    -1.1309941698456338e-13, 9.006038283477142e-16, 7.546618585394191e-15,
)  # fmt: skip
"""log(erfc(x) / t) + x^2 for x >= 0 as a Chebyshev series in 2 t - 1, t = 2 / (2 + x)."""


def polynomial(s: Steps[V], x: V, coefficients: Sequence[float]) -> V:
    """sum c_n x^n, by Horner's rule."""
    # Horner's rule: one order of operations, so that every machine gives the same bits.
    total = s.number(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = s.plus(s.times(total, x), c)
    return total


def plus_product(s: Steps[V], a: V, b: V | float, c: V) -> V:
    """a b + c, each rounded."""
    return s.plus(s.times(a, b), c)


def where(s: Steps[V], mask: V, yes: V | float, no: V) -> V:
    """`yes` where the mask holds, else `no`."""
    return s.select(mask, s.number(no, yes) if isinstance(yes, int | float) else yes, no)


def keeping_nan(s: Steps[V], x: V, result: V) -> V:
    """The result; NaN where x is NaN."""
    return s.select(s.is_nan(x), x, result)


def power_of_two(s: Steps[V], n: V) -> V:
    """2^n in f64, for 64-bit integers n in -1022..1023."""
    return s.of_bits(s.up(s.added(n, 1023), 52))


def within(s: Steps[V], x: V, low: float, high: float) -> V:
    """x clamped to low..high; NaN becomes `low`."""
    raised = s.select(s.is_greater(x, low), x, s.number(x, low))
    return s.select(s.is_less(raised, high), raised, s.number(x, high))


def _reduced(s: Steps[V], x: V) -> tuple[V, V]:
    """(n, r) with x = n ln 2 + r, |r| <= ln 2 / 2; n as i64."""
    n = s.nearest(s.times(x, 1 / math.log(2)))
    r = plus_product(s, n, -_LN2_HIGH, x)
    r = plus_product(s, n, -_LN2_LOW, r)
    return s.to_integers(n), r


def _expm1_of_rest(s: Steps[V], r: V) -> V:
    """e^r - 1 with full relative precision: r (1 + r/2 + r^2/6 + ...)."""
    return s.times(r, polynomial(s, r, [1 / math.factorial(n + 1) for n in range(13)]))


@in_one_step("exponential")
def exponential(s: Steps[V], x: V) -> V:
    """e^x."""
    return _exponential_of_sum(s, x, None)


def _exponential_of_sum(s: Steps[V], x: V, low: V | None) -> V:
    """e^(x + low), with |low| far below |x|."""
    # Outside, the result is 0 or infinite, and 2^n would not be representable.
    n, r = _reduced(s, within(s, x, -746.0, 710.0))
    r = r if low is None else s.plus(r, low)
    # 2^n in two factors, so that neither over- nor underflows unless the product does.
    half = s.halved(n, 1)
    rest = s.subtracted(n, half)
    scaled = s.times(s.plus(_expm1_of_rest(s, r), 1.0), power_of_two(s, half))
    return keeping_nan(s, x, s.times(scaled, power_of_two(s, rest)))


@in_one_step("exponential_minus_one")
def exponential_minus_one(s: Steps[V], x: V) -> V:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1)."""
    # e^-60 - 1 rounds to -1 in f64; e^710 is infinite.
    n, r = _reduced(s, within(s, x, -60.0, 710.0))
    half = s.halved(n, 1)
    first, second = power_of_two(s, half), power_of_two(s, s.subtracted(n, half))
    inverse = power_of_two(s, s.subtracted(s.integer(n, 0), half))
    # All terms are divided by 2^half, so that no intermediate result overflows.
    sum_ = plus_product(s, _expm1_of_rest(s, r), second, s.minus(second, inverse))
    result = s.times(sum_, first)
    # -0 is kept. Below -60, the result is -1.
    return keeping_nan(s, x, where(s, s.is_equal(x, 0.0), x, result))


def _exponent_and_significand(s: Steps[V], x: V) -> tuple[V, V]:
    """(e, m) with x = 2^e m and m in sqrt(1/2)..sqrt(2), for finite x > 0."""
    subnormal = s.is_less(x, 2.0**-1022)
    scaled = s.select(subnormal, s.times(x, 2.0**54), x)
    bits = s.bits(scaled)
    # The exponent for a significand in sqrt(1/2)..sqrt(2): a significand above sqrt(2) carries into the exponent.
    above = s.added(bits, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    exponent = s.added(s.halved(above, 52), -1023)
    m = s.of_bits(s.subtracted(bits, s.up(exponent, 52)))
    e = s.of_short(exponent)
    return s.select(subnormal, s.minus(e, 54.0), e), m


@in_one_step("log")
def _logarithm(s: Steps[V], x: V) -> V:
    """ln x for finite x > 0."""
    e, m = _exponent_and_significand(s, x)
    d = s.minus(m, 1.0)
    q = s.over(d, s.plus(m, 1.0))
    z = s.times(q, q)
    # log m = 2 artanh q = 2 q + q z R(z), and 2 q = d - q d: the leading d is exact.
    r = s.times(z, polynomial(s, z, [2 / (2 * n + 3) for n in range(11)]))
    tail = s.times(q, s.minus(r, d))
    low = plus_product(s, e, _LN2_LOW, tail)
    return plus_product(s, e, _LN2_HIGH, s.plus(d, low))


@in_one_step("log")
def log(s: Steps[V], x: V) -> V:
    """ln x; NaN below 0."""
    result = _logarithm(s, x)
    result = where(s, s.is_equal(x, math.inf), x, result)
    result = where(s, s.is_equal(x, 0.0), -math.inf, result)
    return keeping_nan(s, x, where(s, s.is_less(x, 0.0), math.nan, result))


@in_one_step("log_plus_one")
def log_plus_one(s: Steps[V], x: V) -> V:
    """ln (1 + x): the logarithm of the rounded sum, corrected by a factor for its rounding."""
    total = s.plus(x, 1.0)
    # The part of x that 1 + x keeps; log(1 + x) x / rest corrects for the part that is lost.
    rest = s.minus(total, 1.0)
    same = s.is_equal(rest, 0.0)
    scaled = s.over(s.times(log(s, total), x), s.select(same, s.number(x, 1.0), rest))
    scaled = where(s, s.is_equal(x, math.inf), x, scaled)
    return s.select(same, x, where(s, s.is_equal(x, -1.0), -math.inf, scaled))


def logistic(s: Steps[V], x: V) -> V:
    """1 / (1 + e^-x), as e / (1 + e) with e = e^-|x|, or 1 / (1 + e) if x >= 0."""
    # e^-|x| cannot overflow, for either sign.
    e = exponential(s, s.negated(s.magnitude(x)))
    return s.over(where(s, s.is_less(x, 0.0), e, s.number(x, 1.0)), s.plus(e, 1.0))


def tanh(s: Steps[V], x: V) -> V:
    """-(e^-2|x| - 1) / (e^-2|x| + 1) with the sign of x."""
    # Near 0, 1 - e^-2x would cancel; e^x - 1 has all bits.
    e = exponential_minus_one(s, s.times(s.magnitude(x), -2.0))
    return s.signed(s.over(s.negated(e), s.plus(e, 2.0)), x)


def erf(s: Steps[V], x: V) -> V:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _erf(s, x, _ERF_BELOW, _ERF_ABOVE, 6.0, exponential)


def _erf(
    s: Steps[V],
    x: V,
    small: Sequence[float],
    great: Sequence[float],
    end: float,
    exp: Callable[[Steps[V], V], V],
) -> V:
    """One polynomial below 1 and one above. The result is 1 from `end` on."""
    magnitude = s.magnitude(x)
    square = s.times(x, x)
    below = s.times(magnitude, polynomial(s, plus_product(s, square, 2.0, s.number(x, -1.0)), small))
    # Both branches are computed, so the argument of each is clamped to the branch's range.
    large = within(s, magnitude, 1.0, end)
    t = s.over(s.number(x, 2.0), s.plus(large, 2.0))
    u = s.times(s.minus(t, 11 / 24), 24 / 5)
    power = exp(s, s.minus(polynomial(s, u, great), s.times(large, large)))
    above = s.minus(s.number(x, 1.0), s.times(t, power))
    result = where(s, s.is_less(magnitude, 1.0), below, above)
    return keeping_nan(s, x, s.signed(result, x))


def erfc(s: Steps[V], x: V) -> V:
    """1 - erf(x), without cancellation for large x: t exp(-x^2 + P(t)) with t = 2 / (2 + |x|)."""
    bounded = within(s, s.magnitude(x), 0.0, 40.0)
    t = s.over(s.number(x, 2.0), s.plus(bounded, 2.0))
    u = s.minus(s.times(t, 2.0), 1.0)
    twice, last, before = s.times(u, 2.0), s.number(x, _ERFC[-1]), s.number(x, 0.0)
    for coefficient in _ERFC[-2:0:-1]:  # Clenshaw's recurrence
        last, before = s.plus(s.minus(s.times(twice, last), before), coefficient), last
    series = s.plus(s.minus(s.times(u, last), before), _ERFC[0])
    # The exponential would amplify the rounding error of x^2.
    square, rest = _product_of(s, bounded, bounded)
    upper = s.times(t, s.times(exponential(s, s.negated(square)), exponential(s, s.minus(series, rest))))
    upper = where(s, s.is_equal(x, 0.0), 1.0, upper)
    below = s.minus(s.number(x, 2.0), upper)
    return keeping_nan(s, x, s.select(s.is_less(x, 0.0), below, upper))


def rsqrt(s: Steps[V], x: V) -> V:
    """1 / sqrt(x)."""
    return s.over(s.number(x, 1.0), s.root(x))


def cbrt(s: Steps[V], x: V) -> V:
    """The cube root: exp(ln|x| / 3) and one Newton step, with the sign of x."""
    magnitude = s.magnitude(x)
    first = exponential(s, s.times(_logarithm(s, magnitude), 1 / 3))
    # One step of Newton's method: the exponential of a third of the logarithm has a few wrong bits.
    correction = s.minus(first, s.over(magnitude, s.times(first, first)))
    refined = s.minus(first, s.times(correction, 1 / 3))
    special = s.either(s.is_equal(magnitude, 0.0), s.is_equal(magnitude, math.inf))
    return keeping_nan(s, x, s.select(special, x, s.signed(refined, x)))


def _sum_of(s: Steps[V], a: V, b: V) -> tuple[V, V]:
    """a + b and its rounding error, for |a| >= |b| or a = 0 (Dekker 1971)."""
    total = s.plus(a, b)
    # Dekker's sum: exact for |a| >= |b|.
    return total, s.minus(b, s.minus(total, a))


def _product_of(s: Steps[V], a: V, b: V) -> tuple[V, V]:
    """a b and its rounding error, for factors below 2^970 with a product above 2^-960 (Veltkamp, Dekker 1971)."""
    product = s.times(a, b)
    (high, low), (other_high, other_low) = _halves(s, a), _halves(s, b)
    rest = s.minus(s.times(high, other_high), product)
    rest = plus_product(s, high, other_low, rest)
    rest = plus_product(s, low, other_high, rest)
    return product, plus_product(s, low, other_low, rest)


def _halves(s: Steps[V], x: V) -> tuple[V, V]:
    """x split into the upper 26 bits of its significand and the rest."""
    # Veltkamp's splitting into halves of 26 bits, whose products are exact.
    far = s.times(x, 2.0**27 + 1)
    high = s.minus(far, s.minus(far, x))
    return high, s.minus(x, high)


def _logarithm_in_two(s: Steps[V], x: V) -> tuple[V, V]:
    """ln x for finite x > 0 as an unevaluated sum of two numbers, with an error of at most 2^-66.

    ln m = 2 artanh q = 2 q + 2/3 q^3 + q^5 (2/5 + ...), q = (m - 1) / (m + 1), |q| < 0.172. The first two terms are
    also computed as sums of two numbers.
    """
    e, m = _exponent_and_significand(s, x)
    above, below = s.minus(m, 1.0), s.plus(m, 1.0)
    lost = s.minus(m, s.minus(below, 1.0))
    q = s.over(above, below)
    product, rest = _product_of(s, q, below)
    q_low = s.over(s.minus(s.minus(s.minus(above, product), rest), s.times(q, lost)), below)
    z, z_low = _product_of(s, q, q)
    z_low = plus_product(s, s.times(q, 2.0), q_low, z_low)
    cube, cube_low = _product_of(s, z, q)
    cube_low = s.plus(plus_product(s, z_low, q, cube_low), s.times(z, q_low))
    third = s.number(x, 2 / 3)
    term, term_low = _product_of(s, cube, third)
    term_low = plus_product(s, cube_low, third, plus_product(s, cube, 2.0**-54 / 1.5, term_low))
    series = s.times(s.times(cube, z), polynomial(s, z, [2 / (2 * n + 5) for n in range(10)]))
    high, low = _sum_of(s, s.times(q, 2.0), term)
    low = s.plus(s.plus(low, s.times(q_low, 2.0)), s.plus(term_low, series))
    total, rest = _sum_of(s, s.times(e, _LN2_HIGH), high)
    return _sum_of(s, total, s.plus(s.plus(rest, low), s.times(e, _LN2_LOW)))


def power(s: Steps[V], x: V, y: V) -> V:
    """x^y as C's pow: exp(y ln|x|), negative if x < 0 and y is odd, NaN if x < 0 and y is not an integer.

    The product y ln|x| has at least 64 bits, so its error does not affect the result.
    """
    magnitude = s.magnitude(x)
    high, low = _logarithm_in_two(s, magnitude)
    # Beyond these bounds, the result is 0, 1 or infinite for any y. The clamp keeps the products finite.
    near = s.signed(within(s, s.magnitude(y), 2.0**-400, 2.0**70), y)
    product, rest = _product_of(s, near, high)
    rest = plus_product(s, near, low, rest)
    in_range = s.is_less(s.magnitude(product), 1024.0)
    result = _exponential_of_sum(s, product, where(s, s.inverse(in_range), 0.0, rest))
    special = s.either(s.is_equal(magnitude, 0.0), s.is_equal(magnitude, math.inf))
    result = s.select(special, exponential(s, s.times(y, log(s, magnitude))), result)
    result = keeping_nan(s, x, keeping_nan(s, y, result))
    whole = s.is_equal(s.towards_zero(y), y)
    half = s.times(y, 0.5)
    odd = s.both(whole, s.inverse(s.is_equal(s.towards_zero(half), half)))
    sign = s.signed(s.number(x, 1.0), x)
    result = s.select(odd, s.times(result, sign), result)
    undefined = s.both(s.is_less(x, 0.0), s.inverse(whole))
    finite = s.is_less(magnitude, math.inf)
    result = s.select(s.both(undefined, finite), s.number(x, math.nan), result)
    # (-1)^(+-inf), 1^anything and anything^0 are 1.
    unit = s.is_equal(magnitude, 1.0)
    endless = s.is_equal(s.magnitude(y), math.inf)
    result = s.select(s.both(unit, endless), s.number(x, 1.0), result)
    result = where(s, s.is_equal(x, 1.0), 1.0, result)
    return where(s, s.is_equal(y, 0.0), 1.0, result)


@in_one_step("exponential")
def exponential_f32(s: Steps[V], x: V) -> V:
    """e^x in f32: a polynomial on |r| <= ln 2 / 2, within an ulp of the correctly rounded value.

    n = x / ln 2 is rounded by adding a number so large that the sum has no fraction bits, which leaves n in its last
    bits. 2^n is the product of two powers. For n <= -150, the first power is 0. This avoids subnormal results, which
    are slow on many CPUs and frequent in attention masks.
    """
    # NaN compares false with both bounds and propagates through the following steps.
    bounded = s.select(s.is_greater(x, 89.0), s.number(x, 89.0), x)
    bounded = s.select(s.is_less(bounded, -104.0), s.number(x, -104.0), bounded)
    rounder = 3 * 2.0**22 + 151
    shifted = s.plus(s.times(bounded, 1 / math.log(2)), rounder)
    n = s.minus(shifted, rounder)
    r = plus_product(s, n, -_LN2_HIGH_F32, bounded)
    r = plus_product(s, n, -_LN2_LOW_F32, r)
    total = polynomial(s, r, _EXP_F32)
    # Biased exponents as stored in f32 (bias 127): h = floor((n + 151) / 2) and n - h + 2 * 127.
    exponent = s.bits(shifted)
    half = s.down(exponent, 1)
    for part in (half, s.added(s.subtracted(exponent, half), 2 * 127 - 151)):
        total = s.times(total, s.of_bits(s.up(part, 23)))
    return total


def logistic_f32(s: Steps[V], x: V) -> V:
    """Like `logistic`, in f32."""
    e = exponential_f32(s, s.negated(s.magnitude(x)))
    return s.over(where(s, s.is_less(x, 0.0), e, s.number(x, 1.0)), s.plus(e, 1.0))


def erf_f32(s: Steps[V], x: V) -> V:
    """Like `erf`, with as many terms as f32 precision needs. The result is 1 from 4 on."""
    return _erf(s, x, _ERF_BELOW[:9], _ERF_ABOVE[:12], 4.0, exponential_f32)
