"""Constant operands of sums and products in OpenVINO, as real numbers."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_floats import kept, of_dtype, requantized, stored, stored_again, stored_steps
from zeropoint.materialize.openvino_operands import CHANNELS, FileOperand, shape_in_file
from zeropoint.numerics.openvino import PerChannel, RangeFactors, is_symmetric, moved_ends, rescaling

ZERO, ONE = np.float32(0), np.float32(1)


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


def in_file(operand: FileOperand, constant: Array) -> Array:
    """A constant operand of a sum or product with another operand, with the shape that it has in the file."""
    result, weights = shape_of(operand.value), operand.kernel.weights
    return np.broadcast_to(constant, shape_in_file(constant.shape, result, operand.source, operand.kind, weights))


def stored_in_range(
    run: FloatArithmetic, operand: FileOperand, value: SSAValue, unit: PerChannel, steps: PerChannel = ZERO
) -> SSAValue:
    """Multiples of `unit` plus constant steps, quantized to the result's type by ends of its range that they move."""
    result = of_dtype(run.kernel.output_type)
    low, high = moved_ends(result, unit, steps)
    if (same := kept(run, value, operand.kind, low, high)) is not None:
        return same
    if not operand.is_followed(np.shape(low)):
        k, shift = rescaling(low, high)
        product = run.made(hlo.MultiplyOp(value, wide(run, value, k)))
        if is_symmetric(shift, result):
            return stored(run, product)
        return stored_steps(run, run.made(hlo.AddOp(product, wide(run, value, shift))))
    by = RangeFactors.of_ends(low, high, result)
    if np.size(low) == 1:
        return requantized(run, UnroundedFloats(value), by)
    product = run.made(hlo.MultiplyOp(value, wide(run, value, by.scale)))
    return stored(run, product if by.is_scale else run.made(hlo.AddOp(product, wide(run, value, by.shift))))


def stored_apart(
    run: FloatArithmetic, operand: FileOperand, constant: Array, value: SSAValue, unit: np.float32 = ONE
) -> SSAValue:
    """The sum or product of an operand and a constant as multiples of `unit`, quantized to the result's type."""
    if not operand.is_followed(constant.shape if constant.ndim > CHANNELS else ()):
        return stored_again(run, value, unit)
    return requantized(run, UnroundedFloats(value), RangeFactors.of(of_dtype(run.kernel.output_type), unit))


def wide(run: FloatArithmetic, like: SSAValue, numbers: Array | np.float32) -> SSAValue:
    """Numbers in f32 broadcast to the type of `like`."""
    array = np.asarray(numbers, np.float32)
    constant = run.kernel.constant(array)
    if array.shape == shape_of(like):
        return constant
    axes = range(len(shape_of(like)) - array.ndim, len(shape_of(like)))
    return run.made(hlo.BroadcastInDimOp(constant, like.type, [*axes]))
