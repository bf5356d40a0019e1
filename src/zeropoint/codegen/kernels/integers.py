"""Division, powers, shifts and bit counts on vectors of integers, and the exact remainder of floats.

Where StableHLO leaves a result open, kernels give the interpreter's: division by 0 and the remainder by 0 are 0, and
the smallest number divided by -1 is itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from zeropoint.codegen.kernels.functions import power_of_two
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import WIDTHS, Value, constant, element, i64, lanes, like, suffix, vector

IntegerFunction = Callable[[Function, Value, Value, bool], Value]
"""(f, left, right, whether the operands are signed) -> result."""


def _zeros(x: Value) -> Value:
    return Value(x.type, "zeroinitializer")


def _width(x: Value) -> int:
    return WIDTHS[element(x.type)]


def _guarded(f: Function, x: Value, y: Value, signed: bool) -> tuple[Value, Value, Value]:
    """Whether y is 0, whether it is -1, and y with both replaced by 1."""
    zero = f.compare("eq", y, 0)
    minus = f.compare("eq", y, -1) if signed else _zeros(zero)
    return zero, minus, f.select(f.binary("or", zero, minus), constant(y.type, 1), y)


def divide(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x / y, rounded towards zero."""
    zero, minus, divisor = _guarded(f, x, y, signed)
    quotient = f.binary("sdiv" if signed else "udiv", x, divisor)
    quotient = f.select(minus, f.binary("sub", _zeros(x), x), quotient)
    return f.select(zero, _zeros(x), quotient)


def remainder(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x - y * (x / y). The result has the sign of x."""
    zero, minus, divisor = _guarded(f, x, y, signed)
    rest = f.binary("srem" if signed else "urem", x, divisor)
    return f.select(f.binary("or", zero, minus), _zeros(x), rest)


def multiply_high(f: Function, x: Value, y: Value) -> Value:
    """The upper halves of the products of signed i32, of even and odd elements separately (`high_products.py`)."""
    count = lanes(x.type)
    if count % 2:
        product = f.binary("mul", *(f.cast("sext", value, like(value, "i64")) for value in (x, y)))
        return f.cast("trunc", f.binary("ashr", product, 32), x.type)
    # A shuffle moves the odd elements, because AVX2 has no arithmetic shift of 64-bit elements.
    places = range(count), [n | 1 for n in range(count)]
    pairs = vector(count // 2, "i64")
    moved = ([f.bits(f.shuffle(value, None, each), pairs) for value in (x, y)] for each in places)
    even, odd = (f.binary("mul", *(lower_halves(f, value) for value in factors)) for factors in moved)
    low, high = f.bits(f.binary("lshr", even, 32), x.type), f.bits(odd, x.type)
    return f.shuffle(low, high, [n + n % 2 * count for n in range(count)])


def lower_halves(f: Function, value: Value) -> Value:
    """The low 32 bits of i64 elements, sign-extended."""
    # For sign-extended factors, LLVM uses the multiplication of 32 by 32 bits.
    return f.binary("ashr", f.binary("shl", value, 32), 32)


def power(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x^y, wrapping. For negative y, 1 / x^|y| rounded towards zero: 0 unless x is 1 or -1."""
    one = constant(x.type, 1)
    negative = f.compare("slt", y, 0) if signed else None
    exponent = y if negative is None else f.select(negative, f.binary("and", y, one), y)

    def square(_: Value, carried: list[Value]) -> list[Value]:
        result, base, rest = carried
        odd = f.compare("ne", f.binary("and", rest, one), 0)
        result = f.select(odd, f.binary("mul", result, base), result)
        return [result, f.binary("mul", base, base), f.binary("lshr", rest, one)]

    result = f.loop(0, _width(x), 1, square, [one, x, exponent], entered=True)[0]
    if negative is None:
        return result
    magnitude = UNARY_INTEGERS["abs"](f, x)
    unit = f.compare("eq", magnitude, one)
    return f.select(f.binary("and", negative, f.binary("xor", unit, Value(unit.type, "splat (i1 true)"))), _zeros(x),
                    result)  # fmt: skip


def _shifted(instruction: str) -> IntegerFunction:
    """A logical shift of x by y; 0 if y, as an unsigned integer, is at least the width."""

    def shifted(f: Function, x: Value, y: Value, signed: bool) -> Value:
        inside = f.compare("ult", y, _width(x))
        moved = f.binary(instruction, x, f.select(inside, y, _zeros(y)))
        return f.select(inside, moved, _zeros(x))

    return shifted


def shift_right_arithmetic(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """An arithmetic right shift of x by y."""
    return f.binary("ashr", x, f.intrinsic("umin", y, _width(x) - 1))


BINARY_INTEGERS: dict[str, IntegerFunction] = {
    "divide": divide,
    "power": power,
    "remainder": remainder,
    "shift_left": _shifted("shl"),
    "shift_right_arithmetic": shift_right_arithmetic,
    "shift_right_logical": _shifted("lshr"),
}
"""Binary functions, by StableHLO op name."""


UNARY_INTEGERS: dict[str, Callable[[Function, Value], Value]] = {
    "abs": lambda f, x: f.call(x.type, f"llvm.abs.{suffix(x.type)}", x, Value("i1", "false")),
    "count_leading_zeros": lambda f, x: f.call(x.type, f"llvm.ctlz.{suffix(x.type)}", x, Value("i1", "false")),
    "negate": lambda f, x: f.binary("sub", _zeros(x), x),
    "not": lambda f, x: f.binary("xor", x, -1),
    "popcnt": lambda f, x: f.intrinsic("ctpop", x),
    "sign": lambda f, x: f.clamp(x, -1, 1),
}
"""Unary functions, by StableHLO op name."""

DIGITS = 10
"""The number of quotient bits per step of `float_remainder`. Together with a 53-bit significand, they fit i64."""


def float_remainder(f: Function, x: Value, y: Value) -> Value:
    """x - y trunc(x / y) of f64, exact, with the sign of x, by long division of the significands.

    NaN if x is not finite or y is 0; x if y is infinite.
    """
    integers = like(x, "i64")
    (a, high), (b, low) = _significand(f, x), _significand(f, y)
    b = f.intrinsic("smax", b, 1)  # avoids a division by 0; NaN replaces that result below
    count = f.binary("sub", high, low)
    below = f.compare("slt", count, 0)
    count = f.select(below, constant(integers, 0), count)
    most = f.call("i64", f"llvm.vector.reduce.smax.{suffix(integers)}", count)
    first = f.binary("urem", a, b)

    def digits(done: Value, carried: list[Value]) -> list[Value]:
        (rest, left) = carried
        now = f.intrinsic("smin", left, DIGITS)
        rest = f.binary("urem", f.binary("shl", rest, now), b)
        return [rest, f.binary("sub", left, now)]

    rest, _ = f.loop(i64(0), most, DIGITS, digits, [first, count])
    # rest * 2^(low - 1075), by two factors that are normal numbers, so that both products are exact.
    n = f.add(low, -1075)
    half = f.binary("ashr", n, 1)
    factors = power_of_two(f, half), power_of_two(f, f.binary("sub", n, half))
    result = f.binary("fmul", f.binary("fmul", f.cast("sitofp", rest, x.type), factors[0]), factors[1])
    result = f.select(below, f.intrinsic("fabs", x), result)
    result = f.intrinsic("copysign", result, x)
    magnitudes = [f.intrinsic("fabs", value) for value in (x, y)]
    endless = f.compare("oeq", magnitudes[1], math.inf)
    result = f.select(endless, x, result)
    known = f.binary(
        "and",
        f.compare("olt", magnitudes[0], math.inf),
        f.compare("one", y, 0.0),
    )
    return f.select(known, result, constant(x.type, math.nan))


def _significand(f: Function, x: Value) -> tuple[Value, Value]:
    """(m, e) with |x| = m 2^(e - 1075) and e >= 1. Undefined for infinities and NaN."""
    bits = f.bits(f.intrinsic("fabs", x), like(x, "i64"))
    exponent = f.binary("lshr", bits, 52)
    normal = f.compare("ne", exponent, 0)
    fraction = f.binary("and", bits, (1 << 52) - 1)
    m = f.binary("or", fraction, f.select(normal, constant(bits.type, 1 << 52), constant(bits.type, 0)))
    return m, f.intrinsic("smax", exponent, 1)
