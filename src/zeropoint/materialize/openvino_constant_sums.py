"""Sums with a constant in OpenVINO: the constant is a real number in steps of the other operand.

Constants that are no larger than one number, or one for each element of the first two dimensions, move the ends of the
result's range (`numerics.openvino.moved_ends`). Others are added.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_constants import in_file, real_constant, stored_apart, stored_in_range, wide
from zeropoint.materialize.openvino_floats import REASON, stored_again
from zeropoint.materialize.openvino_operands import FileOperand, is_by_channel


def constant_sum(kernel: MaterializedKernel, op: hlo.AddOp) -> SSAValue | None:
    """The sum of a value and a constant that is not larger; None for other sums."""
    found = [real_constant(kernel, operand) for operand in op.operands]
    number = next((number for number, array in enumerate(found) if array is not None), None)
    if number is None or not is_of_bytes(kernel):
        return None
    constant, value = found[number], op.operands[1 - number]
    if constant is None or value not in kernel.arguments or found[1 - number] is not None:
        return None
    run, operand = FloatArithmetic(kernel, REASON), FileOperand(kernel, value)
    centred = run.to(run.centred(kernel.values[value], operand.kind), f32)
    unit = np.float32(operand.kind.scale)
    steps = (in_file(operand, constant) / unit).astype(np.float32)
    if is_by_channel(steps.shape):
        return bounded(kernel, stored_in_range(run, operand, centred, unit, steps))
    total = run.made(hlo.AddOp(centred, wide(run, centred, steps)))
    # OpenVINO subtracts a constant that is nowhere positive. Others it adds to floats, if the integers are unsigned.
    is_subtracted = operand.kind.storage.type.signed or bool((steps <= 0).all())
    made = stored_apart(run, operand, steps, total, unit) if is_subtracted else stored_again(run, total, unit)
    return bounded(kernel, made)
