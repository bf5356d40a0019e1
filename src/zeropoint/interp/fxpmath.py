"""Fixed-point ops of the integer program; what they compute is `zeropoint.numerics`.

Source: the docstrings of `zeropoint.ir.fxpmath`.
"""

from __future__ import annotations

import numpy as np

from zeropoint.interp.binding import Binary, Function, Scope
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import CommonScaleSum, Multiplier, RequantizeBehaviour
from zeropoint.numerics.requantize import requantize as requantize_accumulators


def requantize(op: RequantizeOp, scope: Scope) -> Function:
    """clamp(round(acc * m) + zero_point, storage_min, storage_max), m and the rounding as `behaviour` has them."""
    behaviour = RequantizeBehaviour(op.behaviour.data)
    zero_point, low, high = (int(a.value.data) for a in (op.zero_point, op.storage_min, op.storage_max))
    axis = None if op.axis is None else int(op.axis.value.data)
    dtype = element_dtype(element_of(op.result))

    def resolve(multiplier: Array, shift: tuple[Array, ...]) -> Multiplier:
        # One element is one multiplier for the whole tensor.
        parts = [part.reshape(()) if part.size == 1 else part for part in (multiplier, *shift)]
        return Multiplier(behaviour, *parts)

    operands = [scope.constant(value) for value in op.operands[1:]]
    known = [operand for operand in operands if operand is not None]
    resolved = resolve(known[0], tuple(known[1:])) if len(known) == len(operands) else None

    def run(accumulator: Array, multiplier: Array, *shift: Array) -> Array:
        m = resolve(multiplier, shift) if resolved is None else resolved
        return requantize_accumulators(accumulator, m, zero_point, low, high, axis=axis, dtype=dtype)

    return run


def weighted_sum(op: WeightedSumOp, scope: Scope) -> Function:
    """clamp(zero_point + (sum_i (x_i - zero_points[i]) * multipliers[i] + 2^(shift-1)) >> shift), in i32."""
    dtype = element_dtype(element_of(op.result))
    shift, zero_point, low, high = (
        int(a.value.data) for a in (op.shift, op.zero_point, op.storage_min, op.storage_max)
    )
    total = CommonScaleSum(
        array_values(op.multipliers),
        array_values(op.zero_points),
        shift,
        zero_point,
        low,
        high,
    )

    def run(*inputs: Array) -> Array:
        return total.apply(*inputs).astype(dtype, copy=False)

    return run


def table(op: TableOp, scope: Scope) -> Binary:
    """result = table[x - minimum of x's type]."""
    operand = element_dtype(element_of(op.operand))
    start = int(np.iinfo(operand).min)
    return lambda x, entries: np.take(entries, x.astype(np.intp) - start)
