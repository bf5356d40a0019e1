"""Select the fastest dtype that represents a sum of products of integers exactly.

Let B = max|a| * max over outputs of sum|w|. Every product and every partial sum, in any order and grouping, has a
magnitude of at most B. BLAS in f32 is exact for B <= 2^24, because f32 represents all integers up to 2^24. (The result
of a fused multiply-add is an integer of at most B, so it is not rounded.) BLAS in f64 is exact for B <= 2^53. Beyond
that, int64 is used. It wraps modulo 2^64, and its low bits are the result, because overflow also wraps in StableHLO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zeropoint.ir.tensors import Array

FLOAT32_INTEGERS = 1 << 24
FLOAT64_INTEGERS = 1 << 53

DType = np.dtype[Any]
FLOAT32, FLOAT64, INT64 = (np.dtype(kind) for kind in (np.float32, np.float64, np.int64))


def exact_dtype(bound: int) -> DType:
    """The fastest dtype in which sums of magnitude up to `bound` are exact."""
    if bound <= FLOAT32_INTEGERS:
        return FLOAT32
    return FLOAT64 if bound <= FLOAT64_INTEGERS else INT64


def greatest_magnitude(integers: Array) -> int:
    """max|a| of an array of integers; 0 if the array is empty."""
    if integers.size == 0:
        return 0
    return max(abs(int(integers.min())), abs(int(integers.max())))


def greatest_sum(weights: Array) -> int:
    """max over outputs of sum|w|, for weights of shape [outputs, terms] or [groups, outputs, terms...].

    If the sum may exceed 2^53, the result is 2^53 + 1.
    """
    if weights.size == 0:
        return 0
    terms = weights.reshape(*weights.shape[:2], -1) if weights.ndim > 2 else weights
    count = terms.shape[-1]
    if greatest_magnitude(terms) * count > FLOAT64_INTEGERS:
        # No float dtype is exact with such weights, and their sum might overflow int64.
        return FLOAT64_INTEGERS + 1
    return int(np.abs(terms.astype(np.int64)).sum(axis=-1).max())


def to_integers(sums: Array, dtype: DType) -> Array:
    """Exact sums as integers of `dtype`, modulo 2^width. Float sums are integers of magnitude up to 2^53."""
    if sums.dtype.kind != "f":
        return sums.astype(dtype, copy=False)
    if dtype.itemsize >= 4 and dtype.kind == "i" and sums.dtype == FLOAT32:
        return sums.astype(dtype)  # f32 sums are within 2^24
    # Through int64, because NumPy does not define the conversion of a float beyond the range of the integer.
    return sums.astype(np.int64).astype(dtype, copy=False)
