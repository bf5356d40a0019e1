"""The fixed-point ops of integer programs. Their arithmetic is in `zeropoint.numerics`.

Source: the docstrings of `zeropoint.ir.fxpmath`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeropoint.interp.binding import ArrayFunction, Binary, Scope, Unary
from zeropoint.interp.errors import ExecutionError
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.fxpmath.checks import number
from zeropoint.ir.locations import describe
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics.interpolation import interpolated
from zeropoint.numerics.requantize import Requantization
from zeropoint.numerics.rounding import rounding_divide_by_pot, saturating_rounding_doubling_high_mul


def requantize(op: RequantizeOp, scope: Scope) -> ArrayFunction:
    """clamp(round(acc * m) + zero_point, storage_min, storage_max). `behaviour` defines m and the rounding."""
    dtype = element_dtype(element_of(op.result))
    operands = [scope.constant(value) for value in op.operands[1:]]
    known = [operand for operand in operands if operand is not None]
    resolved = op.requantization(*known) if len(known) == len(operands) else None

    def run(accumulator: Array, *factors: Array) -> Array:
        # Constant multipliers are checked and prepared once.
        return (resolved or _computed(op, factors)).apply(accumulator, dtype)

    return run


def _computed(op: RequantizeOp, factors: Sequence[Array]) -> Requantization:
    """`requantize` with computed multipliers. Raises ExecutionError if one is out of range."""
    try:
        return op.requantization(*factors)
    except ValueError as error:
        raise ExecutionError(f"{describe(op)}: {error}") from error


def weighted_sum(op: WeightedSumOp, scope: Scope) -> ArrayFunction:
    """clamp(zero_point + (sum_i (x_i - zero_points[i]) * multipliers[i] + 2^(shift-1)) >> shift), in i32."""
    total, dtype = op.sum, element_dtype(element_of(op.result))
    return lambda *inputs: total.apply(*inputs).astype(dtype, copy=False)


def table(op: TableOp, scope: Scope) -> Binary:
    """result = table[x - minimum of x's type]."""
    operand = element_dtype(element_of(op.operand))
    start = int(np.iinfo(operand).min)
    return lambda x, entries: np.take(entries, x.astype(np.intp) - start)


def rounding_divide(op: RoundingDivideByPotOp, scope: Scope) -> Unary:
    """operand / 2^exponent to nearest, ties away from zero."""
    exponent, dtype = number(op.exponent), element_dtype(element_of(op.result))
    return lambda x: rounding_divide_by_pot(x, exponent).astype(dtype)


def saturating_add(op: SaturatingAddOp, scope: Scope) -> Binary:
    """clamp(lhs + rhs, storage_min, storage_max)."""
    low, high, dtype = number(op.storage_min), number(op.storage_max), element_dtype(element_of(op.result))
    return lambda x, y: np.clip(x.astype(np.int64) + y.astype(np.int64), low, high).astype(dtype)


def high_product(op: SaturatingRoundingDoublingHighMulOp, scope: Scope) -> Unary:
    """2 * operand * multiplier / 2^32 to nearest, ties up, saturated."""
    multiplier, dtype = number(op.multiplier), element_dtype(element_of(op.result))
    return lambda x: saturating_rounding_doubling_high_mul(x, multiplier).astype(dtype)


def quotient(op: QuotientOp, scope: Scope) -> Binary:
    """clamp(zero_point + floor((lhs - z0) * multiplier / ((rhs - z1) * 2^shift) + 1/2))."""
    division, dtype = op.division, element_dtype(element_of(op.result))
    return lambda x, y: division.apply(x, y).astype(dtype)


def interpolate(op: InterpolateOp, scope: Scope) -> Binary:
    """table[i] + ((table[i + 1] - table[i]) * f + 2^(S-1)) >> S, for x + 2^15 = i 2^S + f."""
    dtype = element_dtype(element_of(op.result))
    return lambda x, table: interpolated(x, table).astype(dtype)
