"""f16 and bf16. They have 16 bits in memory. In registers they are f32, rounded to the format after every op.

A sum, difference, product, quotient or root that is rounded to f32 and then to such a format is rounded correctly,
because 24 bits are at least twice the precision of the format plus two. Conversions are arithmetic on the bits, because
on machines without instructions for them, LLVM would call a library.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, element, like

HALF_FORMS: dict[np.dtype[Any], str] = {np.dtype(np.float16): "half", np.dtype(ml_dtypes.bfloat16): "bfloat"}
"""The form (`Access`) of each format, by dtype."""


def _magnitude(f: Function, x: Value) -> Value:
    """The bits of |x|, for f32."""
    return f.bits(f.intrinsic("fabs", x), like(x, "i32"))


def _to_even(f: Function, bits: Value, dropped: int) -> Value:
    """Round to a multiple of 2^dropped, ties to even."""
    last = f.binary("and", f.binary("lshr", bits, dropped), 1)
    # Adding half minus one plus the last kept bit makes a tie carry only if that bit is 1, that is, odd.
    raised = f.add(f.binary("add", bits, last), (1 << dropped - 1) - 1)
    return f.binary("and", raised, -1 << dropped)


def _to_odd(f: Function, x: Value) -> Value:
    """f64 to f32, rounded to odd: truncated, with the last bit set if inexact. A second rounding is then correct."""
    near = f.cast("fptrunc", x, like(x, "float"))
    back = f.cast("fpext", near, x.type)
    beyond = f.compare("ogt", f.intrinsic("fabs", back), f.intrinsic("fabs", x))
    bits = f.bits(near, like(x, "i32"))
    below = f.binary("add", bits, f.cast("sext", beyond, bits.type))
    # Rounding to odd keeps a sticky bit, so that the second rounding gives the result of a single rounding.
    odd = f.cast("zext", f.compare("one", back, x), bits.type)
    return f.bits(f.binary("or", below, odd), near.type)


def narrowed(f: Function, x: Value, form: str) -> Value:
    """The nearest value of a format, as f32. Ties round to even, NaN stays NaN."""
    if element(x.type) == "double":
        x = _to_odd(f, x)
    bits = _magnitude(f, x)
    if form == "bfloat":
        rounded = f.bits(_to_even(f, bits, 16), x.type)
    else:
        rounded = f.bits(_to_even(f, bits, 13), x.type)
        # Above the largest f16, the result is infinity.
        beyond = f.compare("ogt", rounded, 65504.0)
        rounded = f.select(beyond, constant(x.type, float("inf")), rounded)
        # Below 2^-14, numbers are multiples of 2^-24, which is the last bit of an f32 near 1/2.
        half, magnitude = constant(x.type, 0.5), f.bits(bits, x.type)
        small = f.binary("fsub", f.binary("fadd", magnitude, half), half)
        rounded = f.select(f.compare("olt", magnitude, 2.0**-14), small, rounded)
    signed = f.intrinsic("copysign", rounded, x)
    # Adding to the bits of a NaN could turn it into an infinity.
    return f.select(f.compare("uno", x, x), x, signed)


def widened(f: Function, stored: Value, form: str) -> Value:
    """Convert the 16 bits of a format to f32."""
    bits = f.cast("zext", stored, like(stored, "i32"))
    if form == "bfloat":
        return f.bits(f.binary("shl", bits, 16), like(stored, "float"))
    sign = f.binary("shl", f.binary("and", bits, 0x8000), 16)
    magnitude = f.binary("and", bits, 0x7FFF)
    moved = f.binary("shl", magnitude, 13)
    normal = f.add(moved, (127 - 15) << 23)
    small = f.cast("sitofp", magnitude, like(stored, "float"))
    # Subnormal f16 are multiples of 2^-24, and normal in f32.
    small = f.bits(f.binary("fmul", small, 2.0**-24), bits.type)
    result = f.select(f.compare("slt", magnitude, 0x400), small, normal)
    special = f.binary("or", moved, 0x7F800000)
    result = f.select(f.compare("sge", magnitude, 0x7C00), special, result)
    return f.bits(f.binary("or", result, sign), like(stored, "float"))


def stored(f: Function, x: Value, form: str) -> Value:
    """Convert f32 values that a format can represent to its 16 bits."""
    bits = f.bits(x, like(x, "i32"))
    nan = f.compare("uno", x, x)
    sign = f.binary("and", f.binary("lshr", bits, 16), 0x8000)
    magnitude = _magnitude(f, x)
    if form == "bfloat":
        result = f.select(nan, constant(bits.type, 0x7FC0), f.binary("lshr", magnitude, 16))
    else:
        result = f.add(f.binary("lshr", magnitude, 13), -((127 - 15) << 10))
        scaled = f.binary("fmul", f.intrinsic("fabs", x), 2.0**24)
        small = f.compare("olt", f.intrinsic("fabs", x), 2.0**-14)
        # Convert only small values: `fptosi` of a value out of range is poison.
        count = f.cast("fptosi", f.select(small, scaled, constant(x.type, 0.0)), bits.type)
        result = f.select(small, count, result)
        result = f.select(f.compare("sge", magnitude, 0x47800000), constant(bits.type, 0x7C00), result)
        result = f.select(nan, constant(bits.type, 0x7E00), result)
    return f.cast("trunc", f.binary("or", result, sign), like(x, "i16"))
