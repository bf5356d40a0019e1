"""The float constants of onnxruntime's 8-bit kernels for x64.

Matrix products and convolutions multiply their sums by one f32 number (`float32-rne`). The other kernels compute:

- QLinearAdd: fma(a, s_a / s, fma(b, s_b / s, c)) on stored integers; `sum_factors` computes the constants.
- QLinearMul: fl(fl((a - z_a) * (b - z_b)) * m) + z, both steps in f32, rounded after the zero point is added.
- QLinearGlobalAveragePool: the sum times s_in / fl(s * count).
- QLinearSoftmax: exponentials from a table, by the distance from the largest integer (`softmax_table`), are added in
  order in f32. Each is multiplied by `softmax_factor` and divided by the sum in f64, and rounded to even. Versions
  before 1.32 do this in f32; seven in a million values then differ by a step.

Sources: MLAS (qladd, qlmul, qlgavgpool) and onnxruntime's QLinearSoftmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import F32Array
from zeropoint.numerics.ranges import AffineParameters

F32 = np.float32
RESERVED = 5.0
"""The logarithm of the headroom that softmax leaves above its largest possible sum."""


@dataclass(frozen=True)
class SumFactors:
    """y = rne(fma(a, first, fma(b, second, offset))), clamped."""

    first: np.float32
    second: np.float32
    offset: np.float32


def sum_factors(first: AffineParameters, second: AffineParameters, result: AffineParameters) -> SumFactors:
    """The factors of the stored operands, and the offset z - fma(first, z_a, fl(second * z_b))."""
    a, b = F32(first.scale) / F32(result.scale), F32(second.scale) / F32(result.scale)
    product = np.float64(b * F32(second.zero_point))
    moved = F32(np.float64(a) * np.float64(first.zero_point) + product)
    return SumFactors(a, b, F32(F32(result.zero_point) - moved))


def line_operands(
    given: AffineParameters, slope: np.float32, offset: np.float32
) -> tuple[AffineParameters, AffineParameters]:
    """The operands of a sum that computes slope * x + offset, both positive: the integers of x at another scale, and a
    constant.

    The constant is the integer 1 at scale `offset`. Scales are f32.
    """
    ends = given.storage_min, given.storage_max
    read, one = np.asarray(F32(np.float64(slope) * given.scale), np.float64), np.asarray(offset, np.float64)
    return AffineParameters(read, given.zero_point, *ends), AffineParameters(one, np.asarray(0, np.int64), *ends)


def product_factor(first: AffineParameters, second: AffineParameters, result: AffineParameters) -> np.float32:
    """fl(fl(s_a * s_b) / s)."""
    return F32(F32(F32(first.scale) * F32(second.scale)) / F32(result.scale))


def mean_factor(given: AffineParameters, wanted: AffineParameters, count: int) -> np.float32:
    """fl(s_in / fl(s * count))."""
    return F32(F32(given.scale) / F32(F32(wanted.scale) * F32(count)))


def softmax_table(scale: float, terms: int) -> F32Array:
    """exp((i - 255) * scale) for i = 0 .. 255, times the largest factor that leaves headroom for the sum.

    The kernel computes the logarithm of the headroom in f32.
    """
    room = F32(np.log(np.float64(np.finfo(F32).max / F32(terms))))
    step = np.float64(F32(scale))
    shift = max(0.0, float(room) - RESERVED) / step
    return np.exp((np.arange(256, dtype=np.float64) - 255 + shift) * step).astype(F32)


def softmax_factor(scale: float) -> np.float32:
    """floor(1 / s)."""
    return F32(np.floor(F32(1) / F32(scale)))
