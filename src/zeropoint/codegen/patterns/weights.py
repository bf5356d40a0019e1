"""The constants that a contraction multiplies with: windows, a matrix, a pool, blocks with factors, packed floats."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.patterns.blockwise import Blockwise
from zeropoint.codegen.patterns.dequantized import Dequantized
from zeropoint.codegen.patterns.match import Declined
from zeropoint.codegen.patterns.pools import Pool, pooled_image
from zeropoint.codegen.patterns.windows import Windows, constant_weights
from zeropoint.codegen.values import Values
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.numerics.arrays import IntArray

LARGEST_WINDOW = 64
"""The maximum number of taps of a pooling window in the depthwise kernel."""

KernelWeights = Windows | Array | Pool | Blockwise | Dequantized


def is_depthwise(weights: KernelWeights) -> bool:
    """Whether the depthwise kernel multiplies with them."""
    return isinstance(weights, Pool) or (isinstance(weights, Windows) and weights.depthwise)


def takes_residual(weights: KernelWeights) -> bool:
    """Whether the kernel for them can add another value at its end."""
    return not isinstance(weights, Windows | Pool) or (isinstance(weights, Windows) and weights.takes_residual)


def weights_of(values: Values, value: SSAValue, bias: IntArray | None) -> tuple[SSAValue, KernelWeights] | Declined:
    """The source and the weights of accumulators."""
    op = defining_op(value)
    if isinstance(op, hlo.ConvolutionOp):
        return Windows.of(values, op)
    if isinstance(op, hlo.DotGeneralOp):
        matrix = _matrix(values, op)
        return matrix if isinstance(matrix, Declined) else (op.lhs, matrix)
    if (blocks := Blockwise.of(values, value)) is not None:
        return blocks.source, blocks
    pooled = pooled_image(values, value)
    if pooled is None or bias is not None:
        return Declined("found no sum of products with constant weights before it")
    image, pool = pooled
    if pool.kernel[0] * pool.kernel[1] > LARGEST_WINDOW:
        return Declined(
            f"found a window of {pool.kernel[0]} x {pool.kernel[1]}, expected at most {LARGEST_WINDOW} taps"
        )
    return image, pool


def _matrix(values: Values, op: hlo.DotGeneralOp) -> Array | Dequantized | Declined:
    """The weights of a product of rows with a constant matrix, of shape (terms, channels)."""
    dimensions, rank = op.dot_dimension_numbers.data, len(shape_of(op.lhs))
    weights = constant_weights(values, op.rhs)
    if weights is None:
        return Declined("found weights that are computed, expected a constant")
    plain = (
        weights.ndim == 2
        and not dimensions.lhs_batching_dimensions
        and dimensions.lhs_contracting_dimensions == (rank - 1,)
        and len(dimensions.rhs_contracting_dimensions) == 1
        and rank > 1
        and not values.is_image(op.lhs)
        and not values.is_image(op.result)
    )
    if not plain:
        return Declined(f"found dimensions {dimensions}, expected rows times a matrix")
    packed = Dequantized.of(values.program, op.rhs, dimensions.rhs_contracting_dimensions[0])
    if packed is not None:
        return packed
    return weights if dimensions.rhs_contracting_dimensions == (0,) else weights.T


def channels_of(weights: KernelWeights, source: SSAValue, values: Values) -> int:
    """The number of output channels."""
    if isinstance(weights, Pool):
        return shape_of(source)[values.innermost(source)]
    return weights.weights.shape[-1] if isinstance(weights, Windows | Blockwise) else weights.shape[1]


def matrix_of(weights: KernelWeights) -> Array | None:
    """The weights of a product of rows, as stored integers or floats; None for windows and pools."""
    if isinstance(weights, Dequantized):
        return weights.stored
    return weights.weights if isinstance(weights, Blockwise) else weights if isinstance(weights, np.ndarray) else None
