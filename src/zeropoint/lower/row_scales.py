"""Lowers products whose activations are rounded to 8 bits by rows (`numerics.row_scales`).

```mlir
%1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {zeropoint.activation_scales = "per_row"}
       : (tensor<2x24x!quant.uniform<i16:f32, 0.5>>, tensor<24x3x!quant.uniform<i16<-127:127>:f32:1, {...}>>)
       -> tensor<2x3x!quant.uniform<i32:f32:1, {...}>>
```
becomes, with N = 0 dropped bits,
```mlir
%v = (convert %x to i32) - zero point
%m = (reduce minimum(%v) + reduce maximum(%v)) >> 1                              i32, one number a row
%u = %v - (broadcast of %m)
%a = maximum(reduce maximum(%v) - %m, 1)                                         i32, one number a row
%r = 2^29 / %a
%q = convert(minimum((%u * (broadcast of %r) + 2^21) >> 22, 127)) to i8
%s = stablehlo.dot_general %q, %w : (tensor<2x24xi8>, tensor<24x3xi8>) -> tensor<2x3xi32>
%1 = ((%s * (broadcast of %a) + 2^6) >> 7) + (broadcast of %m) * (sum of %w)     the sum is one number a channel
```
Beside the sums, %a is limited to half of the range of the storage, and %m is clamped to this range. That changes
nothing; range analysis and native code need the bounds.
Products of the same activations share %q.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis, weights_by_channel
from zeropoint.ir.locations import describe, location_of
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, shape_of, with_element, with_shape
from zeropoint.lower.context import Lowering, LoweringError, quantized_element
from zeropoint.lower.weights import held_weights
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.numerics.row_scales import FACTOR, FRACTION, LEVELS, RowScales
from zeropoint.numerics.storage import signed_range


def row_scaled_sums(lowering: Lowering, op: ContractionOp, weight: Array | None) -> SSAValue:
    """The sums of products, given the constant weights without zero points.

    Raises LoweringError for other weights, and for those with sums beyond 32 bits.
    """
    kind, axis = quantized_element(op.lhs), weight_channel_axis(op)
    low, high = signed_range(8)
    narrow = weight is not None and (weight.size == 0 or low <= int(weight.min()) <= int(weight.max()) <= high)
    if not isinstance(op, hlo.DotGeneralOp) or kind is None or weight is None or axis is None or not narrow:
        raise LoweringError(
            f"{describe(op)}: found activations of one scale per row, expected a matrix product with constant weights "
            f"of 8 bits",
            op,
        )
    channels = weights_by_channel(weight, axis).astype(np.int64)
    try:
        form = RowScales.of(kind.storage.minimum, kind.storage.maximum, kind.zero_point, channels)
    except ValueError as error:
        raise LoweringError(f"{describe(op)}: {error}; split its sums", op) from error
    rows, middle, greatest = _rounded_rows(lowering, op, form)
    held = held_weights(lowering, weight, i8, location=location_of(op.rhs))
    made = type(op).create(
        operands=[rows, held],
        result_types=[with_element(op.result, i32)],
        properties=dict(op.properties),
    )
    value = _shifted(lowering, lowering.insert(made).results[0], form.dropped)
    kept = list(range(len(shape_of(greatest))))
    factor = lowering.spread(greatest, value, kept)
    factor = lowering.insert(hlo.MinimumOp(factor, lowering.filled(factor, form.reach))).result
    value = _shifted(lowering, lowering.insert(hlo.MultiplyOp(value, factor)).result, LEVELS - form.dropped)
    totals = lowering.channels(value, channels.sum(axis=1).astype(np.int32), output_channel_axis(op))
    ends = kind.storage.minimum - kind.zero_point, kind.storage.maximum - kind.zero_point
    limited = lowering.clamped(lowering.spread(middle, value, kept), *ends, i32)
    middles = lowering.insert(hlo.MultiplyOp(limited, totals)).result
    return lowering.insert(hlo.AddOp(value, middles)).result


def _rounded_rows(lowering: Lowering, op: hlo.DotGeneralOp, form: RowScales) -> tuple[SSAValue, ...]:
    """The activations in i8, and m and A of each row in i32, made once for all products in a block."""
    axes = tuple(op.dot_dimension_numbers.data.lhs_contracting_dimensions)
    key = (op.parent, op.lhs, axes)
    if key not in lowering.rounded_rows:
        lowering.rounded_rows[key] = _rounded(lowering, lowering.stored(op.lhs), form, axes)
    return lowering.rounded_rows[key]


def _rounded(lowering: Lowering, stored: SSAValue, form: RowScales, axes: Sequence[int]) -> tuple[SSAValue, ...]:
    v = lowering.widened(stored, form.zero_point)
    kept = [dimension for dimension in range(len(shape_of(v))) if dimension not in axes]
    low, high = (_extreme(lowering, kind, v, axes) for kind in (hlo.MinimumOp, hlo.MaximumOp))
    total = lowering.insert(hlo.AddOp(low, high)).result
    middle = lowering.insert(hlo.ShiftRightArithmeticOp(total, lowering.filled(total, 1))).result
    u = lowering.insert(hlo.SubtractOp(v, lowering.spread(middle, v, kept))).result
    # m - min v is at most max v - m, because m is rounded down.
    greatest = lowering.insert(hlo.SubtractOp(high, middle)).result
    greatest = lowering.insert(hlo.MaximumOp(greatest, lowering.filled(greatest, 1))).result
    reciprocal = lowering.insert(hlo.DivideOp(lowering.filled(greatest, FACTOR), greatest)).result
    product = lowering.insert(hlo.MultiplyOp(u, lowering.spread(reciprocal, u, kept))).result
    rounded = _shifted(lowering, product, FRACTION)
    q = lowering.insert(hlo.MinimumOp(rounded, lowering.filled(rounded, (1 << LEVELS) - 1))).result
    return lowering.converted(q, i8), middle, greatest


def _extreme(
    lowering: Lowering, kind: type[hlo.MinimumOp] | type[hlo.MaximumOp], value: SSAValue, axes: Sequence[int]
) -> SSAValue:
    """The least or the greatest element along dimensions."""
    start = lowering.constant(np.array(INT32_MIN if kind is hlo.MaximumOp else INT32_MAX, np.int32))
    shape = with_shape(value, [size for dimension, size in enumerate(shape_of(value)) if dimension not in axes])
    return lowering.insert(hlo.ReduceOp([value], [start], [shape], axes, binary_body(kind, i32))).results[0]


def _shifted(lowering: Lowering, value: SSAValue, bits: int) -> SSAValue:
    """(value + 2^(bits - 1)) >> bits: half up."""
    if bits == 0:
        return value
    total = lowering.insert(hlo.AddOp(value, lowering.filled(value, 1 << bits >> 1))).result
    return lowering.insert(hlo.ShiftRightArithmeticOp(total, lowering.filled(value, bits))).result
