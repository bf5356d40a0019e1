"""Floats as MLIR prints them, digit for digit, and never lossy.

MLIR prints six significant digits (`1.250000e-01`) where they read back as the same value, all the digits of the format
(`3.14159274`) otherwise, and the bits in hexadecimal (`0x4CEB79A3`, `0x7F800000`) where the digits would not look like
a float, or the value is none. The digits come from LLVM's APFloat, which cuts the exact decimal expansion to about the
digits asked for before it rounds half up, so the last one may be off by one from a correctly rounded one; `_digits`
does the same.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute

SHORT_DIGITS = 6
# Significant bits, the hidden one included.
_PRECISION: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): 11,
    np.dtype(ml_dtypes.bfloat16): 8,
    np.dtype(np.float32): 24,
    np.dtype(np.float64): 53,
}
_LONGEST_PLAIN_EXPONENT = 3


def has_float_text(element_type: Attribute) -> bool:
    """Whether `float_text` knows the digits of a float type."""
    return isinstance(element_type, BFloat16Type | Float16Type | Float32Type | Float64Type)


def float_text(value: float, dtype: np.dtype[Any]) -> str:
    """The text of `value`, a value of `dtype` (f16, bf16, f32 or f64), as C++ MLIR prints it."""
    scalar = dtype.type(value)
    if math.isfinite(scalar):
        short = _exponential(*_digits(value, SHORT_DIGITS))
        if dtype.type(float(short)).tobytes() == scalar.tobytes():
            return short
        # The digits that tell any two values apart: APFloat's 2 + p * log10(2), with 59/196 for log10(2).
        full = 2 + _PRECISION[dtype] * 59 // 196
        text = _plain_or_exponential(*_digits(value, full), full)
        if "." in text:
            return text
    return f"0x{int.from_bytes(scalar.tobytes(), 'little'):X}"


def _digits(value: float, count: int) -> tuple[str, str, int]:
    """Sign, at most `count` decimal digits without trailing zeros, and the power of ten of the last digit."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    # value = significand * 2^-places = significand * 5^places * 10^-places
    significand, denominator = abs(float(value)).as_integer_ratio()
    places = denominator.bit_length() - 1
    significand *= 5**places
    exponent = -places
    excess_bits = significand.bit_length() - (count * 196 + 58) // 59
    if excess_bits > 0:
        removed = excess_bits * 59 // 196
        significand //= 10**removed
        exponent += removed
    digits = str(significand)
    dropped = len(digits) - count
    if dropped > 0:
        rounded_up = digits[count] >= "5"
        digits = str(int(digits[:count]) + rounded_up)
        exponent += dropped
    stripped = digits.rstrip("0")
    return sign, stripped or "0", exponent + len(digits) - len(stripped)


def _exponential(sign: str, digits: str, exponent: int) -> str:
    """`1.250000e-01`."""
    if digits == "0":
        return f"{sign}0.{'0' * SHORT_DIGITS}e+00"
    exponent += len(digits) - 1
    return f"{sign}{digits[0]}.{digits[1:]:0<{SHORT_DIGITS}}e{exponent:+03d}"


def _plain_or_exponential(sign: str, digits: str, exponent: int, precision: int) -> str:
    """`3.14159274`, `123456.789`, `1.2345678E+20`: no exponent where few zeros do without it."""
    leading = exponent + len(digits) - 1
    if exponent >= 0:
        exponential = exponent > _LONGEST_PLAIN_EXPONENT or len(digits) + exponent > precision
    else:
        exponential = leading < -_LONGEST_PLAIN_EXPONENT
    if exponential:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{leading:+d}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if leading >= 0:
        return f"{sign}{digits[: leading + 1]}.{digits[leading + 1 :]}"
    return f"{sign}0.{'0' * (-leading - 1)}{digits}"
