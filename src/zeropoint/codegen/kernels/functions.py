"""exp, log, tanh, erf, ... as arithmetic on vectors of f64: no library is called.

The interpreter evaluates these in f64 and rounds once to the dtype (`zeropoint.numerics.functions`); so does native
code, with errors of some 2^-51 before that rounding: of f32 results all but about one in 2^20 are the same bits, of
f64 results a few last bits differ. e^x, the logistic function and erf of f32, of which
transformers compute many, are computed in f32, within two ulp.

exp and log reduce their argument by powers of two and take a Taylor series (of e^r on |r| <= ln 2 / 2; of artanh). erf
is a polynomial in x^2 below 1, from there 1 - t exp(-x^2 + P(t)), t = 2 / (2 + x): both polynomials are least squares
at 200 Chebyshev nodes, their errors are below 2^-47 of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zeropoint.codegen.kernels.scalars import compared, filled, fused, intrinsic, like
from zeropoint.codegen.llvm.text import Function, Value

Unary = Callable[[Function, Value], Value]

_LN2_HIGH = float.fromhex("0x1.62e42fefa3800p-1")
"""ln 2 with 42 bits: times an exponent it is exact."""
_LN2_LOW = float.fromhex("0x1.ef35793c76730p-45")
_LN2_HIGH_F32 = 355 / 512
"""ln 2 with 9 bits: times an exponent of f32 it is exact."""
_LN2_LOW_F32 = math.log(2) - 355 / 512
_EXP_F32 = (
    1.0, 1.0, 0.4999999341226158, 0.16666520105542568, 0.04166839425900351, 0.008368780622565816, 0.0013814464761396888,
)  # fmt: skip
"""e^r on |r| <= ln 2 / 2, with a relative error below 2^-27: the series but for its last terms, fitted."""
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


def polynomial(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """sum c_n x^n, by Horner's rule."""
    total = filled(x.type, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = fused(f, total, x, filled(x.type, c))
    return total


def minus(f: Function, a: Value, b: Value | float) -> Value:
    """a - b."""
    return f.binary("fsub", a, filled(a.type, b) if not isinstance(b, Value) else b)


def plus(f: Function, a: Value, b: Value | float) -> Value:
    """a + b."""
    return f.binary("fadd", a, filled(a.type, b) if not isinstance(b, Value) else b)


def times(f: Function, a: Value, b: Value | float) -> Value:
    """a b."""
    return f.binary("fmul", a, filled(a.type, b) if not isinstance(b, Value) else b)


def over(f: Function, a: Value, b: Value) -> Value:
    """a / b."""
    return f.binary("fdiv", a, b)


def negated(f: Function, x: Value) -> Value:
    """-x."""
    return f.let(x.type, f"fneg {x}")


def _within(f: Function, x: Value, low: float, high: float) -> Value:
    """Bounded; NaN becomes a bound."""
    raised = intrinsic(f, "maxnum", x, filled(x.type, low))
    return intrinsic(f, "minnum", raised, filled(x.type, high))


def where(f: Function, instruction: str, x: Value, bound: float, yes: Value | float, no: Value) -> Value:
    """`yes` where a comparison (`oeq`, `olt`, ...) of x with a number holds, else `no`."""
    chosen = yes if isinstance(yes, Value) else filled(no.type, yes)
    return f.select(compared(f, f"fcmp {instruction}", x, filled(x.type, bound)), chosen, no)


def keeping_nan(f: Function, x: Value, result: Value) -> Value:
    """The result, NaN where x is."""
    return f.select(compared(f, "fcmp uno", x, x), x, result)


def power_of_two(f: Function, n: Value) -> Value:
    """2^n of integers -1022..1023 (i64), as double."""
    bits = f.binary("shl", f.add(n, 1023), filled(n.type, 52))
    return f.bits(bits, like(n, "double"))


def _reduced(f: Function, x: Value) -> tuple[Value, Value]:
    """(n, r) with x = n ln 2 + r, |r| <= ln 2 / 2; n as i64."""
    n = intrinsic(f, "roundeven", times(f, x, 1 / math.log(2)))
    r = fused(f, n, filled(x.type, -_LN2_HIGH), x)
    r = fused(f, n, filled(x.type, -_LN2_LOW), r)
    return f.cast("sext", f.cast("fptosi", n, like(x, "i32")), like(x, "i64")), r


def _expm1_of_rest(f: Function, r: Value) -> Value:
    """e^r - 1, with all its relative precision: r (1 + r/2 + r^2/6 + ...)."""
    return times(f, r, polynomial(f, r, [1 / math.factorial(n + 1) for n in range(13)]))


def exponential(f: Function, x: Value) -> Value:
    """e^x."""
    n, r = _reduced(f, _within(f, x, -746.0, 710.0))
    # In two factors: neither over- nor underflows where the product does not.
    half = f.binary("ashr", n, filled(n.type, 1))
    rest = f.binary("sub", n, half)
    scaled = times(f, plus(f, _expm1_of_rest(f, r), 1.0), power_of_two(f, half))
    return keeping_nan(f, x, times(f, scaled, power_of_two(f, rest)))


def exponential_minus_one(f: Function, x: Value) -> Value:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1)."""
    n, r = _reduced(f, _within(f, x, -60.0, 710.0))
    half = f.binary("ashr", n, filled(n.type, 1))
    first, second = power_of_two(f, half), power_of_two(f, f.binary("sub", n, half))
    inverse = times(f, power_of_two(f, f.binary("sub", filled(n.type, 0), half)), 1.0)
    # Everything over 2^half, so that nothing overflows on the way.
    sum_ = fused(f, _expm1_of_rest(f, r), second, minus(f, second, inverse))
    result = times(f, sum_, first)
    # -0 stays; beyond -60 it is -1 already.
    return keeping_nan(f, x, where(f, "oeq", x, 0.0, x, result))


def _logarithm(f: Function, x: Value) -> Value:
    """ln x of x > 0, finite."""
    subnormal = compared(f, "fcmp olt", x, filled(x.type, 2.0**-1022))
    scaled = f.select(subnormal, times(f, x, 2.0**54), x)
    bits = f.bits(scaled, like(x, "i64"))
    # The exponent of a significand in sqrt(1/2)..sqrt(2): what is carried into it from above sqrt(2) counts.
    above = f.add(bits, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    exponent = f.add(f.binary("ashr", above, filled(bits.type, 52)), -1023)
    m = f.bits(f.binary("sub", bits, f.binary("shl", exponent, filled(bits.type, 52))), x.type)
    e = f.cast("sitofp", f.cast("trunc", exponent, like(x, "i32")), x.type)
    e = f.select(subnormal, minus(f, e, 54.0), e)
    d = minus(f, m, 1.0)
    s = over(f, d, plus(f, m, 1.0))
    z = times(f, s, s)
    # log m = 2 artanh s = 2 s + s z R(z), and 2 s = d - s d: the leading d is exact.
    r = times(f, z, polynomial(f, z, [2 / (2 * n + 3) for n in range(11)]))
    tail = times(f, s, minus(f, r, d))
    low = fused(f, e, filled(x.type, _LN2_LOW), tail)
    return fused(f, e, filled(x.type, _LN2_HIGH), plus(f, d, low))


def log(f: Function, x: Value) -> Value:
    """ln x; NaN below 0."""
    result = _logarithm(f, x)
    result = where(f, "oeq", x, math.inf, x, result)
    result = where(f, "oeq", x, 0.0, -math.inf, result)
    return keeping_nan(f, x, where(f, "olt", x, 0.0, math.nan, result))


def log_plus_one(f: Function, x: Value) -> Value:
    """ln (1 + x): the logarithm of the rounded sum, times what the rounding changed."""
    total = plus(f, x, 1.0)
    rest = minus(f, total, 1.0)
    same = compared(f, "fcmp oeq", rest, filled(x.type, 0.0))
    scaled = over(f, times(f, log(f, total), x), f.select(same, filled(x.type, 1.0), rest))
    scaled = where(f, "oeq", x, math.inf, x, scaled)
    return f.select(same, x, where(f, "oeq", x, -1.0, -math.inf, scaled))


def logistic(f: Function, x: Value) -> Value:
    """1 / (1 + e^-x), as e / (1 + e) with e = e^-|x|, over 1 where x >= 0."""
    e = exponential(f, negated(f, intrinsic(f, "fabs", x)))
    return over(f, where(f, "olt", x, 0.0, e, filled(x.type, 1.0)), plus(f, e, 1.0))


def tanh(f: Function, x: Value) -> Value:
    """-(e^-2|x| - 1) / (e^-2|x| + 1) with the sign of x."""
    e = exponential_minus_one(f, times(f, intrinsic(f, "fabs", x), -2.0))
    return intrinsic(f, "copysign", over(f, negated(f, e), plus(f, e, 2.0)), x)


def erf(f: Function, x: Value) -> Value:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _erf(f, x, _ERF_BELOW, _ERF_ABOVE, 6.0, exponential)


def _erf(f: Function, x: Value, small: Sequence[float], great: Sequence[float], end: float, exp: Unary) -> Value:
    """By a polynomial each below and above 1; from `end` on the result is 1."""
    magnitude = intrinsic(f, "fabs", x)
    square = times(f, x, x)
    below = times(f, magnitude, polynomial(f, fused(f, square, filled(x.type, 2.0), filled(x.type, -1.0)), small))
    large = _within(f, magnitude, 1.0, end)
    t = over(f, filled(x.type, 2.0), plus(f, large, 2.0))
    u = times(f, minus(f, t, 11 / 24), 24 / 5)
    power = exp(f, f.binary("fsub", polynomial(f, u, great), times(f, large, large)))
    above = f.binary("fsub", filled(x.type, 1.0), times(f, t, power))
    result = where(f, "olt", magnitude, 1.0, below, above)
    return keeping_nan(f, x, intrinsic(f, "copysign", result, x))


def rsqrt(f: Function, x: Value) -> Value:
    """1 / sqrt(x)."""
    return over(f, filled(x.type, 1.0), intrinsic(f, "sqrt", x))


def cbrt(f: Function, x: Value) -> Value:
    """The cube root: exp(ln|x| / 3), one Newton step, with the sign of x."""
    magnitude = intrinsic(f, "fabs", x)
    first = exponential(f, times(f, _logarithm(f, magnitude), 1 / 3))
    correction = minus(f, first, over(f, magnitude, times(f, first, first)))
    refined = minus(f, first, times(f, correction, 1 / 3))
    special = f.binary(
        "or",
        compared(f, "fcmp oeq", magnitude, filled(x.type, 0.0)),
        compared(f, "fcmp ueq", magnitude, filled(x.type, math.inf)),
    )
    return f.select(special, x, intrinsic(f, "copysign", refined, x))


def power(f: Function, x: Value, y: Value) -> Value:
    """x^y as C's pow has it: exp(y ln|x|), negative where x is and y is odd, NaN where x < 0 and y is no integer."""
    magnitude = intrinsic(f, "fabs", x)
    result = exponential(f, times(f, y, log(f, magnitude)))
    whole = compared(f, "fcmp oeq", intrinsic(f, "trunc", y), y)
    half = times(f, y, 0.5)
    odd = f.binary("and", whole, compared(f, "fcmp une", intrinsic(f, "trunc", half), half))
    sign = intrinsic(f, "copysign", filled(x.type, 1.0), x)
    result = f.select(odd, times(f, result, sign), result)
    undefined = f.binary("and", compared(f, "fcmp olt", x, filled(x.type, 0.0)), f.binary("xor", whole, _true(whole)))
    finite = compared(f, "fcmp one", magnitude, filled(x.type, math.inf))
    result = f.select(f.binary("and", undefined, finite), filled(x.type, math.nan), result)
    # (-1)^(+-inf), 1^anything and anything^0 are 1.
    unit = compared(f, "fcmp oeq", magnitude, filled(x.type, 1.0))
    endless = compared(f, "fcmp oeq", intrinsic(f, "fabs", y), filled(x.type, math.inf))
    result = f.select(f.binary("and", unit, endless), filled(x.type, 1.0), result)
    result = where(f, "oeq", x, 1.0, 1.0, result)
    return where(f, "oeq", y, 0.0, 1.0, result)


def _true(mask: Value) -> Value:
    return Value(mask.type, "splat (i1 true)")


def _exponential_f32(f: Function, x: Value) -> Value:
    """e^x in f32: a polynomial on |r| <= ln 2 / 2, within an ulp of the correctly rounded value.

    n = x / ln 2 is rounded by a sum that leaves no room for a fraction, and stands in its last bits then. 2^n is the
    product of two powers; from -150 downwards the first one is 0, and nothing underflows: that takes machines long, and
    attention masks are full of it.
    """
    # NaN is neither below nor above, and goes through all that follows.
    bounded = f.select(compared(f, "fcmp ogt", x, filled(x.type, 89.0)), filled(x.type, 89.0), x)
    bounded = f.select(compared(f, "fcmp olt", bounded, filled(x.type, -104.0)), filled(x.type, -104.0), bounded)
    rounder = 3 * 2.0**22 + 151
    shifted = fused(f, bounded, filled(x.type, 1 / math.log(2)), filled(x.type, rounder))
    n = minus(f, shifted, rounder)
    r = fused(f, n, filled(x.type, -_LN2_HIGH_F32), bounded)
    r = fused(f, n, filled(x.type, -_LN2_LOW_F32), r)
    total = polynomial(f, r, _EXP_F32)
    # Exponents of f32 as it stores them, with 127 more: h = floor((n + 151) / 2) and n - h + 2 * 127.
    exponent = f.bits(shifted, like(x, "i32"))
    half = f.binary("lshr", exponent, filled(exponent.type, 1))
    for part in (half, f.add(f.binary("sub", exponent, half), 2 * 127 - 151)):
        power_of_two = f.bits(f.binary("shl", part, filled(exponent.type, 23)), x.type)
        total = times(f, total, power_of_two)
    return total


def _logistic_f32(f: Function, x: Value) -> Value:
    e = _exponential_f32(f, negated(f, intrinsic(f, "fabs", x)))
    return over(f, where(f, "olt", x, 0.0, e, filled(x.type, 1.0)), plus(f, e, 1.0))


def _erf_f32(f: Function, x: Value) -> Value:
    """As `erf`, with as many terms as f32 tells apart; from 4 on it is 1."""
    return _erf(f, x, _ERF_BELOW[:9], _ERF_ABOVE[:12], 4.0, _exponential_f32)


IN_FLOAT: dict[str, Unary] = {"erf": _erf_f32, "exponential": _exponential_f32, "logistic": _logistic_f32}
"""Functions that f32 has in f32."""

IN_DOUBLE: dict[str, Unary] = {
    "cbrt": cbrt,
    "erf": erf,
    "exponential": exponential,
    "exponential_minus_one": exponential_minus_one,
    "log": log,
    "log_plus_one": log_plus_one,
    "logistic": logistic,
    "rsqrt": rsqrt,
    "tanh": tanh,
}
"""By StableHLO's names."""
