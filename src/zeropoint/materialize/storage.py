"""Arithmetic on the storage integers of a kernel, for runtimes whose kernels differ from StableHLO."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.requantize import Multiplier


def stored_input(kernel: MaterializedKernel) -> SSAValue:
    """The storage integers of the kernel's input."""
    value = kernel.values[kernel.arguments[0]]
    element = element_of(value)
    assert isinstance(element, UniformQuantizedType)
    cast = StorageCastOp(value, with_element(value, IntegerType(element.storage.type.width)))
    return kernel.insert(cast, kernel.region).result


def expressed(kernel: MaterializedKernel, stored: SSAValue) -> SSAValue:
    """The kernel's result from its storage integers."""
    return kernel.insert(StorageCastOp(stored, with_element(stored, kernel.output_type)), kernel.region).result


def repeated(kernel: MaterializedKernel, number: int | Array, like: SSAValue) -> SSAValue:
    """A constant of the type of `like`. A number is broadcast."""
    array = np.asarray(number, element_dtype(element_of(like)))
    made = kernel.constant(array)
    if array.shape == shape_of(like):
        return made
    return kernel.insert(BroadcastInDimOp(made, with_element(like, element_of(like)), []), kernel.region).result


def away_from_zero(kernel: MaterializedKernel, total: SSAValue, half: SSAValue) -> SSAValue:
    """total + half if total > 0, else total - half, so that a truncating division rounds half away from zero."""
    positive = kernel.insert(CompareOp(total, repeated(kernel, 0, total), ComparisonDirection.GT), kernel.region).result
    more = kernel.insert(AddOp(total, half), kernel.region).result
    less = kernel.insert(SubtractOp(total, half), kernel.region).result
    return kernel.insert(SelectOp(positive, more, less), kernel.region).result


def is_plain(kernel: MaterializedKernel) -> bool:
    """Whether the kernel's first input and its result are signed 8- or 16-bit values with one scale."""
    kinds = (element_of(kernel.values[kernel.arguments[0]]), kernel.output_type)
    return all(
        isinstance(kind, UniformQuantizedType)
        and kind.is_per_layer
        and kind.storage.type.signed
        and kind.storage.type.width in (8, 16)
        for kind in kinds
    )


def division_of(kernel: MaterializedKernel) -> DivideOp | MultiplyOp | None:
    """The op of the body that divides sums or multiplies them by reciprocals; None without one."""
    return next((op for op in kernel.body if isinstance(op, DivideOp | MultiplyOp)), None)


def counts_of(kernel: MaterializedKernel, op: DivideOp | MultiplyOp) -> Array | None:
    """The counts that sums are divided by, int64; None if they are not constant integers."""
    number = splat_value(op.operands[1], kernel.weights)
    numbers = constant_array(op.operands[1], kernel.weights) if number is None else np.array(number)
    if numbers is None:
        return None
    # Models write reciprocals rounded to f32, so the counts are whole only within its precision.
    counts = numbers.astype(np.float64) if isinstance(op, DivideOp) else 1 / numbers.astype(np.float64)
    return np.rint(counts).astype(np.int64) if np.allclose(counts, np.rint(counts), rtol=1e-6) else None


def widened(kernel: MaterializedKernel) -> SSAValue:
    """The storage integers of the kernel's input, in i32."""
    stored = stored_input(kernel)
    return kernel.insert(ConvertOp(stored, with_element(stored, i32)), kernel.region).result


def reduced(kernel: MaterializedKernel) -> SSAValue:
    """The sums that the body computes before its division, in i32, from the i32 values of its input."""
    value = kernel.values[kernel.arguments[0]]
    for op in kernel.body:
        if isinstance(op, ReduceOp | ReduceWindowOp):
            kernel.values[op.init_values[0]] = kernel.constant(np.array(0, np.int32))
            value = kernel.retyped(op, i32, binary_body(AddOp, i32))
        elif isinstance(op, ReshapeOp | BroadcastInDimOp) and op.operand in kernel.values:
            value = kernel.retyped(op, i32)
    return value


def centred(kernel: MaterializedKernel) -> SSAValue:
    """The input's storage integers minus its zero point, in i32."""
    wide = widened(kernel)
    point = kernel.type_of(kernel.arguments[0]).zero_point
    return kernel.insert(SubtractOp(wide, repeated(kernel, point, wide)), kernel.region).result


def window_counts(op: ReduceWindowOp) -> IntArray:
    """The number of input elements in each window, without padding: int64 in the shape of the result."""
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    rank = len(shape)
    strides, dilations = (array_values(array, (1,) * rank) for array in (op.window_strides, op.window_dilations))
    counts = np.ones((), np.int64)
    for axis, (low, _) in enumerate(padding_values(op.padding, rank)):
        starts = np.arange(shape_of(op.results[0])[axis])[:, None] * strides[axis] - low
        taps = starts + np.arange(sizes[axis]) * dilations[axis]
        counts = np.multiply.outer(counts, ((taps >= 0) & (taps < shape[axis])).sum(axis=1))
    return counts


def requantized(
    kernel: MaterializedKernel,
    total: SSAValue,
    multiplier: Multiplier,
    axis: int | None = None,
    wanted: UniformQuantizedType | None = None,
) -> SSAValue:
    """Requantize i32 values to the storage integers of `wanted`, or of the kernel's result, by a resolved multiplier.

    A multiplier with several elements has one for each index of `axis`.
    """
    wanted = wanted or kernel.output_type
    if multiplier.shift is None:
        parts = [np.atleast_1d(multiplier.multiplier)]
    else:
        parts = [np.atleast_1d(part).astype(np.int32) for part in (multiplier.multiplier, multiplier.shift)]
    constants = [kernel.constant(part) for part in parts]
    made = RequantizeOp(
        total,
        constants[0],
        constants[1] if len(constants) > 1 else None,
        with_element(total, IntegerType(wanted.storage.type.width)),
        behaviour=multiplier.behaviour.value,
        zero_point=wanted.zero_point,
        storage_min=wanted.storage.minimum,
        storage_max=wanted.storage.maximum,
        axis=axis,
    )
    return kernel.insert(made, kernel.region).result
