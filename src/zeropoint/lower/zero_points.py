"""The two places where the zero points of a contraction can be corrected: inside the sum of products, or after it.

- `inside`: sum (q_x - z_x)(q_w - z_w). The operands are subtracted first, in a wider type.
- `after`: sum q_x q_w - z_w sum q_x - z_x sum q_w + K z_x z_w. The operands stay in 8 bits; the sums of each operand
  are corrections. Those of constant weights are constants, which join the bias.

The right operand may have a zero point per output channel. Both give the same integers. `zeropoint.zero_points` on the
contraction names the form.

Cost model, in elements of work beside products of 8 bits. `after` costs nothing if the corrections are constants, and
otherwise a pass over each operand whose partner has a zero point, and one over the result for each correction. `inside`
costs a pass over the activation and, because products of 16 bits take twice the time, the products again. For two
activations it costs nothing: native code subtracts as it packs them, and multiplies pairs of 16 bits in any case.

Source: the lowering of quantized contractions ("Zero-Point Correction").
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.ir.contractions import Contraction, output_channel_axis, weight_channel_axis
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, DotGeneralOp, MultiplyOp, ReduceOp, SubtractOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import shape_of, with_element, with_shape
from zeropoint.lower.context import Correction, Lowering, quantized_element
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.ranges.contraction import terms


def choose(
    forced: Correction | None, op: Contraction, sources: tuple[SSAValue, SSAValue], constant: bool
) -> Correction:
    """The forced form if the op has it, otherwise the cheaper one.

    `sources` are the operands whose zero points count, `constant` is whether the weights are.
    """
    possible = constant or _fits_after(op, sources)
    if forced is Correction.INSIDE or not possible:
        return Correction.INSIDE
    # On equal costs, inside: it emits fewer ops.
    if forced is Correction.AFTER or _cost_after(op, sources, constant) < _cost_inside(op, sources, constant):
        return Correction.AFTER
    return Correction.INSIDE


def _fits_after(op: Contraction, sources: tuple[SSAValue, SSAValue]) -> bool:
    """Whether two 8-bit operands have corrections per layer or output channel whose four terms fit 32 bits together."""
    reach = terms(op)
    for source in sources:
        kind = quantized_element(source)
        if kind is None or kind.storage.type.width > 8:
            return False
        if kind.is_per_channel and kind.axis != weight_channel_axis(op):
            return False
        reach *= _magnitude(kind) + int(np.abs(kind.zero_points).max())
    # The four terms cancel only in the end. Each of them, and each partial sum, must fit i32.
    return isinstance(op, DotGeneralOp) and reach <= INT32_MAX


def _magnitude(kind: UniformQuantizedType) -> int:
    return max(abs(bound) for bound in kind.storage.range)


def _cost_inside(op: Contraction, sources: tuple[SSAValue, SSAValue], constant: bool) -> int:
    return math.prod(shape_of(sources[0])) + math.prod(shape_of(op.result)) * terms(op) if constant else 0


def _cost_after(op: Contraction, sources: tuple[SSAValue, SSAValue], constant: bool) -> int:
    if constant:
        return 0
    cost = 0
    for source, partner in (sources, sources[::-1]):
        kind = quantized_element(partner)
        if kind is not None and kind.zero_points.any():
            cost += math.prod(shape_of(source)) + math.prod(shape_of(op.result))
    return cost


def corrected_after(lowering: Lowering, op: DotGeneralOp, sources: tuple[SSAValue, SSAValue]) -> SSAValue:
    """sum q_x q_w - z_w sum q_x - z_x sum q_w + K z_x z_w. The right operand may have a z_w per output channel."""
    stored = [lowering.stored(source) for source in sources]
    kinds = [quantized_element(source) for source in sources]
    assert kinds[0] is not None and kinds[1] is not None  # `choose`
    left, right = kinds[0].zero_point, kinds[1].zero_points
    product = DotGeneralOp.create(
        operands=stored,
        result_types=[with_element(op.result, i32)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    total = lowering.insert(product).results[0]
    for side, partner in ((0, right), (1, np.array([left]))):
        if partner.any():
            sums = _sum_over_terms(lowering, op, stored[side], side)
            total = lowering.combined(SubtractOp, total, _times(lowering, op, sums, side, partner, total))
    constants = terms(op) * left * right
    amount = constants if right.size > 1 else int(constants[0])
    return lowering.shifted(total, amount, output_channel_axis(op))


def _dimensions(op: DotGeneralOp, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The batching and contracting dimensions of an operand."""
    dims = op.dot_dimension_numbers.data
    if side == 0:
        return dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions
    return dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions


def _sum_over_terms(lowering: Lowering, op: DotGeneralOp, value: SSAValue, side: int) -> SSAValue:
    """The sum of an operand over its contracting dimensions, in i32."""
    contracting = _dimensions(op, side)[1]
    wide = lowering.converted(value, i32)
    zero = lowering.constant(np.zeros((), np.int32))
    kept = [size for dim, size in enumerate(shape_of(value)) if dim not in contracting]
    made = ReduceOp([wide], [zero], [with_shape(wide, kept)], contracting, binary_body(AddOp, i32))
    return lowering.insert(made).results[0]


def _times(
    lowering: Lowering, op: DotGeneralOp, sums: SSAValue, side: int, points: IntArray, like: SSAValue
) -> SSAValue:
    """The sums of an operand times the other one's zero points, at every element of the result."""
    if points.size == 1:
        scaled = lowering.combined(MultiplyOp, sums, lowering.filled(sums, int(points[0])))
        return _spread(lowering, op, scaled, side, like)
    factors = lowering.channels(like, points.astype(np.int32), output_channel_axis(op))
    return lowering.combined(MultiplyOp, _spread(lowering, op, sums, side, like), factors)


def _spread(lowering: Lowering, op: DotGeneralOp, sums: SSAValue, side: int, like: SSAValue) -> SSAValue:
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
