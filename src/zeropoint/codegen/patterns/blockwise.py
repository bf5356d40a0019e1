"""Products of rows with weights in blocks, from the ops of `lower/real_matmul.py` to `Blockwise`.

%p = dot_general (reshape %source), constant, batching_dims = [1] x [0]      i32: [blocks, rows, channels]
%q = multiply (add (convert %p), corrections), factors                       i64; the corrections are optional
%s = shift_right_arithmetic (add (reduce add %q over [0]), 2^14), 15         i64: [rows, channels]
%y = reshape (convert %s)                                                    i32: the match starts here, backwards
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.values import Values
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.dimensions import DotDimensions
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.blockwise import FRACTION
from zeropoint.numerics.rounding import INT32_MAX

UNSIGNED_REACH = 255
"""The greatest 8-bit activation of a dot product, because kernels may read the stored integer plus 128."""


@dataclass(frozen=True, eq=False)
class Blockwise:
    """(sum over blocks of F * (sum of products + correction) + 2^14) >> 15, in i64.

    `weights` has shape (terms, channels); `factors` (F) and `corrections` have shape (blocks, channels).
    """

    source: SSAValue
    weights: Array
    factors: IntArray
    corrections: IntArray

    def reach(self, activation: int) -> IntArray:
        """An upper bound on |sum| of each channel, for |activations| up to `activation`."""
        blocks, channels = self.factors.shape
        products = np.abs(self.weights.astype(np.int64)).reshape(blocks, -1, channels).sum(axis=1) * activation
        total = (self.factors * (products + np.abs(self.corrections))).sum(axis=0)
        return (total >> FRACTION) + 1

    @staticmethod
    def of(values: Values, value: SSAValue) -> Blockwise | None:
        """The blockwise product that computes an i32 value.

        None for other values, if the sum of a block may exceed 32 bits, or if a block's terms are no multiple of 4.
        """
        scaled = _summed(values, value)
        if scaled is None:
            return None
        factors = _by_block(values, scaled.rhs)
        if factors is None:
            return None
        product, corrections = _corrected(values, scaled.lhs, np.zeros_like(factors))
        dot = defining_op(product)
        if not isinstance(dot, hlo.DotGeneralOp) or element_dtype(element_of(dot.result)) != np.int32:
            return None
        weights, parts = values.constant(dot.rhs), defining_op(dot.lhs)
        if weights is None or weights.dtype != np.int8 or not isinstance(parts, hlo.ReshapeOp):
            return None
        if dot.dot_dimension_numbers.data != DotDimensions((1,), (0,), (2,), (1,)) or weights.shape[1] % 4:
            return None
        source = parts.operand
        rows = shape_of(source)
        held = np.abs(weights.astype(np.int64)).sum(axis=1).max(initial=0) * UNSIGNED_REACH <= INT32_MAX
        if not held or len(rows) != 2 or element_dtype(element_of(source)) != np.int8:
            return None
        return Blockwise(source, weights.reshape(rows[1], -1), factors, corrections)


def _summed(values: Values, value: SSAValue) -> hlo.MultiplyOp | None:
    """The product ops whose rounded sum over the blocks is an i32 value; None for other values."""
    narrowed = defining_op(value)
    if isinstance(narrowed, hlo.ReshapeOp) and shape_of(value)[-1:] == shape_of(narrowed.operand)[-1:]:
        narrowed = defining_op(narrowed.operand)
    shifted = defining_op(narrowed.operand) if isinstance(narrowed, hlo.ConvertOp) else None
    if not isinstance(shifted, hlo.ShiftRightArithmeticOp) or values.splat(shifted.rhs) != FRACTION:
        return None
    rounded = defining_op(shifted.lhs)
    if not isinstance(rounded, hlo.AddOp) or values.splat(rounded.rhs) != 1 << (FRACTION - 1):
        return None
    total = defining_op(rounded.lhs)
    if not isinstance(total, hlo.ReduceOp) or len(total.operands) != 2 or array_values(total.dimensions) != (0,):
        return None
    first = total.body.block.first_op
    if not isinstance(first, hlo.AddOp) or values.splat(total.operands[1]) != 0 or len(total.body.block.ops) != 2:
        return None
    scaled = defining_op(total.operands[0])
    if not isinstance(scaled, hlo.MultiplyOp) or element_dtype(element_of(scaled.result)) != np.int64:
        return None
    return scaled


def _by_block(values: Values, value: SSAValue) -> IntArray | None:
    """The constants (blocks, channels) that a value broadcasts to (blocks, rows, channels); None for other values."""
    op = defining_op(value)
    if not isinstance(op, hlo.BroadcastInDimOp) or array_values(op.broadcast_dimensions) != (0, 2):
        return None
    found = values.constant(op.operand)
    full = shape_of(op.result)
    return None if found is None else np.broadcast_to(found.astype(np.int64), (full[0], full[2]))


def _corrected(values: Values, value: SSAValue, none: IntArray) -> tuple[SSAValue, IntArray]:
    """The sums of products before they are widened, and the corrections added to them. Defaults to `none`."""
    op, corrections = defining_op(value), none
    if isinstance(op, hlo.AddOp) and (found := _by_block(values, op.rhs)) is not None:
        value, corrections = op.lhs, found
    widened = defining_op(value)
    return (widened.operand if isinstance(widened, hlo.ConvertOp) else value), corrections
