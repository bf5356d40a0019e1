"""Sums with a constant in OpenVINO: the constant is a real number in steps of the other operand.

Constants that are no larger than one number, or one for each element of the first two dimensions, move the ends of the
result's range (`numerics.openvino.moved_rescaling`). Others are added.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_constants import is_by_channel, real_constant, wide
from zeropoint.materialize.openvino_floats import REASON, of_dtype, stored_again, stored_steps
from zeropoint.numerics.openvino import moved_rescaling


def constant_sum(kernel: MaterializedKernel, op: hlo.AddOp) -> SSAValue | None:
    """The sum of a value and a constant that is not larger; None for other sums."""
    found = [real_constant(kernel, operand) for operand in op.operands]
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
    if is_by_channel(steps):
        k, shift = moved_rescaling(unit, steps, of_dtype(wanted))
        product = run.made(hlo.MultiplyOp(centred, wide(run, centred, k)))
        return bounded(kernel, stored_steps(run, run.made(hlo.AddOp(product, wide(run, centred, shift)))))
    total = run.made(hlo.AddOp(centred, wide(run, centred, steps)))
    return bounded(kernel, stored_again(run, total, unit))
