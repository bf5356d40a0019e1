"""Bounds on accumulators, which prove from the actual weights that a sum of products cannot overflow.

Source: "MLIR Quantization" and the lowering of quantized contractions: acc = sum (q_x - z_x) * w + b, or raw products
q_x * w with a zero point correction afterwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX


def accumulator_range(
    weights_by_channel: AnyArray,
    input_min: int,
    input_max: int,
    input_zero_point: int = 0,
    bias: npt.ArrayLike = 0,
) -> tuple[IntArray, IntArray]:
    """The minimum and maximum of any partial sum of sum (q - z) * w + b, per output channel. Both are attained.

    `weights_by_channel` is an integer array (channels, terms) of stored weights minus their zero point. q is in
    input_min..input_max. `bias` is a scalar or one integer per channel. A partial sum may have any subset of the terms,
    so the bounds hold for every order of summation: a term either extends a bound as far as it can, or is left out.
    With a zero point of 0 and a bias of 0, this is the range of raw products.
    """
    if weights_by_channel.ndim != 2:
        raise ValueError(f"found weights of shape {weights_by_channel.shape}; expected (channels, terms)")
    low, high = input_min - input_zero_point, input_max - input_zero_point
    positive, negative = signed_sums(weights_by_channel)
    offset = np.asarray(bias, dtype=np.int64)
    # A term that could only raise the minimum or lower the maximum is left out (0), because a partial sum need not have
    # it.
    greatest = positive * max(high, 0) - negative * min(low, 0) + np.maximum(offset, 0)
    least = positive * min(low, 0) - negative * max(high, 0) + np.minimum(offset, 0)
    return least, greatest


def signed_sums(weights: AnyArray) -> tuple[IntArray, IntArray]:
    """The sums of positive integers along the last axis, and of the magnitudes of negative ones. Both must fit i64."""
    # The maximum in the type of the weights: in i64, it would take eight times the memory of bytes.
    positive = np.maximum(weights, weights.dtype.type(0)).sum(axis=-1, dtype=np.int64)
    return positive, positive - weights.sum(axis=-1, dtype=np.int64)


def accumulator_bound(
    weights_by_channel: AnyArray,
    input_min: int,
    input_max: int,
    input_zero_point: int = 0,
    bias: npt.ArrayLike = 0,
) -> IntArray:
    """The maximum |acc| of `accumulator_range`, per output channel. An int32 accumulator needs at most 2^31 - 1."""
    least, greatest = accumulator_range(weights_by_channel, input_min, input_max, input_zero_point, bias)
    return np.maximum(greatest, -least)


def least_weight_scale(
    bias: npt.ArrayLike, input_scale: float, terms_bound: npt.ArrayLike, limit: int = INT32_MAX
) -> FloatArray:
    """The smallest weight scale s_w with |round(b / (s_in * s_w))| + terms_bound <= limit; 0 for a bias of 0.

    `bias` is real, a scalar or one per channel. `terms_bound` bounds the sum of products, for example K * max|q - z| *
    max|w|. The scale is rounded up by about 2^-50, so that the inequality also holds in f64 arithmetic. Raises
    ValueError if the terms alone leave no room for a bias.
    """
    # The bias is bounded together with the products, because runtimes add it to the same accumulator.
    room = limit - np.asarray(terms_bound, dtype=np.float64) - 1.0  # 1: rounding b / (s_in * s_w) adds up to 1/2
    if (room <= 0).any():
        raise ValueError(
            f"found sums of products up to {np.max(np.asarray(terms_bound))}; expected less than {limit - 1} "
            "(fewer terms, or narrower weights)"
        )
    least = np.abs(np.asarray(bias, dtype=np.float64)) / (room * input_scale)
    return np.where(least > 0, least * (1.0 + 2.0**-50), 0.0)


def least_saturating_scale(bias: npt.ArrayLike, input_scale: float, greatest_output: float) -> FloatArray:
    """The smallest weight scale s_w at which every sum that overflows int32 is outside of the output's range.

    (2^31 - 2 - |b| / (s_in * s_w)) * s_in * s_w >= 2 * greatest_output: a sum that saturates in int32, including the
    bias, is at least twice the largest real output. So it clamps to the same end as the sum in 64 bits. `bias` is real,
    a scalar or one per channel. `greatest_output` is the largest |real value| that the output's storage can hold.
    """
    # Twice the largest output: the rounding of the requantization and of the zero point is far below the other half.
    least = (2.0 * greatest_output + np.abs(np.asarray(bias, dtype=np.float64))) / ((INT32_MAX - 1.0) * input_scale)
    return least * (1.0 + 2.0**-50)
