"""The rounded quotient of two vectors of integers (`numerics.division`), with one division of f64.

**In f64.** X = 2 A M + B 2^N and Y = 2 B 2^N are integers. If both are below 2^53, as for 8 bits, every step except the
division (of X / 2 by Y / 2) is exact. If X / Y is not an integer, its distance to one is at least 1/Y, and the error of
the f64 quotient is at most 2^-53 X / Y < 1/Y. So rounding does not reach the integer, and the floor is exact.

**In i64,** otherwise. T = X / 2 >> N has at most 49 bits, so f64 represents T and B. The floor of their f64 quotient is
floor(T / B) (proof in `numerics.division`). Integers below 2^51 are converted to f64 by adding them to the bits of
1.5 2^52, because AVX2 has no conversion of 64-bit integers.
"""

from __future__ import annotations

from zeropoint.codegen.kernels.scalars import bounded, converted
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, like
from zeropoint.numerics.division import Division

MAGIC = 1.5 * 2.0**52
MAGIC_BITS = 0x4338000000000000
FAR = 1 << 20
"""A magnitude beyond any storage of 16 bits."""


EXACT = 1 << 53


def rounded_quotient(f: Function, by: Division, a: Value, b: Value, reaches: tuple[int, int]) -> Value:
    """floor(A M / (B 2^N) + 1/2) of i32, clamped to +-2^20. For B = 0, it is the bound with the sign of A.

    `reaches` are bounds of |A| and |B|.
    """
    zero, below = constant(b.type, 0), f.compare("slt", b, 0)
    # The divisor is made positive, because floor then rounds the quotient down.
    signed = f.select(below, f.binary("sub", zero, a), a)
    positive = f.select(below, f.binary("sub", zero, b), b)
    # If X and Y of the module's docstring are below 2^53, every step except the division is exact in f64.
    narrow = 2 * reaches[0] * by.multiplier + (2 * reaches[1] << by.shift) < EXACT
    quotient = _in_floats(f, by, signed, positive) if narrow else _in_integers(f, by, signed, positive)
    # Clamped before the conversion, which is poison for numbers out of range.
    inside = bounded(f, quotient, -FAR, FAR)
    endless = f.mul(f.clamp(a, -1, 1), FAR)
    return f.select(f.compare("eq", b, 0), endless, f.cast("fptosi", inside, b.type))


def _in_floats(f: Function, by: Division, a: Value, b: Value) -> Value:
    """floor(X / Y)."""
    real = like(a, "double")
    divisor = f.cast("sitofp", f.intrinsic("smax", b, 1), real)
    product = f.binary("fmul", f.cast("sitofp", a, real), by.multiplier)
    dividend = f.binary("fadd", product, f.binary("fmul", divisor, 2.0 ** (by.shift - 1)))
    return f.intrinsic("floor", f.binary("fdiv", dividend, f.binary("fmul", divisor, 2.0**by.shift)))


def _in_integers(f: Function, by: Division, a: Value, b: Value) -> Value:
    """floor(T / B)."""
    wide = converted(f, b, "i64", signed=True)
    half = f.binary("lshr", f.binary("shl", wide, by.shift), 1)
    total = f.binary("add", f.mul(converted(f, a, "i64", signed=True), by.multiplier), half)
    t = f.binary("ashr", total, by.shift)
    real = like(t, "double")
    # This conversion of 64-bit integers is available on every machine, and exact because |t| is below 2^49.
    dividend = f.binary("fsub", f.bits(f.add(t, MAGIC_BITS), real), MAGIC)
    divisor = f.cast("sitofp", f.intrinsic("smax", b, 1), real)
    return f.intrinsic("floor", f.binary("fdiv", dividend, divisor))
