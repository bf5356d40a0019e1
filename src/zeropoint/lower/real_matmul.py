"""Lowers matrix products of real math on quantized values to integers.

```mlir
%0 = "fxpmath.real_matmul_bias"(%x, %w, %b)
       : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>, tensor<4x3x!quant.uniform<i4:f32:{0:2}, {{0.25}, {0.5}}>>,
          tensor<3x!quant.uniform<i32:f32, 0.1>>) -> tensor<2x3x!quant.uniform<i8:f32, 2.0>>
```
becomes, with weights in blocks of 2 rows whose factors are 2^14 and 2^15 (`numerics.blockwise`),
```mlir
%0 = stablehlo.dot_general (%x as 2x2x2xi8), (%w as 2x2x3xi8), batching_dims = [1] x [0] : tensor<2x2x3xi32>
%1 = stablehlo.reduce(%0 * factors) applies stablehlo.add across dimensions = [0] : tensor<2x3xi64>
%2 = (%1 + 2^14) >> 15, in 32 bits                                   at scale 0.5 * 0.5
%3 = stablehlo.add %2, (%b requantized from 0.1 to 0.25) : tensor<2x3xi32>
%4 = "fxpmath.requantize"(%3) : (tensor<2x3xi32>) -> tensor<2x3xi8>
```
Weights with one scale, or one per column, give a single `dot_general`. With an operand of 16 bits, accumulators have 64
bits; otherwise they have 32 and saturate. A result of i32 is these sums. Weights of 4 bits keep their storage, so that
files hold two per byte, and are converted where they are used.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType, i8, i16, i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import ACCUMULATOR
from zeropoint.ir.fxpmath import RealMatMulBiasOp, RealMatMulOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.quant.evaluate import element_parameters
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    ReturnOp,
    ShiftRightArithmeticOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element
from zeropoint.lower.context import Lowering, LoweringError
from zeropoint.lower.contraction import lower_contraction
from zeropoint.lower.real_math import clamped_result, kind_of
from zeropoint.lower.weights import held_weights
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.blockwise import FRACTION, Columns
from zeropoint.numerics.real_math import power_of_two
from zeropoint.numerics.requantize import requantize
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.numerics.storage import half_range

INT32 = Storage.of("i32")
MatMul = RealMatMulOp | RealMatMulBiasOp


def lower_real_matmul(lowering: Lowering, op: MatMul) -> SSAValue:
    """Sums of products, the bias at their scale, and one requantization.

    Raises LoweringError for blockwise weights that are not constant.
    """
    lhs, rhs, result = (kind_of(value) for value in (op.lhs, op.rhs, op.result))
    wide = max(lhs.storage.type.width, rhs.storage.type.width) > 8
    columns = _columns(op, rhs)
    scales = lhs.scale * columns.scales
    # A multiplier of rank 0 applies to all channels, and may be a shift.
    scales = scales.reshape(()) if scales.size == 1 else scales
    sums = _sums(lowering, op, wide=wide) if columns.factors is None else _blockwise(lowering, op, columns, wide=wide)
    last = len(shape_of(op.result)) - 1
    if isinstance(op, RealMatMulBiasOp):
        bias = _bias(lowering, op, scales)
        spread = BroadcastInDimOp(bias, with_element(op.result, element_of(bias)), [last])
        sums = lowering.combined(AddOp, sums, lowering.insert(spread).result)
    if op.gives_sums:
        return lowering.saturated(sums, INT32_MIN, INT32_MAX, i32)
    # The requantization reads one width. Sums and bias may have needed i64 before.
    sums = lowering.converted(sums, i64) if wide else lowering.saturated(sums, INT32_MIN, INT32_MAX, i32)
    multiplier = _multiplier(lowering, scales, result.scales.reshape(()), result.storage.type.width, 64 if wide else 32)
    axis = last if multiplier.multiplier.ndim else None
    return clamped_result(lowering, op, lowering.rescaled(sums, multiplier, result.zero_point, result.storage, axis))


def _columns(op: MatMul, kind: UniformQuantizedType) -> Columns:
    """The scales of the right operand."""
    if kind.is_per_layer:
        return Columns(kind.scales)
    rows = dict(kind.blocks or ()).get(0, shape_of(op.rhs)[0])
    return Columns.of(np.atleast_2d(element_parameters(shape_of(op.rhs), kind)[0]), rows)


def _multiplier(lowering: Lowering, given: FloatArray, wanted: FloatArray, width: int, word: int) -> Multiplier:
    """The multiplier from scales to others, one or one per column.

    It is a shift for one ratio that is a power of two.
    """
    real = lowering.profile.ratio(given, wanted)
    if real.ndim == 0 and power_of_two(float(real)) is not None:
        return Multiplier.of(real, RequantizeBehaviour.POT, width, word)
    return lowering.profile.multiplier(real, width, word)


def _sums(lowering: Lowering, op: MatMul, *, wide: bool) -> SSAValue:
    """The sums of products, by the lowering of a temporary quantized `dot_general`."""
    rank = len(shape_of(op.lhs))
    batch = tuple(range(rank - 2))
    lhs, rhs = kind_of(op.lhs), kind_of(op.rhs)
    if rhs.is_per_layer:
        accumulator = UniformQuantizedType.per_layer(INT32, lhs.scale * rhs.scale, expressed_type=lhs.expressed_type)
    else:
        scales = lhs.scale * _columns(op, rhs).scales
        accumulator = UniformQuantizedType.per_channel(INT32, 1, scales, expressed_type=lhs.expressed_type)
    dimensions = DotDimensions(batch, batch, (rank - 1,), (rank - 2,))
    dot = lowering.builder.insert(DotGeneralOp(op.lhs, op.rhs, with_element(op.result, accumulator), dimensions))
    dot.location = op.location
    # Sums of 16-bit products exceed 32 bits after a few terms.
    if wide:
        dot.attributes[ACCUMULATOR] = i64
    sums = lower_contraction(lowering, dot)
    # The op was made only to be lowered.
    Rewriter.erase_op(dot)
    return sums


def _blockwise(lowering: Lowering, op: MatMul, columns: Columns, *, wide: bool) -> SSAValue:
    """A product for each block of rows, times its factors; the sum in 64 bits is rounded to the columns' scales."""
    factors, rows = columns.factors, columns.rows
    assert factors is not None
    (m, k), n = shape_of(op.lhs), shape_of(op.rhs)[1]
    blocks = k // rows
    weights = _centred(lowering, op).reshape(blocks, rows, n)
    # Both operands get one type, because dot kernels multiply equal widths. 16-bit weights less a zero point need 17
    # bits.
    widths = (i16, i32) if wide else (i8, i16, i32)
    half = max(-int(weights.min(initial=0)), int(weights.max(initial=0)) + 1)
    element = next(each for each in widths if half <= half_range(each.width.data))
    x = lowering.converted(lowering.stored(op.lhs), element)
    parts = lowering.insert(ReshapeOp(x, TensorType(element, [m, blocks, rows]))).result
    held = held_weights(lowering, weights, element)
    reach = kind_of(op.lhs).affine.reach * int(np.abs(weights).sum(axis=1).max(initial=0))
    # The sums of one block. Those over all blocks have 64 bits anyway.
    word = i64 if wide or reach > INT32_MAX else i32
    dot = DotGeneralOp(parts, held, TensorType(word, [blocks, m, n]), DotDimensions((1,), (0,), (2,), (1,)))
    sums = lowering.insert(dot).result
    correction = -kind_of(op.lhs).zero_point * weights.sum(axis=1)
    if correction.any():
        sums = lowering.combined(AddOp, sums, _by_block(lowering, sums, correction))
    # Factors are at most 2^15 and sums of one block below 2^31, so i64 holds the sums of 2^16 blocks.
    scaled = MultiplyOp(lowering.converted(sums, i64), _by_block(lowering, sums, factors))
    total = _added(lowering, lowering.insert(scaled).result, TensorType(i64, [m, n]))
    rounded = lowering.shifted(total, 1 << (FRACTION - 1), None)
    # The only rounding from the products to the columns' scales.
    shifted = lowering.insert(ShiftRightArithmeticOp(rounded, lowering.filled(rounded, FRACTION, i64))).result
    return shifted if wide else lowering.saturated(shifted, INT32_MIN, INT32_MAX, i32)


def _centred(lowering: Lowering, op: MatMul) -> IntArray:
    """The constant weights less their zero points."""
    stored = lowering.integers(lowering.stored(op.rhs))
    if stored is None:
        raise LoweringError(f"{describe(op)}: found blockwise weights that are not constant, expected a constant", op)
    return stored.astype(np.int64) - element_parameters(shape_of(op.rhs), kind_of(op.rhs))[1]


def _by_block(lowering: Lowering, like: SSAValue, numbers: IntArray) -> SSAValue:
    """Numbers of [blocks, n] in i64, broadcast to [blocks, m, n]."""
    full = np.broadcast_to(numbers, (shape_of(like)[0], shape_of(like)[2]))
    constant = lowering.constant(np.ascontiguousarray(full))
    return lowering.insert(BroadcastInDimOp(constant, with_element(like, i64), [0, 2])).result


def _added(lowering: Lowering, values: SSAValue, result: TensorType) -> SSAValue:
    """The sum over the blocks."""
    scalar = TensorType(i64, [])
    block = Block(arg_types=[scalar, scalar])
    add = AddOp(block.args[0], block.args[1])
    block.add_ops([add, ReturnOp([add.result])])
    start = lowering.constant(np.array(0, np.int64))
    return lowering.insert(ReduceOp([values], [start], [result], [0], Region(block))).results[0]


def _bias(lowering: Lowering, op: RealMatMulBiasOp, scales: FloatArray) -> SSAValue:
    """The bias at the scales of the products, in i32. A constant is requantized at compile time."""
    kind, constant = kind_of(op.bias), lowering.integers(lowering.stored(op.bias))
    multiplier = _multiplier(lowering, np.asarray(kind.scale), scales, 32, 32)
    axis = 0 if multiplier.multiplier.ndim else None
    if constant is not None:
        centred: Array = constant.astype(np.int64) - kind.zero_point
        # The profile's 32-bit requantization reads 32-bit accumulators only.
        if np.abs(centred).max(initial=0) <= INT32_MAX:
            centred = centred.astype(np.int32)
        folded = requantize(centred, multiplier, 0, INT32_MIN, INT32_MAX, axis=axis, dtype=np.int32)
        return lowering.constant(folded)
    return lowering.rescaled(lowering.widened(lowering.stored(op.bias), kind.zero_point), multiplier, 0, INT32, axis)
