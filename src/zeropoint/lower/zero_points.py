"""Chooses where the zero points of a contraction are corrected: inside the sum of products, or after it.

- `inside`: sum (q_x - z_x)(q_w - z_w). Zero points are first subtracted from the operands, in a wider type. - `after`:
sum q_x q_w - z_w sum q_x - z_x sum q_w + K z_x z_w. The operands stay in 8 bits; the sums of each operand are
corrections. Those of constant weights are constants, which join the bias. The sums of a convolution's input are those
of its windows, a convolution with ones (`convolution.py`).

The right operand may have a zero point per output channel. Both give the same integers. `zeropoint.zero_points` on the
contraction names the form.

Cost model, in elements of work in addition to 8-bit products. `after` costs nothing if the corrections are constants.
Otherwise, it costs a pass over each operand whose partner has a zero point, and one over the result for each
correction. `inside` costs a pass over the activation and, because 16-bit products take twice the time, the products
again. For two activations it costs nothing, because native code subtracts while it packs them, and multiplies pairs of
16 bits in any case.

Source: the lowering of quantized contractions ("Zero-Point Correction").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis, weights_by_channel
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, DotGeneralOp, MultiplyOp, ReduceOp, SubtractOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import shape_of, with_element, with_shape
from zeropoint.lower.context import Correction, Lowering, LoweringError, quantized_element
from zeropoint.lower.convolution import PaddedConvolution
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.ranges.contraction import terms


def choose(
    forced: Correction | None, op: ContractionOp, sources: tuple[SSAValue, SSAValue], constant: bool
) -> Correction:
    """The forced form, otherwise the cheaper one.

    `sources` are the operands. `constant` says whether the weights are constants that still fit their storage after
    their zero points are subtracted. Raises LoweringError if the forced form is `after` and the op does not have it.
    """
    possible = constant or _fits_after(op, sources)
    if forced is Correction.AFTER and not possible and any(_has_zero_point(source) for source in sources):
        raise LoweringError(
            f"{describe(op)}: found zero_points = after for operands {sources[0].type} and {sources[1].type} with "
            f"{terms(op)} terms, expected operands of 8 bits, zero points per layer or output channel, and four terms "
            f"of the correction that fit i32; use zero_points = inside, or none",
            op,
        )
    if forced is Correction.INSIDE or not possible:
        return Correction.INSIDE
    # At equal costs, choose `inside`, which emits fewer ops.
    if forced is Correction.AFTER or _cost_after(op, sources, constant) < _cost_inside(op, sources, constant):
        return Correction.AFTER
    return Correction.INSIDE


def _fits_after(op: ContractionOp, sources: tuple[SSAValue, SSAValue]) -> bool:
    """Whether the operands have 8 bits and zero points per layer or output channel, and all four terms fit i32."""
    reach = terms(op)
    for source in sources:
        kind = quantized_element(source)
        if kind is None or kind.storage.type.width > 8:
            return False
        if kind.is_per_channel and kind.axis != weight_channel_axis(op):
            return False
        reach *= _magnitude(kind) + int(np.abs(kind.zero_points).max())
    # The four terms cancel only at the end, so each of them and each partial sum must fit i32.
    return reach <= INT32_MAX


def _has_zero_point(source: SSAValue) -> bool:
    kind = quantized_element(source)
    return kind is not None and bool(kind.zero_points.any())


def _magnitude(kind: UniformQuantizedType) -> int:
    return max(abs(bound) for bound in kind.storage.range)


def _cost_inside(op: ContractionOp, sources: tuple[SSAValue, SSAValue], constant: bool) -> int:
    return math.prod(shape_of(sources[0])) + math.prod(shape_of(op.result)) * terms(op) if constant else 0


def _cost_after(op: ContractionOp, sources: tuple[SSAValue, SSAValue], constant: bool) -> int:
    if constant:
        return 0
    cost = 0
    for source, partner in (sources, sources[::-1]):
        kind = quantized_element(partner)
        if kind is not None and kind.zero_points.any():
            cost += math.prod(shape_of(source)) + math.prod(shape_of(op.result))
    return cost


def corrected_after(lowering: Lowering, op: ContractionOp, sources: tuple[SSAValue, SSAValue]) -> SSAValue:
    """sum q_x q_w - z_w sum q_x - z_x sum q_w + K z_x z_w. The right operand may have a z_w per output channel."""
    stored = lowering.stored(sources[0]), lowering.stored(sources[1])
    kinds = [quantized_element(source) for source in sources]
    assert kinds[0] is not None and kinds[1] is not None  # guaranteed by `choose`
    left, right = kinds[0].zero_point, kinds[1].zero_points
    constants = terms(op) * left * right
    known = _constant_sums(lowering, op, stored[1])
    if known is not None:
        constants = constants - left * known
    # Sums of constant weights are part of `constants`.
    partners = right, np.array([left if known is None else 0])
    if isinstance(op, ConvolutionOp):
        padded = PaddedConvolution.of(lowering, op, stored[0], left)
        total = _convolution(lowering, op, padded, stored[1], partners)
    else:
        total = _product(lowering, op, stored, partners)
    amount = constants if constants.size > 1 else int(constants[0])
    return lowering.shifted(total, amount, output_channel_axis(op))


def _constant_sums(lowering: Lowering, op: ContractionOp, weight: SSAValue) -> IntArray | None:
    """The sum of the stored weights per output channel; None if they are not constant, or a batch of matrices."""
    known, axis = lowering.integers(weight), weight_channel_axis(op)
    return None if known is None or axis is None else weights_by_channel(known, axis).astype(np.int64).sum(axis=1)


def _convolution(
    lowering: Lowering,
    op: ConvolutionOp,
    padded: PaddedConvolution,
    weight: SSAValue,
    partners: tuple[IntArray, IntArray],
) -> SSAValue:
    """The sums of a convolution less those of its windows and weights, each times the partner's zero points."""
    total = padded.sums(weight, i32)
    if partners[0].any():
        spread = partial(padded.at_every_channel, like=total)
        total = _less(lowering, op, total, padded.window_sums(), partners[0], spread)
    if partners[1].any():
        axis = weight_channel_axis(op)
        sums = _summed(lowering, weight, [dim for dim in range(len(shape_of(op.rhs))) if dim != axis])
        spread = partial(lowering.spread, like=total, dims=[output_channel_axis(op)])
        total = _less(lowering, op, total, sums, partners[1], spread)
    return total


def _product(
    lowering: Lowering, op: DotGeneralOp, stored: tuple[SSAValue, SSAValue], partners: tuple[IntArray, IntArray]
) -> SSAValue:
    """The sums of a matrix product less the sums of both operands, each times the partner's zero points."""
    made = DotGeneralOp.create(
        operands=stored,
        result_types=[with_element(op.result, i32)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    total = lowering.insert(made).results[0]
    for side, partner in enumerate(partners):
        if partner.any():
            sums = _summed(lowering, stored[side], _dimensions(op, side)[1])
            spread = partial(_spread, lowering, op, side=side, like=total)
            total = _less(lowering, op, total, sums, partner, spread)
    return total


def _less(
    lowering: Lowering,
    op: ContractionOp,
    total: SSAValue,
    sums: SSAValue,
    points: IntArray,
    spread: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """`total` less the sums of an operand times the other one's zero points. `spread` gives them the result's shape."""
    if points.size == 1:
        scaled = spread(lowering.combined(MultiplyOp, sums, lowering.filled(sums, int(points[0]))))
    else:
        factors = lowering.channels(total, points.astype(np.int32), output_channel_axis(op))
        scaled = lowering.combined(MultiplyOp, spread(sums), factors)
    return lowering.combined(SubtractOp, total, scaled)


def _dimensions(op: DotGeneralOp, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The batching and contracting dimensions of an operand."""
    dims = op.dot_dimension_numbers.data
    if side == 0:
        return dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions
    return dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions


def _summed(lowering: Lowering, value: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The sum of integers over some dimensions, in i32."""
    wide = lowering.converted(value, i32)
    zero = lowering.constant(np.zeros((), np.int32))
    kept = [size for dim, size in enumerate(shape_of(value)) if dim not in dims]
    made = ReduceOp([wide], [zero], [with_shape(wide, kept)], dims, binary_body(AddOp, i32))
    return lowering.insert(made).results[0]


def _spread(lowering: Lowering, op: DotGeneralOp, sums: SSAValue, *, side: int, like: SSAValue) -> SSAValue:
    """The sums of an operand at every element of the result, which has the shape of `like`."""
    batching, contracting = _dimensions(op, side)
    source = (op.lhs, op.rhs)[side]
    left_batching, left_contracting = _dimensions(op, 0)
    free = len(shape_of(op.lhs)) - len(left_batching) - len(left_contracting)
    start = len(batching) + (free if side else 0)
    dimensions: list[int] = []
    for dim in range(len(shape_of(source))):
        if dim in batching:
            dimensions.append(batching.index(dim))
        elif dim not in contracting:
            dimensions.append(start)
            start += 1
    return lowering.spread(sums, like, dimensions)
