"""Products in OpenVINO: real numbers, or integers at the scale of the product, then quantized (`numerics.openvino`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import shape_of
from zeropoint.materialize import onnxruntime
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_floats import REASON, of_dtype, stored_again
from zeropoint.materialize.openvino_operands import is_rounded, outer, readers
from zeropoint.numerics.openvino import real_steps
from zeropoint.numerics.storage import dtype_range

ONE = np.float32(1)


def multiply(kernel: MaterializedKernel) -> SSAValue:
    """A product with a number, or of two values that nothing else reads; others as in onnxruntime."""
    op = next(op for op in kernel.body if isinstance(op, hlo.MultiplyOp))
    if not is_of_bytes(kernel):
        return onnxruntime.multiply(kernel)
    numbers = [_number(kernel, operand) for operand in op.operands]
    data = [operand for operand, number in zip(op.operands, numbers, strict=True) if number is None]
    if not all(operand in kernel.arguments and is_rounded(outer(kernel, operand)) for operand in data):
        return onnxruntime.multiply(kernel)
    run, found = FloatArithmetic(kernel, REASON), [number for number in numbers if number is not None]
    if len(data) == 1 and found[0] > 0:
        kind = kernel.type_of(data[0])
        centred = run.to(run.centred(kernel.values[data[0]], kind), f32)
        return bounded(kernel, stored_again(run, centred, np.float32(kind.scale) * found[0]))
    is_alone = len(data) == 2 and all(readers(kernel, operand) == 1 for operand in data)
    if is_alone and shape_of(data[0]) == shape_of(data[1]):
        return bounded(kernel, stored_again(run, _product(run, data), ONE))
    return onnxruntime.multiply(kernel)


def _number(kernel: MaterializedKernel, operand: SSAValue) -> np.float32 | None:
    """The real number that an operand is everywhere; None if it is computed or has several."""
    value = operand.owner.operand if isinstance(operand.owner, hlo.BroadcastInDimOp) else operand
    if value not in kernel.arguments:
        return None
    array, kind = constant_array(kernel.values[value], kernel.weights), kernel.type_of(value)
    if array is None or array.size != 1:
        return None
    return np.float32(int(array.item()) - kind.zero_point) * np.float32(kind.scale)


def _product(run: FloatArithmetic, data: list[SSAValue]) -> SSAValue:
    """Real numbers times real numbers, or times stored integers if these have zero point 0."""
    first, second = (run.kernel.type_of(operand) for operand in data)
    if second.zero_point:
        return run.made(hlo.MultiplyOp(_real(run, data[0], first, ONE), _real(run, data[1], second, ONE)))
    whole = run.to(run.centred(run.kernel.values[data[1]], second), f32)
    return run.made(hlo.MultiplyOp(_real(run, data[0], first, np.float32(second.scale)), whole))


def _real(run: FloatArithmetic, operand: SSAValue, kind: UniformQuantizedType, factor: np.float32) -> SSAValue:
    """The real numbers of an operand times a factor."""
    step, low = real_steps(of_dtype(kind), factor)
    number = run.plus(
        run.centred(run.kernel.values[operand], kind), kind.zero_point - dtype_range(kind.storage.dtype)[0]
    )
    return run.fused(run.to(number, f32), step, low)
