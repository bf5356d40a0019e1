"""Constant operands of sums and products in OpenVINO, as real numbers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array
from zeropoint.ir.tensors import Array, shape_of, with_element
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import MaterializedKernel

CHANNELS = 2
"""The number of first dimensions along which a constant may have several numbers and still change a range."""


def real_constant(kernel: MaterializedKernel, operand: SSAValue) -> Array | None:
    """The real numbers of a constant operand in f32, with the dimensions of the result; None if it is computed."""
    made = operand.owner
    value = made.operand if isinstance(made, hlo.BroadcastInDimOp) else operand
    if value not in kernel.arguments:
        return None
    array = constant_array(kernel.values[value], kernel.weights)
    if array is None:
        return None
    kind = kernel.type_of(value)
    real = (array.astype(np.int32) - kind.zero_point).astype(np.float32) * np.float32(kind.scale)
    return made.aligned(real) if isinstance(made, hlo.BroadcastInDimOp) else real


def is_by_channel(numbers: Array) -> bool:
    """Whether OpenVINO changes the range of a result by a constant, instead of computing with its elements."""
    return all(size == 1 for size in numbers.shape[CHANNELS:])


def wide(run: FloatArithmetic, like: SSAValue, array: Array) -> SSAValue:
    """An array broadcast to the type of `like`."""
    constant, rank = run.kernel.constant(array), range(len(shape_of(like)))
    if array.shape == shape_of(like):
        return constant
    return run.made(hlo.BroadcastInDimOp(constant, with_element(like, f32), [*rank]))
