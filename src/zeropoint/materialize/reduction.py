"""Pooling, mean and sum. Sums are computed in i32, so that no intermediate sum saturates."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel, quantized_body
from zeropoint.numerics.ranges import held_scale

SUM = Storage.of("i32")
# A sum of n 8-bit values times round(2^22 / n) is about 255 * 2^22 < 2^30 at most, so it fits i32 for every count n.
RECIPROCAL_BITS = 22
BYTE_REACH = 255


def max_pool(kernel: MaterializedKernel) -> SSAValue:
    """`reduce_window` with `maximum` on storage integers. The least storage integer stands for -inf."""
    op = next(op for op in kernel.body if isinstance(op, ReduceWindowOp))
    quantized = kernel.output_type
    kernel.values[op.init_values[0]] = kernel.scalar(quantized.storage.minimum, quantized)
    return kernel.retyped(op, quantized, quantized_body(MaximumOp, quantized))


def extreme(kernel: MaterializedKernel) -> SSAValue:
    """`reduce` with `maximum` or `minimum` on storage integers. An end of the storage range stands for -inf or inf."""
    op = next(op for op in kernel.body if isinstance(op, ReduceOp))
    quantized, body = kernel.output_type, body_op(op.body)
    assert body is MaximumOp or body is MinimumOp
    initial = quantized.storage.minimum if body is MaximumOp else quantized.storage.maximum
    kernel.values[op.init_values[0]] = kernel.scalar(initial, quantized)
    return kernel.retyped(op, quantized, quantized_body(body, quantized))


def _widened(kernel: MaterializedKernel) -> UniformQuantizedType:
    """Convert the input to i32 at the same scale with zero point 0, which is exact. Returns the new type."""
    argument = kernel.arguments[0]
    wide = UniformQuantizedType.per_layer(SUM, kernel.type_of(argument).scale)
    narrow = kernel.values[argument]
    kernel.values[argument] = kernel.insert(UniformQuantizeOp(narrow, with_element(narrow, wide)), kernel.region).result
    return wide


def _times_reciprocal(
    kernel: MaterializedKernel, value: SSAValue, op: Operation, wide: UniformQuantizedType, *, shifts: bool
) -> tuple[SSAValue, UniformQuantizedType]:
    """`value / count` as an exact product in i32: by 1 at scale 1/count, or by round(2^22 / count) at scale 2^-22.

    The second form is for counts that differ, and for power-of-two scales, where it makes the requantization a shift.
    For a power-of-two count, the first form is a shift, too.
    """
    divisor = splat_value(op.operands[1], kernel.weights)
    # A mantissa of 0.5 means that the divisor is a power of two.
    if divisor is not None and (not shifts or np.frexp(divisor)[0] == 0.5):
        scale = 1.0 / divisor if isinstance(op, DivideOp) else divisor
        stored = np.ones(shape_of(value), np.int32)
    else:
        array = constant_array(op.operands[1], kernel.weights)
        assert array is not None or divisor is not None
        counts = np.full(shape_of(value), divisor) if array is None else array
        factors = 1.0 / counts.astype(np.float64) if isinstance(op, DivideOp) else counts.astype(np.float64)
        scale = 2.0**-RECIPROCAL_BITS
        stored = np.rint(factors / scale).astype(np.int32)
    reciprocal = UniformQuantizedType.per_layer(SUM, scale)
    product = UniformQuantizedType.per_layer(SUM, wide.scale * scale)
    constant = kernel.constant(stored, reciprocal)
    made = kernel.insert(MultiplyOp(value, constant, with_element(value, product)), op)
    return made.result, product


def _terms(op: ReduceOp | ReduceWindowOp) -> int:
    """The number of terms of each sum."""
    if isinstance(op, ReduceWindowOp):
        return prod(array_values(op.window_dimensions))
    return prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))


def _fits(kernel: MaterializedKernel, *, shifts: bool) -> bool:
    """Whether i32 holds all sums and their products with a reciprocal.

    A factor of 22 fractional bits leaves room for 8-bit values only (`RECIPROCAL_BITS`).
    """
    reach = kernel.type_of(kernel.arguments[0]).affine.reach
    for op in kernel.body:
        if isinstance(op, ReduceOp | ReduceWindowOp) and _terms(op) * reach > SUM.maximum:
            return False
        if isinstance(op, DivideOp | MultiplyOp):
            return reach <= BYTE_REACH or (not shifts and splat_value(op.operands[1], kernel.weights) is not None)
    return True


def summed(kernel: MaterializedKernel, *, shifts: bool = False) -> SSAValue:
    """`uniform_quantize` to i32, `reduce | reduce_window` with `add`, times 1/count, `uniform_quantize`."""
    if not _fits(kernel, shifts=shifts):
        return encased(
            kernel, "sums that exceed 32 bits, and means of 16-bit values with different counts, have no integer form"
        )
    wide = _widened(kernel)
    value = kernel.values[kernel.arguments[0]]
    for op in kernel.body:
        if isinstance(op, ReduceOp | ReduceWindowOp):
            kernel.values[op.init_values[0]] = kernel.scalar(0, wide)
            value = kernel.retyped(op, wide, quantized_body(AddOp, wide))
        elif isinstance(op, ReshapeOp | BroadcastInDimOp) and op.operand in kernel.values:
            value = kernel.retyped(op, wide)
        elif isinstance(op, DivideOp | MultiplyOp):
            value, wide = _times_reciprocal(kernel, value, op, wide, shifts=shifts)
    narrowed = UniformQuantizeOp(value, with_element(value, kernel.output_type))
    return kernel.insert(narrowed, kernel.region).result


def summed_by_shifts(kernel: MaterializedKernel) -> SSAValue:
    """`summed`, but if input and output have power-of-two scales, its requantization is a shift for every count."""
    scales = kernel.type_of(kernel.arguments[0]).scale, kernel.output_type.scale
    return summed(kernel, shifts=all(held_scale(scale, "power_of_two") == scale for scale in scales))


BY_SHIFTS = {"average_pool": summed_by_shifts, "mean": summed_by_shifts}
"""Kernels of our own profiles. Runtimes multiply by 1 / count in the requantization instead."""

KERNELS = {
    "average_pool": summed,
    "max_pool": max_pool,
    "mean": summed,
    "reduce_max": extreme,
    "reduce_min": extreme,
    "sum": summed,
}
