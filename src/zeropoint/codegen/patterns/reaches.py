"""How far the accumulators of contractions reach, and whether 32 bits hold them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.patterns.blockwise import Blockwise
from zeropoint.codegen.patterns.pools import Pool
from zeropoint.codegen.patterns.weights import KernelWeights
from zeropoint.codegen.patterns.windows import Windows
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import Requantization
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import half_range


def has_room(output: Requantization, reach: IntArray) -> bool:
    """Whether accumulators of |acc| <= `reach` fit 32 bits, plus the terms that a kernel folds into the biases."""
    return Epilogue(output.multiplier.behaviour).has_room(output, reach)


def in_i32(reach: IntArray) -> IntArray:
    """An upper bound on |accumulator| that is at most the greatest i32, because the program's sums are i32.

    The bound from the type of the source may be greater: 13 bits are stored in i16.
    """
    return np.minimum(reach, INT32_MAX)


def reach_of(source: SSAValue) -> int:
    """The greatest |activation| of an integer type."""
    return half_range(8 * element_dtype(element_of(source)).itemsize)


def magnitudes(weights: Array) -> IntArray:
    """The sum of |w| per channel, for i8 or i16 weights (..., channels)."""
    wide = np.int16 if weights.dtype == np.int8 else np.int32
    return np.abs(weights, dtype=wide).reshape(-1, weights.shape[-1]).sum(0, dtype=np.int64)


def reaches(weights: KernelWeights, bias: IntArray, reach: int) -> Iterator[IntArray]:
    """Upper bounds on |accumulator| per channel, for each convolution into which this one is split."""
    if isinstance(weights, Pool):
        yield reach * weights.kernel[0] * weights.kernel[1] + np.abs(bias)
    elif isinstance(weights, Windows):
        for piece in weights.pieces:
            yield reach * magnitudes(piece.windows.weights) + np.abs(bias + piece.beside)
    elif isinstance(weights, Blockwise):
        yield weights.reach(reach) + np.abs(bias)
    elif isinstance(weights, np.ndarray):
        yield reach * magnitudes(weights) + np.abs(bias)
