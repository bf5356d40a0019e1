"""Products in OpenVINO: real numbers, or integers at the scale of the product, then quantized (`numerics.openvino`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import Array
from zeropoint.materialize import onnxruntime
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes, operands_of
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_constants import (
    ONE,
    in_file,
    real_constant,
    stored_apart,
    stored_in_range,
    wide,
)
from zeropoint.materialize.openvino_floats import REASON, above_zero, of_dtype, stored_again
from zeropoint.materialize.openvino_held import held_operand, is_stored
from zeropoint.materialize.openvino_operands import FileOperand, channel_axis, expressed, has_channels, is_by_channel
from zeropoint.numerics.openvino import PerChannel, real_steps
from zeropoint.numerics.storage import dtype_range


def multiply(kernel: MaterializedKernel) -> SSAValue:
    """A product with a constant, or of two values. One that is no such product of bytes is as in onnxruntime."""
    op = next(op for op in kernel.body if isinstance(op, hlo.MultiplyOp))
    pair = (FileOperand(kernel, op.lhs), FileOperand(kernel, op.rhs))
    if any(operand.argument is None for operand in pair):
        return onnxruntime.multiply(kernel)
    if not is_of_bytes(kernel) and not has_channels(pair):
        return onnxruntime.multiply(kernel)
    constants = [real_constant(kernel, operand) for operand in op.operands]
    run, values = FloatArithmetic(kernel, REASON, channel_axis(pair)), operands_of(kernel, op)
    for number, constant in enumerate(constants):
        if constant is not None and constants[1 - number] is None:
            return bounded(kernel, _with_constant(run, values[1 - number], pair[1 - number], constant))
    held = is_stored(kernel)
    return bounded(kernel, stored_again(run, _product(run, values, pair), ONE, is_stored=held))


def _with_constant(run: FloatArithmetic, value: SSAValue, operand: FileOperand, constant: Array) -> SSAValue:
    """A product with a constant, whose positive numbers per channel change the ends of the result's range."""
    centred = run.to(run.centred(value, operand.kind), f32)
    units = in_file(operand, constant) * np.float32(operand.kind.scale)
    if is_by_channel(units.shape) and (units > 0).all():
        return stored_in_range(run, operand, centred, units)
    return stored_apart(run, operand, units, run.made(hlo.MultiplyOp(centred, wide(run, centred, units))))


def _product(run: FloatArithmetic, values: list[SSAValue], pair: tuple[FileOperand, FileOperand]) -> SSAValue:
    """Real numbers times real numbers, or times the stored integers of the other operand if its zero point is 0."""
    number = expressed(pair)
    term, other = pair[number], pair[1 - number]
    if np.any(held_operand(run.kernel, other.source, other.kind)[0].zero):
        return run.made(hlo.MultiplyOp(_real(run, values[0], pair[0], ONE), _real(run, values[1], pair[1], ONE)))
    whole = run.to(run.centred(values[1 - number], other.kind), f32)
    return run.made(hlo.MultiplyOp(_real(run, values[number], term, np.float32(of_dtype(other.kind).scale)), whole))


def _real(run: FloatArithmetic, value: SSAValue, operand: FileOperand, factor: PerChannel) -> SSAValue:
    """The real numbers of an operand times a factor."""
    kind = operand.kind
    if not operand.is_folded:
        held, moved = held_operand(run.kernel, operand.source, kind)
        return run.times(run.plus(above_zero(run, value, kind, -moved), -held.zero), held.scale * factor)
    step, low = real_steps(of_dtype(kind), factor)
    return run.fused(above_zero(run, value, kind, dtype_range(kind.storage.dtype)[0]), step, low)
