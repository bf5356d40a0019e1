"""`convolution` and `dot_general` on quantized operands.

Source: the StableHLO specification. The sum of (x - z_x)(w - z_w), of scale s_x * s_w, is exact in integers. Padding
represents real 0 and does not contribute. If the result has this scale, the zero point is added to the sum, which is
clamped. Otherwise the sum is requantized by the program's profile. A float left operand and a quantized right one are
multiplied in float (hybrid_dequantize_then_op).
"""

from __future__ import annotations

import numpy as np

from zeropoint.interp.affine import Affine, affine, dequantization, is_quantized
from zeropoint.interp.binding import Binary, Scope, Unary
from zeropoint.interp.contraction import contraction_of, float_contraction, integer_contraction
from zeropoint.interp.exactness import FLOAT32, FLOAT64, INT64, to_integers
from zeropoint.ir.annotations import has_row_scales, is_wide
from zeropoint.ir.contractions import ContractionOp, weight_channel_axis, weights_by_channel
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import Profile
from zeropoint.numerics.requantize import requantize
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.row_scales import LEVELS, RowScales


def contraction(op: ContractionOp, scope: Scope) -> Binary:
    """convolution (C28 to C33), dot_general (C14 to C19) with a quantized right operand."""
    if not is_quantized(element_of(op.lhs)):
        return _hybrid(op, scope)
    x, w, y = (affine(element_of(value)) for value in (op.lhs, op.rhs, op.result))
    constant = scope.constant(op.rhs)
    centred = None if constant is None else w.centred(constant, INT64)
    sums = integer_contraction(contraction_of(op), x.reach, centred)
    # f32 represents x - z_x if its magnitude is below 2^24. With 32-bit storage it may be larger, so f64 is used.
    word = FLOAT32 if x.reach < 1 << 24 else FLOAT64
    finish = _finish(x, w, y, _result_axis(op, w, y), scope.profile)
    if has_row_scales(op):
        return _by_rows(op, x, centred, finish)
    if is_wide(op.result):
        finish = _accumulated

    def run(lhs: Array, rhs: Array) -> Array:
        weights = rhs if centred is not None else w.centred(rhs, INT64)
        return finish(sums(x.centred(lhs, word), weights))

    return run


def _by_rows(op: ContractionOp, x: Affine, weights: Array | None, finish: Unary) -> Binary:
    """The op on activations that are rounded to 8 bits by rows (`numerics.row_scales`).

    Raises ValueError for weights that are not constant, and for those with sums beyond 32 bits.
    """
    axis = weight_channel_axis(op)
    if not isinstance(op, DotGeneralOp) or weights is None or axis is None:
        raise ValueError("found activations of one scale per row, expected a matrix product with constant weights")
    channels = weights_by_channel(weights, axis)
    form = RowScales.of(x.storage_min, x.storage_max, int(x.zero_point), channels)
    sums = integer_contraction(contraction_of(op), 1 << LEVELS, weights)
    axes = tuple(op.dot_dimension_numbers.data.lhs_contracting_dimensions)
    totals = channels.astype(np.int64).sum(axis=1)

    def run(lhs: Array, rhs: Array) -> Array:
        rows, *numbers = form.rounded(lhs, axes)
        middle, greatest = (np.squeeze(number, axes)[..., np.newaxis] for number in numbers)
        return finish(form.sums(to_integers(sums(rows, weights), INT64), middle, greatest, totals))

    return run


def _finish(x: Affine, w: Affine, y: Affine, axis: int | None, profile: Profile) -> Unary:
    """Convert sums of scale s_x * s_w to storage integers of the result's type."""
    real = profile.ratio(profile.product_of_scales(x.scale, w.scale), y.scale)
    if (real == 1.0).all():
        return lambda sums: _as_storage(sums, y)
    # Accumulators have 32 bits for two 8-bit operands, and 64 bits with a wider operand (LiteRT's 16x8 kernels).
    width = 32 if max(x.width, w.width) <= 8 else 64
    multiplier = profile.multiplier(real.reshape(()) if real.size == 1 else real, y.width, width)

    def run(sums: Array) -> Array:
        return requantize(
            _accumulators(sums), multiplier, y.zero_point, y.storage_min, y.storage_max, axis=axis, dtype=y.dtype
        )

    return run


def _accumulated(sums: Array) -> Array:
    """64-bit sums, which do not saturate."""
    return to_integers(sums, INT64)


def _as_storage(sums: Array, y: Affine) -> Array:
    if sums.dtype == FLOAT32 and y.width == 32 and not y.zero_point.any():
        return sums.astype(y.dtype)  # f32 sums are within 2^24, so there is nothing to clamp
    total = to_integers(sums, INT64) + y.zeros(sums.ndim)
    return np.clip(total, y.storage_min, y.storage_max).astype(y.dtype)


def _accumulators(sums: Array) -> Array:
    """Sums as int32, or as int64 if they do not fit. `requantize` rejects sums that are too wide for its behaviour."""
    if sums.dtype == FLOAT32:
        return sums.astype(np.int32)
    wide = to_integers(sums, INT64)
    fits = wide.size == 0 or (int(wide.min()) >= -INT32_MAX and int(wide.max()) <= INT32_MAX)
    return wide.astype(np.int32) if fits else wide


def _result_axis(op: ContractionOp, w: Affine, y: Affine) -> int | None:
    """The dimension of the result with one scale per index: the weights' output features."""
    if y.axis is not None or w.axis is None:
        return y.axis
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.output_feature_dimension
    dims = op.dot_dimension_numbers.data
    taken = (*dims.rhs_batching_dimensions, *dims.rhs_contracting_dimensions)
    free = [dim for dim in range(len(shape_of(op.rhs))) if dim not in taken]
    if w.axis in dims.rhs_batching_dimensions:
        return dims.rhs_batching_dimensions.index(w.axis)
    return len(shape_of(op.result)) - len(free) + free.index(w.axis)


def _hybrid(op: ContractionOp, scope: Scope) -> Binary:
    """The op with a float left operand (C34 of convolution, C20 of dot_general).

    The right operand is dequantized; if it is constant, only once.
    """
    dequantize, result = dequantization(element_of(op.rhs)), element_dtype(element_of(op.result))
    constant = scope.constant(op.rhs)
    weights = None if constant is None else dequantize(constant)
    kernel = float_contraction(contraction_of(op), result, weights, scope.float_products)
    return lambda lhs, rhs: kernel(lhs, rhs if weights is not None else dequantize(rhs))
