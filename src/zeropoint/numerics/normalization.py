"""Batch normalization with given means and variances.

Source: the StableHLO specification, "batch_norm_inference".
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import AnyArray


def normalized(
    operand: AnyArray, scale: AnyArray, offset: AnyArray, mean: AnyArray, variance: AnyArray, epsilon: float
) -> AnyArray:
    """scale * ((operand - mean) / sqrt(variance + epsilon)) + offset, every step in the dtype of `operand`.

    The arrays broadcast with each other.
    """
    deviation = np.sqrt(variance + np.asarray(epsilon).astype(operand.dtype))
    return np.asarray(scale * ((operand - mean) / deviation) + offset)
