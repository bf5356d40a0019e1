"""The arithmetic of XNNPACK's 8-bit kernels that do not multiply by a single f32 number.

Sources: XNNPACK's qs8-vcvt, qs8-vlrelu (8 fractional bits, half up) and qs8-vadd (21-bit factors, half up); its table
of an ELU was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.litert import STORED, elu
from zeropoint.numerics.ranges import AffineParameters

FRACTION_BITS = 8
LEAST_CONVERSION, GREATEST_CONVERSION = 2.0**-8, 2.0**7
"""The range of scale ratios that XNNPACK supports in a conversion between quantized types."""
LEAST_SUM, GREATEST_SUM = 2.0**-10, 2.0**8
"""The range of ratios of an operand's scale to the result's that XNNPACK supports in an addition."""
SUM_BITS = 20
"""The largest factor of a sum is in 2^20 .. 2^21."""


def conversion_factor(given: float, wanted: float) -> int | None:
    """round(256 * s_in / s_out), all in f32; None if XNNPACK does not support the ratio."""
    ratio = np.float32(given) / np.float32(wanted)
    if not LEAST_CONVERSION <= ratio <= GREATEST_CONVERSION:
        return None
    return int(np.rint(np.float32(256) * ratio))


def leaky_relu_table(given: AffineParameters, wanted: AffineParameters, slope: float) -> IntArray:
    """The 256 entries of leaky relu on int8, from -128 up."""
    ratio = np.float32(given.scale) / np.float32(wanted.scale)
    positive = int(np.rint(np.float32(256) * ratio))
    negative = int(np.rint(np.float32(256) * (ratio * np.float32(slope))))
    centred = STORED - int(given.zero_point)
    scaled = (centred * np.where(centred < 0, negative, positive) + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    return np.clip(scaled + int(wanted.zero_point), wanted.storage_min, wanted.storage_max)


def elu_table(given: AffineParameters, wanted: AffineParameters) -> IntArray:
    """The 256 entries of an ELU on int8, from -128 up: f(x) * (1 / s_out), then the zero point, to even; all in f32."""
    real = np.float32(given.scale) * (STORED - int(given.zero_point)).astype(np.float32)
    scaled = elu(real) * (np.float32(1) / np.float32(wanted.scale)) + np.float32(wanted.zero_point)
    return np.rint(np.clip(scaled, wanted.storage_min, wanted.storage_max)).astype(np.int64)


def sum_factors(scales: Sequence[float], wanted: float) -> tuple[list[int], int] | None:
    """The factors of a sum's operands and its right shift; None if XNNPACK does not support the scale ratios."""
    ratios = [np.float32(scale) / np.float32(wanted) for scale in scales]
    if not all(LEAST_SUM <= ratio < GREATEST_SUM for ratio in ratios):
        return None
    shift = SUM_BITS - (int(np.frexp(max(ratios))[1]) - 1)
    return [int(np.rint(np.ldexp(np.float64(ratio), shift))) for ratio in ratios], shift
