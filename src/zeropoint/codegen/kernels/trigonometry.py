"""sine, cosine, tangent, their inverses and hyperbolic relatives, on vectors of f64; no library is called.

An angle is reduced with as many bits of 2 / pi as its exponent asks for: x = m 2^e, and of 2^e 2 / pi only what is
below 4 matters, of which 192 bits are multiplied with m. What is left is at most pi / 4 and has all its relative
precision, for the greatest f64 too. Source: Payne and Hanek, "Radian reduction for trigonometric functions".
"""

from __future__ import annotations

import math

from zeropoint.codegen.kernels.functions import (
    Unary,
    exponential,
    exponential_minus_one,
    keeping_nan,
    log,
    log_plus_one,
    minus,
    negated,
    over,
    plus,
    polynomial,
    times,
    where,
)
from zeropoint.codegen.kernels.scalars import compared, filled, fused, intrinsic, like
from zeropoint.codegen.llvm.text import Function, Value, lanes, vector

WORDS = 21
"""Words of 2 / pi behind the one of zeros that small exponents read."""


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
    """A zero, then the bits of 2 / pi behind its binary point, as signed 64-bit numbers."""
    bits = _two_over_pi(64 * WORDS)
    words = [bits >> 64 * (WORDS - 1 - n) & (1 << 64) - 1 for n in range(WORDS)]
    return [0] + [word - (word >> 63 << 64) for word in words]


def _upper_product(f: Function, a: Value, b: Value) -> Value:
    """The upper half of an unsigned product of i64."""
    wide = vector(lanes(a.type), "i128")
    product = f.binary("mul", f.cast("zext", a, wide), f.cast("zext", b, wide))
    return f.cast("trunc", f.binary("lshr", product, filled(wide, 64)), a.type)


def _chosen_bits(f: Function, start: Value) -> list[Value]:
    """Three words of 2 / pi from bit `start` of the table on, the upper first."""
    table = f.module.table(_words())
    index, shift = f.binary("lshr", start, filled(start.type, 6)), f.binary("and", start, filled(start.type, 63))
    words: list[Value] = []
    for n in range(4):
        offset = f.binary("shl", f.add(index, n), filled(start.type, 3))
        words.append(f.gather(start.type, table, offset, 8))
    return [intrinsic(f, "fshl", words[n], words[n + 1], shift) for n in range(3)]


def _reduced(f: Function, x: Value) -> tuple[Value, Value]:
    """(n, r) with |x| = n pi / 2 + r modulo 2 pi, |r| <= pi / 4; n as i64. Of infinities and NaN anything."""
    magnitude = intrinsic(f, "fabs", x)
    small = compared(f, "fcmp ole", magnitude, filled(x.type, math.pi / 4))
    bits = f.bits(magnitude, like(x, "i64"))
    exponent = intrinsic(f, "smin", f.binary("lshr", bits, filled(bits.type, 52)), filled(bits.type, 2046))
    # From 2^-1 on; what is smaller is chosen below.
    exponent = intrinsic(f, "smax", exponent, filled(bits.type, 1022))
    m = f.binary("or", f.binary("and", bits, filled(bits.type, (1 << 52) - 1)), filled(bits.type, 1 << 52))
    # Bit j of 2 / pi (0 is the one of 1/2) weighs 2^(e - j - 1): from e - 2 on it is below 4.
    high, middle, low = _chosen_bits(f, f.add(exponent, 64 - 1075 - 2))
    second = f.binary("mul", m, middle)
    below = f.binary("add", second, _upper_product(f, m, low))
    carry = f.cast("zext", compared(f, "icmp ult", below, second), bits.type)
    above = f.binary("add", f.binary("mul", m, high), f.binary("add", _upper_product(f, m, middle), carry))
    quadrant = f.binary("lshr", f.add(above, 1 << 61), filled(bits.type, 62))
    rest = f.binary("sub", above, f.binary("shl", quadrant, filled(bits.type, 62)))
    # rest 2^-62 + below 2^-126 in three parts, each of fewer bits than a double has.
    parts = [
        (f.binary("ashr", rest, filled(bits.type, 11)), 11 - 62),
        (f.binary("and", rest, filled(bits.type, (1 << 11) - 1)), -62),
        (f.binary("lshr", below, filled(bits.type, 12)), 12 - 126),
    ]
    first, *others = (times(f, f.cast("sitofp", part, x.type), 2.0**power) for part, power in parts)
    for part in others:
        first = plus(f, first, part)
    r = f.select(small, magnitude, times(f, first, math.pi / 2))
    return f.select(small, filled(bits.type, 0), quadrant), r


def _sine_of_rest(f: Function, r: Value) -> Value:
    """sin r on |r| <= pi / 4: its Taylor series."""
    z = times(f, r, r)
    series = polynomial(f, z, [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, 9)])
    return fused(f, times(f, r, z), series, r)


def _cosine_of_rest(f: Function, r: Value) -> Value:
    """cos r on |r| <= pi / 4: what 1 - r^2 / 2 loses by its rounding is added to the rest of the series."""
    z = times(f, r, r)
    half = times(f, z, 0.5)
    first = f.binary("fsub", filled(r.type, 1.0), half)
    lost = minus(f, f.binary("fsub", filled(r.type, 1.0), first), half)
    series = polynomial(f, z, [(-1) ** n / math.factorial(2 * n) for n in range(2, 9)])
    return plus(f, first, fused(f, times(f, z, z), series, lost))


def _has_bit(f: Function, n: Value, bit: int) -> Value:
    return f.compare("ne", f.binary("and", n, filled(n.type, bit)), 0)


def _of_finite(f: Function, x: Value, result: Value) -> Value:
    """NaN for infinities and NaN."""
    finite = compared(f, "fcmp olt", intrinsic(f, "fabs", x), filled(x.type, math.inf))
    return f.select(finite, result, filled(x.type, math.nan))


def sine(f: Function, x: Value) -> Value:
    """sin x."""
    n, r = _reduced(f, x)
    result = f.select(_has_bit(f, n, 1), _cosine_of_rest(f, r), _sine_of_rest(f, r))
    result = f.select(_has_bit(f, n, 2), negated(f, result), result)
    negative = compared(f, "icmp slt", f.bits(x, n.type), filled(n.type, 0))
    return _of_finite(f, x, f.select(negative, negated(f, result), result))


def cosine(f: Function, x: Value) -> Value:
    """cos x."""
    n, r = _reduced(f, x)
    result = f.select(_has_bit(f, n, 1), _sine_of_rest(f, r), _cosine_of_rest(f, r))
    return _of_finite(f, x, f.select(_has_bit(f, f.add(n, 1), 2), negated(f, result), result))


def tan(f: Function, x: Value) -> Value:
    """tan x."""
    n, r = _reduced(f, x)
    s, c = _sine_of_rest(f, r), _cosine_of_rest(f, r)
    odd = _has_bit(f, n, 1)
    result = over(f, f.select(odd, negated(f, c), s), f.select(odd, s, c))
    negative = compared(f, "icmp slt", f.bits(x, n.type), filled(n.type, 0))
    return _of_finite(f, x, f.select(negative, negated(f, result), result))


def _arctangent_of_ratio(f: Function, small: Value, large: Value) -> Value:
    """atan(small / large) of 0 <= small <= large; above tan(pi / 8) as pi / 4 + atan((s - l) / (s + l))."""
    ratio = over(f, small, large)
    above = compared(f, "fcmp ogt", ratio, filled(ratio.type, math.sqrt(2) - 1))
    turned = over(f, minus(f, ratio, 1.0), plus(f, ratio, 1.0))
    q = f.select(above, turned, ratio)
    z = times(f, q, q)
    series = polynomial(f, z, [(-1) ** n / (2 * n + 1) for n in range(1, 21)])
    angle = fused(f, times(f, q, z), series, q)
    return f.select(above, plus(f, angle, math.pi / 4), angle)


def atan2(f: Function, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), as C's atan2 has it: signs of zeros count, two infinities are a diagonal."""
    rise, run = intrinsic(f, "fabs", y), intrinsic(f, "fabs", x)
    steep = compared(f, "fcmp ogt", rise, run)
    small, large = f.select(steep, run, rise), f.select(steep, rise, run)
    same = compared(f, "fcmp oeq", small, large)
    # 0 / 0 and inf / inf.
    none = compared(f, "fcmp oeq", large, filled(x.type, 0.0))
    one = filled(x.type, 1.0)
    small = f.select(same, f.select(none, filled(x.type, 0.0), one), small)
    large = f.select(same, one, large)
    angle = _arctangent_of_ratio(f, small, large)
    # pi / 2 in two numbers: the second one is far below an ulp of the first.
    across = minus(f, f.binary("fsub", filled(x.type, math.pi / 2), angle), -6.123233995736766e-17)
    angle = f.select(steep, across, angle)
    backwards = compared(f, "icmp slt", f.bits(x, like(x, "i64")), filled(like(x, "i64"), 0))
    behind = minus(f, f.binary("fsub", filled(x.type, math.pi), angle), -1.2246467991473532e-16)
    result = intrinsic(f, "copysign", f.select(backwards, behind, angle), y)
    return keeping_nan(f, x, keeping_nan(f, y, result))


def atan(f: Function, x: Value) -> Value:
    """The arc tangent."""
    return atan2(f, x, filled(x.type, 1.0))


def _complement(f: Function, x: Value) -> Value:
    """sqrt(1 - x^2), NaN beyond 1."""
    product = times(f, f.binary("fsub", filled(x.type, 1.0), x), plus(f, x, 1.0))
    return intrinsic(f, "sqrt", product)


def asin(f: Function, x: Value) -> Value:
    """The arc sine, NaN beyond 1."""
    return atan2(f, x, _complement(f, x))


def acos(f: Function, x: Value) -> Value:
    """The arc cosine, NaN beyond 1: 2 atan(sqrt((1 - x) / (1 + x)))."""
    rise, run = f.binary("fsub", filled(x.type, 1.0), x), plus(f, x, 1.0)
    return times(f, atan2(f, intrinsic(f, "sqrt", rise), intrinsic(f, "sqrt", run)), 2.0)


def sinh(f: Function, x: Value) -> Value:
    """(e + e / (e + 1)) / 2 with e = e^|x| - 1, with the sign of x; in two factors where e^|x| is no f64."""
    magnitude = intrinsic(f, "fabs", x)
    e = exponential_minus_one(f, magnitude)
    result = times(f, plus(f, e, over(f, e, plus(f, e, 1.0))), 0.5)
    root = exponential(f, times(f, magnitude, 0.5))
    result = where(f, "ogt", magnitude, 700.0, times(f, times(f, root, 0.5), root), result)
    return intrinsic(f, "copysign", result, x)


def cosh(f: Function, x: Value) -> Value:
    """(e + 1 / e) / 2 with e = e^|x|; in two factors where that is no f64."""
    magnitude = intrinsic(f, "fabs", x)
    e = exponential(f, magnitude)
    result = times(f, plus(f, e, over(f, filled(x.type, 1.0), e)), 0.5)
    root = exponential(f, times(f, magnitude, 0.5))
    return where(f, "ogt", magnitude, 700.0, times(f, times(f, root, 0.5), root), result)


def asinh(f: Function, x: Value) -> Value:
    """log(1 + x + x^2 / (1 + sqrt(1 + x^2))) of |x|, with the sign of x; log 2 x of great ones."""
    magnitude = intrinsic(f, "fabs", x)
    square = times(f, magnitude, magnitude)
    root = intrinsic(f, "sqrt", plus(f, square, 1.0))
    result = log_plus_one(f, plus(f, magnitude, over(f, square, plus(f, root, 1.0))))
    great = plus(f, log(f, magnitude), math.log(2))
    result = where(f, "ogt", magnitude, 2.0**28, great, result)
    return keeping_nan(f, x, intrinsic(f, "copysign", result, x))


def acosh(f: Function, x: Value) -> Value:
    """log(1 + t + sqrt(2 t + t^2)), t = x - 1, NaN below 1; log 2 x of great ones."""
    t = minus(f, x, 1.0)
    root = intrinsic(f, "sqrt", fused(f, t, t, times(f, t, 2.0)))
    result = log_plus_one(f, plus(f, t, root))
    result = where(f, "ogt", x, 2.0**28, plus(f, log(f, x), math.log(2)), result)
    return where(f, "olt", x, 1.0, math.nan, result)


def atanh(f: Function, x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2, NaN beyond 1."""
    magnitude = intrinsic(f, "fabs", x)
    ratio = over(f, times(f, magnitude, 2.0), f.binary("fsub", filled(x.type, 1.0), magnitude))
    return intrinsic(f, "copysign", times(f, log_plus_one(f, ratio), 0.5), x)


TRIGONOMETRY: dict[str, Unary] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cosh": cosh,
    "cosine": cosine,
    "sine": sine,
    "sinh": sinh,
    "tan": tan,
}
"""By StableHLO's and chlo's names."""
