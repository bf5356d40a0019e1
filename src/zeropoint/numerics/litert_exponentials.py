"""The exponentials of LiteRT's 8-bit softmax and log_softmax: fixed point with 5 integer bits in, 0 integer bits out.

A score is at most 255 steps below the greatest one of its row. The distance in steps times the scale is expressed with
26 fractional bits. exp is a polynomial around -1/8 of what is left of a quarter, times exp(-2^k) for each bit 2^k of
the rest.

Sources: TFLite's reference softmax and PreprocessSoftmaxScaling; gemmlowp's exp_on_negative_values.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import BoolArray, F32Array, IntArray
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.rounding import INT32_MAX, rounding_divide_by_pot, saturating_rounding_doubling_high_mul

DISTANCES = np.arange(-255, 1)
"""The differences of a score and the greatest one, in ascending order: those of the entries of a table."""
FRACTION_BITS = 26
LARGEST = 31
"""The integer part of the largest distance; exponentials beyond are 0."""
LEAST_SCALE = 2.0**-FRACTION_BITS
"""Scores need a greater scale: the kernel's multiplier is greater than 1."""
QUARTER = 1 << (FRACTION_BITS - 2)
AT_EIGHTH = 1895147668
"""exp(-1/8), with 31 fractional bits like all of the following."""
THIRD = 715827883
EIGHTH = 1 << 28
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^k) for k from -2 to 4."""


def distances(scale: float) -> tuple[IntArray, BoolArray]:
    """scale * d for the 256 `DISTANCES` d, with 26 fractional bits, and whether the kernel counts the distance.

    Those beyond are at the end of its range. `scale` is that of the scores, an f32 above `LEAST_SCALE`.
    """
    mantissa, exponent = (int(part) for part in quantize_multiplier(min(scale * 2.0**FRACTION_BITS, INT32_MAX)))
    farthest = LARGEST << FRACTION_BITS >> exponent
    shifted = np.maximum(DISTANCES, -farthest) << exponent
    return saturating_rounding_doubling_high_mul(shifted, mantissa), -farthest <= DISTANCES


def exponentials(scale: float) -> IntArray:
    """exp(scale * d) for the 256 `DISTANCES` d, with 31 fractional bits; 0 for those that the kernel does not count."""
    found, counted = distances(scale)
    return np.where(counted, _exponential(found), 0)


def f32_exponentials(scale: float) -> F32Array:
    """exp(scale * d) for the 256 `DISTANCES` d in f32, as in the kernels that compute in floats."""
    return np.exp((np.float32(scale) * DISTANCES.astype(np.float32)).astype(np.float64)).astype(np.float32)


def _exponential(x: IntArray) -> IntArray:
    """exp of numbers from -32 to 0 with 26 fractional bits, with 31 fractional bits."""
    part = (x & (QUARTER - 1)) - QUARTER
    found, rest = _on_quarter(part << (31 - FRACTION_BITS)), part - x
    for bit, power in enumerate(POWERS, start=FRACTION_BITS - 2):
        found = np.where(rest & (1 << bit), saturating_rounding_doubling_high_mul(found, power), found)
    return np.where(x == 0, INT32_MAX, found)


def _on_quarter(x: IntArray) -> IntArray:
    """exp of numbers from -1/4 to 0, a polynomial of degree 4 around -1/8."""
    times = saturating_rounding_doubling_high_mul
    y = x + EIGHTH
    square = times(y, y)
    cube, fourth = times(square, y), rounding_divide_by_pot(times(square, square), 2)
    rest = rounding_divide_by_pot(times(fourth + cube, THIRD) + square, 1)
    return AT_EIGHTH + times(AT_EIGHTH, y + rest)
