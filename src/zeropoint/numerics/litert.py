"""The arithmetic of those LiteRT kernels that are neither a requantized sum nor a real function rounded once.

A mean multiplies by one fixed-point number that includes the division by the count. A function of 8-bit values is a
table of 256 entries. `abs`, `leaky_relu` and `rsqrt` compute their entries in fixed point, `hard_swish` in 16 bits, and
`sqrt` truncates. The others evaluate the function in f32 and multiply by the reciprocal of the output scale. Quotients
are in `numerics.litert_division`.

Sources: TFLite's reduce.h (QuantizedMeanOrSum), leaky_relu.h, hard_swish.h, elementwise.cc, and LUTPopulate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from zeropoint.numerics import functions
from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour
from zeropoint.numerics.rounding import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    round_half_away,
    rounding_divide_by_pot,
)

ROOT_BITS = 20
"""Fractional bits of the reciprocal square root before its last multiplication."""
STORED = np.arange(-128, 128, dtype=np.int64)
TANH_GELU_AT_2 = 1.95459769
"""The tanh approximation of gelu at 2. The exact gelu is 1.95449974 there."""


def mean_multiplier(real: float, count: int) -> Multiplier:
    """The multiplier m ~ real / count: the mantissa of `real`, shifted left by about log2(count) bits, divided by
    `count`.

    `real` is s_in / s_out. The quotient is truncated, so m may be less exact than `quantize_multiplier(real / count)`.
    """
    mantissa, exponent = (int(part) for part in quantize_multiplier(real))
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    divided = (mantissa << shift) // count
    return Multiplier(RequantizeBehaviour.FIXED32_DOUBLE, np.asarray(divided), np.asarray(exponent - shift))


def is_tanh_gelu(at_2: float) -> bool:
    """Whether a gelu with this value at 2 is the tanh approximation."""
    return abs(at_2 - TANH_GELU_AT_2) < 2e-5


def function_table(
    name: str, given: AffineParameters, wanted: AffineParameters, at: Callable[[float], float]
) -> IntArray | None:
    """The 256 entries of a function of int8, from -128 up; None if LiteRT does not use a table for it.

    `name` is the logical kernel. `at` is the real function, from which `leaky_relu` derives its slope. Scales are f32.
    """
    rule = TABLES.get(name)
    if rule is None:
        return None
    centred = STORED - int(given.zero_point)
    with np.errstate(all="ignore"):
        found = rule(centred, np.float32(given.scale), np.float32(wanted.scale), at)
    return np.clip(found + int(wanted.zero_point), wanted.storage_min, wanted.storage_max).astype(np.int64)


TableRule = Callable[[IntArray, np.float32, np.float32, Callable[[float], float]], AnyArray]


def _times(values: IntArray, real: float) -> IntArray:
    return multiply_by_quantized_multiplier(values, *quantize_multiplier(real))


def fixed_point_absolute(
    values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]
) -> IntArray:
    """|v| times the quotient of the scales, which is rounded to f32."""
    return _times(np.abs(values), float(given / wanted))


def fixed_point_leaky_relu(
    values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]
) -> IntArray:
    """Both factors are computed in f32."""
    slope = np.float32(-at(-1.0))
    negative = np.sign(slope).astype(np.int64) * _times(values, abs(float(given * slope / wanted)))
    return np.where(values >= 0, _times(values, float(given / wanted)), negative)


def _high_product(a: IntArray, b: int) -> IntArray:
    """16-bit SaturatingRoundingDoublingHighMul. b is positive, so it never saturates."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.sign(nudged) * (np.abs(nudged) >> 15)


def _saturated(values: IntArray) -> IntArray:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _multiplier_of_16_bits(real: np.float32) -> tuple[int, int]:
    mantissa, exponent = (int(part) for part in quantize_multiplier(float(real)))
    return 0x7FFF if mantissa >= 0x7FFF0000 else (mantissa + (1 << 15)) >> 16, exponent


def _hard_swish(values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]) -> IntArray:
    """x * (clamp(x / 3, -1, 1) + 1) / 2, each factor with 15 fractional bits."""
    fine = np.float32(1 / 128) * given
    factor, exponent = _multiplier_of_16_bits(fine / wanted)
    slope, left = _multiplier_of_16_bits(fine / (np.float32(3) / np.float32(32768)))
    wide = values << 7
    gate = _saturated(wide << (left - 1)) if left > 0 else wide
    gate = _high_product(gate, slope)
    gate = _saturated(gate << 1) if left > 0 else rounding_divide_by_pot(gate, -left)
    gate = (gate + (1 << 15)) >> 1
    product = gate * _high_product(wide, factor)
    high = np.sign(product) * (np.abs(product) >> 15)
    # LiteRT rejects a positive exponent (an output scale below 1/128 of the input's).
    return rounding_divide_by_pot(high, max(-exponent, 0))


def _evaluated(function: Callable[[AnyArray], AnyArray]) -> TableRule:
    """round(f(x) * (1 / s_out)), all in f32, ties away from zero."""

    def rule(values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]) -> AnyArray:
        real = function(given * values.astype(np.float32)).astype(np.float32)
        scaled = np.nan_to_num(real * (np.float32(1) / wanted), nan=0.0, posinf=2.0**30, neginf=-(2.0**30))
        return round_half_away(np.clip(scaled, -(2.0**30), 2.0**30)).astype(np.int64)

    return rule


def _truncated_root(values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]) -> AnyArray:
    """sqrt(x) / s_out in f32, truncated. The kernel has no result for negative values; here it is the result for 0."""
    real = np.sqrt(np.maximum(values, 0).astype(np.float32) * given)
    return np.floor(real / wanted).astype(np.int64)


THREE_HALVES, HALF_ROOT_OF_TWO = (1 << 28) + (1 << 27), 1518500250
"""1.5 with 28 fractional bits, and sqrt(2) / 2 with 31."""
ITERATIONS = 5


def _inverse_root(values: IntArray) -> tuple[IntArray, IntArray]:
    """1 / sqrt(v) for v >= 1, as a mantissa of 31 bits and an exponent: GetInvSqrtQuantizedMultiplierExp.

    Five Newton steps x (3 - v x^2) / 2 with 28 fractional bits, on v shifted to 2^27..2^29.
    """
    leading = 32 - np.frexp(values.astype(np.float64))[1].astype(np.int64)
    pairs = (leading - 1) // 2 - 1
    half = rounding_divide_by_pot((values << (2 * pairs)) >> 1, 1)
    x = np.full(values.shape, 1 << 28, np.int64)
    for _ in range(ITERATIONS):
        cube = _saturated_shift(_doubled_high(_doubled_high(x, x), x), 6)
        x = _saturated_shift(_doubled_high(x, THREE_HALVES) - _doubled_high(half, cube), 3)
    x = _doubled_high(x, HALF_ROOT_OF_TWO)
    right = 11 - pairs
    mantissa = np.where(right < 0, x << np.maximum(-right, 0), x)
    return np.where(values <= 1, INT32_MAX, mantissa), np.where(values <= 1, 0, -np.maximum(right, 0))


def _doubled_high(a: IntArray, b: IntArray | int) -> IntArray:
    """SaturatingRoundingDoublingHighMul of i32; no operand here is the minimum."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    return np.sign(nudged) * (np.abs(nudged) >> 31)


def _saturated_shift(values: IntArray, bits: int) -> IntArray:
    return np.clip(values << bits, INT32_MIN, INT32_MAX)


def _reciprocal_root(values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]) -> IntArray:
    """1 / sqrt(v) with 20 fractional bits, times 1 / (sqrt(s_in) * s_out). The maximum result for 0 and below."""
    mantissa, exponent = quantize_multiplier(1.0 / float(np.sqrt(given) * wanted))
    root, power = _inverse_root(np.maximum(values, 1))
    fine = multiply_by_quantized_multiplier(np.ones_like(values), root, power + ROOT_BITS)
    found = multiply_by_quantized_multiplier(fine, mantissa, exponent - ROOT_BITS)
    return np.where(values <= 0, INT32_MAX, found)


def elu(x: AnyArray) -> AnyArray:
    """x where x > 0, exp(x) - 1 elsewhere, rounded once."""
    return np.where(x > 0, x, functions.UNARY["exponential_minus_one"](np.minimum(x, np.float32(0))))


def _gelu(x: AnyArray) -> AnyArray:
    erf = np.array([math.erf(value / math.sqrt(2)) for value in x.tolist()], np.float32)
    return np.float32(0.5) * x * (1 + erf)


def _tanh_gelu(x: AnyArray) -> AnyArray:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


def _gelu_of_either_kind(
    values: IntArray, given: np.float32, wanted: np.float32, at: Callable[[float], float]
) -> AnyArray:
    return _evaluated(_tanh_gelu if is_tanh_gelu(at(2.0)) else _gelu)(values, given, wanted, at)


TABLES: Mapping[str, TableRule] = {
    "abs": fixed_point_absolute,
    "elu": _evaluated(elu),
    "exp": _evaluated(functions.UNARY["exponential"]),
    "gelu": _gelu_of_either_kind,
    "hard_swish": _hard_swish,
    "leaky_relu": fixed_point_leaky_relu,
    "log": _evaluated(functions.UNARY["log"]),
    "logistic": _evaluated(functions.UNARY["logistic"]),
    "rsqrt": _reciprocal_root,
    "sqrt": _truncated_root,
    "tanh": _evaluated(functions.UNARY["tanh"]),
}
"""The rules of the tables, by logical kernel."""
