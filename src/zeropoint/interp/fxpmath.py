"""Fixed-point ops of the integer program; their arithmetic is in `zeropoint.numerics`.

Source: the docstrings of `zeropoint.ir.fxpmath`.
"""

from __future__ import annotations

import numpy as np

from zeropoint.interp.binding import Binary, Function, Scope
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.tensors import Array, element_dtype, element_of


def requantize(op: RequantizeOp, scope: Scope) -> Function:
    """clamp(round(acc * m) + zero_point, storage_min, storage_max); `behaviour` defines m and the rounding."""
    dtype = element_dtype(element_of(op.result))
    operands = [scope.constant(value) for value in op.operands[1:]]
    known = [operand for operand in operands if operand is not None]
    resolved = op.requantization(*known) if len(known) == len(operands) else None

    def run(accumulator: Array, *factors: Array) -> Array:
        return (resolved or op.requantization(*factors)).apply(accumulator, dtype)

    return run


def weighted_sum(op: WeightedSumOp, scope: Scope) -> Function:
    """clamp(zero_point + (sum_i (x_i - zero_points[i]) * multipliers[i] + 2^(shift-1)) >> shift), in i32."""
    total, dtype = op.sum, element_dtype(element_of(op.result))
    return lambda *inputs: total.apply(*inputs).astype(dtype, copy=False)


def table(op: TableOp, scope: Scope) -> Binary:
    """result = table[x - minimum of x's type]."""
    operand = element_dtype(element_of(op.operand))
    start = int(np.iinfo(operand).min)
    return lambda x, entries: np.take(entries, x.astype(np.intp) - start)
