"""Sums with a constant in OpenVINO: the constant is a real number in steps of the other operand.

Constants with one number, or one for each element of the second dimension, move the ends of the result's range
(`numerics.openvino.moved_rescaling`). Others are added.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array
from zeropoint.ir.tensors import Array, shape_of, with_element
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_floats import REASON, of_dtype, stored_again, stored_steps
from zeropoint.numerics.openvino import moved_rescaling

CHANNELS = 1
"""The dimension along which a constant may have several numbers and still move a range."""


def constant_sum(kernel: MaterializedKernel, op: hlo.AddOp) -> SSAValue | None:
    """The sum of a value and a constant that is not larger; None for other sums."""
    found = [_spread(kernel, operand) for operand in op.operands]
    number = next((number for number, array in enumerate(found) if array is not None), None)
    if number is None or not is_of_bytes(kernel):
        return None
    constant, value = found[number], op.operands[1 - number]
    if constant is None or value not in kernel.arguments or found[1 - number] is not None:
        return None
    run, kind, wanted = FloatArithmetic(kernel, REASON), kernel.type_of(value), kernel.output_type
    centred = run.to(run.centred(kernel.values[value], kind), f32)
    unit = np.float32(kind.scale)
    steps = (constant / unit).astype(np.float32)
    if all(size == 1 for axis, size in enumerate(steps.shape) if axis != CHANNELS):
        k, shift = moved_rescaling(unit, steps, of_dtype(wanted))
        product = run.made(hlo.MultiplyOp(centred, _wide(run, centred, k)))
        return bounded(kernel, stored_steps(run, run.made(hlo.AddOp(product, _wide(run, centred, shift)))))
    total = run.made(hlo.AddOp(centred, _wide(run, centred, steps)))
    return bounded(kernel, stored_again(run, total, unit))


def _spread(kernel: MaterializedKernel, operand: SSAValue) -> Array | None:
    """The real numbers of a constant operand in f32, with the dimensions of the sum; None if it is computed."""
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


def _wide(run: FloatArithmetic, like: SSAValue, array: Array) -> SSAValue:
    """An array broadcast to the type of `like`."""
    constant, rank = run.kernel.constant(array), range(len(shape_of(like)))
    if array.shape == shape_of(like):
        return constant
    return run.made(hlo.BroadcastInDimOp(constant, with_element(like, f32), [*rank]))
