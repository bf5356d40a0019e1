"""The floating-point formats of the IR, and numbers as upstream MLIR prints them.

Source: the "'quant' Dialect" document, "scale: Floating-point value of type expressedType". The text of a number
follows MLIR's assembly printer: six digits if they are exact, otherwise as many as the format needs, and the bits in
hexadecimal if both would read as an integer.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

SHORT_DIGITS = 6
MAX_LEADING_ZEROS = 3
# 196/59 > log2(10) and 59/196 < log10(2), the bounds that LLVM's APFloat uses.
_LOG_NUMERATOR, _LOG_DENOMINATOR = 196, 59


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point format.

    `precision` is the number of significand bits, including the hidden one. `smallest` and `largest` are the least and
    the greatest positive finite value as f64 (0 and infinity if f64 cannot hold them). `dtype` is None if NumPy has
    none.
    """

    precision: int
    smallest: float
    largest: float
    dtype: np.dtype[Any] | None


def _format(precision: int, smallest_exponent: int, largest: float, dtype: Any = None) -> FloatFormat:
    return FloatFormat(precision, 2.0**smallest_exponent, largest, None if dtype is None else np.dtype(dtype))


FORMATS: dict[type[Attribute], FloatFormat] = {
    builtin.Float64Type: _format(53, -1074, float(np.finfo(np.float64).max), np.float64),
    builtin.Float32Type: _format(24, -149, float(np.finfo(np.float32).max), np.float32),
    builtin.Float16Type: _format(11, -24, 65504.0, np.float16),
    builtin.BFloat16Type: _format(8, -133, (2 - 2.0**-7) * 2.0**127, ml_dtypes.bfloat16),
    builtin.FloatTF32Type: _format(11, -136, (2 - 2.0**-10) * 2.0**127),
    builtin.Float80Type: FloatFormat(64, 0.0, math.inf, None),
    builtin.Float128Type: FloatFormat(113, 0.0, math.inf, None),
    builtin.Float8E5M2Type: _format(3, -16, 57344.0, ml_dtypes.float8_e5m2),
    builtin.Float8E5M2FNUZType: _format(3, -17, 57344.0, ml_dtypes.float8_e5m2fnuz),
    builtin.Float8E4M3Type: _format(4, -9, 240.0, ml_dtypes.float8_e4m3),
    builtin.Float8E4M3FNType: _format(4, -9, 448.0, ml_dtypes.float8_e4m3fn),
    builtin.Float8E4M3FNUZType: _format(4, -10, 240.0, ml_dtypes.float8_e4m3fnuz),
    builtin.Float8E4M3B11FNUZType: _format(4, -13, 30.0, ml_dtypes.float8_e4m3b11fnuz),
    builtin.Float8E3M4Type: _format(5, -6, 15.5, ml_dtypes.float8_e3m4),
    builtin.Float8E8M0FNUType: _format(1, -127, 2.0**127, ml_dtypes.float8_e8m0fnu),
    builtin.Float6E2M3FNType: _format(4, -3, 7.5, ml_dtypes.float6_e2m3fn),
    builtin.Float6E3M2FNType: _format(3, -4, 28.0, ml_dtypes.float6_e3m2fn),
    builtin.Float4E2M1FNType: _format(2, -1, 6.0, ml_dtypes.float4_e2m1fn),
}


def float_format(float_type: Attribute) -> FloatFormat:
    """The format of a floating-point type.

    Raises TypeError for another type.
    """
    found = FORMATS.get(type(float_type))
    if found is None:
        raise TypeError(f"found {float_type}, expected a floating-point type")
    return found


def round_to(value: float, float_type: AnyFloat) -> float:
    """The value of `float_type` nearest to `value`, ties to even; `value` itself where the type is wider than f64."""
    number_format = float_format(float_type)
    if number_format.precision >= float_format(builtin.f64).precision:
        return value
    if number_format.dtype is not None:
        return float(np.asarray(value, number_format.dtype))
    return float(float_type.unpack(float_type.pack([value]), 1)[0])


def _decimal(value: float, precision: int) -> tuple[str, int]:
    """(digits, exponent): at most `precision` digits of a positive finite number, without trailing zeros.

    MLIR truncates the exact number to about `precision` digits before it rounds half up, so its last digit is not
    always the nearest one. This function does the same in integers.
    """
    numerator, denominator = value.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    significand = numerator * 5**-exponent
    required_bits = (precision * _LOG_NUMERATOR + _LOG_DENOMINATOR - 1) // _LOG_DENOMINATOR
    excess = (significand.bit_length() - required_bits) * _LOG_DENOMINATOR // _LOG_NUMERATOR
    if excess > 0:
        significand //= 10**excess
        exponent += excess
    digits = str(significand)
    dropped = len(digits) - precision
    if dropped > 0:
        digits = str(int(digits[:precision]) + (digits[precision] >= "5"))
        exponent += dropped
    stripped = digits.rstrip("0")
    return stripped, exponent + len(digits) - len(stripped)


def _short_text(magnitude: float) -> str:
    """`1.232100e+00`: six digits after the point."""
    digits, exponent = _decimal(magnitude, SHORT_DIGITS) if magnitude else ("0", 0)
    power = exponent + len(digits) - 1
    sign = "-" if power < 0 else "+"
    return f"{digits[0]}.{digits[1:].ljust(SHORT_DIGITS, '0')}e{sign}{abs(power):02}"


def _long_text(magnitude: float, precision: int) -> str:
    """As many digits as tell all numbers of a format apart. An exponent is used only if there would be many zeros."""
    count = 2 + precision * _LOG_DENOMINATOR // _LOG_NUMERATOR
    digits, exponent = _decimal(magnitude, count)
    power = exponent + len(digits) - 1
    if exponent >= 0:
        if exponent <= MAX_LEADING_ZEROS and len(digits) + exponent <= count:
            return digits + "0" * exponent
    elif power >= 0:
        return f"{digits[: power + 1]}.{digits[power + 1 :]}"
    elif -power <= MAX_LEADING_ZEROS:
        return f"0.{'0' * (-power - 1)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{'-' if power < 0 else '+'}{abs(power)}"


def _is_long(value: float, float_type: AnyFloat) -> bool:
    """Whether no short text can read back as the number: the shortest text of an f64, Python's, has more digits."""
    if type(float_type) is not builtin.Float64Type:
        return False
    mantissa, _, _ = repr(float(value)).partition("e")
    return len(mantissa.replace(".", "").strip("-0")) > 1 + SHORT_DIGITS


def _reads_back(text: str, value: float, float_type: AnyFloat) -> bool:
    """Whether `text`, rounded to `float_type`, is `value`, which must be a number of that type."""
    precision = float_format(float_type).precision
    if precision <= float_format(builtin.f64).precision:
        return round_to(float(text), float_type) == value
    written, exact = abs(Fraction(text)), abs(Fraction(value))
    mantissa, exponent = math.frexp(abs(value))
    # Half a step of the format; below a power of two the steps are half as long. A tie rounds to an f64, which is even.
    half_step = Fraction(2) ** (exponent - precision - 1 - (mantissa == 0.5 and written < exact))
    return abs(written - exact) <= half_step if value else not written


def format_float(value: float, float_type: AnyFloat = builtin.f64) -> str:
    """A number of `float_type` as upstream MLIR prints it. The text reads back as the same number."""
    if math.isfinite(value):
        sign = "-" if math.copysign(1.0, value) < 0 else ""
        if not _is_long(value, float_type):
            short = sign + _short_text(abs(value))
            if _reads_back(short, value, float_type):
                return short
        text = sign + _long_text(abs(value), float_format(float_type).precision)
        if "." in text:
            return text
    dtype = float_format(float_type).dtype
    bits = struct.pack("<d", value) if dtype is None else np.asarray(value, dtype).tobytes()
    return f"0x{int.from_bytes(bits, 'little'):X}"


def format_double(value: float) -> str:
    """An f64 as upstream MLIR prints it. The text reads back as the same number."""
    return format_float(value)


def diagnostic_text(value: float) -> str:
    """A number as upstream's error messages write it: `1.401298e-45`, `INF`, `nan`."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"{value:.6e}"
