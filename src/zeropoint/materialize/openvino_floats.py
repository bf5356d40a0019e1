"""Floats of OpenVINO's integer kernels, and how they are quantized (`numerics.openvino`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import INTEGER_SUMS
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import UnroundedFloats
from zeropoint.numerics.openvino import PerChannel, RangeFactors, is_symmetric, keeps_integers, moved_ends, rescaling
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.storage import dtype_range

REASON = "OpenVINO's kernel computes in floats"
SCALES_SUMS = f"{INTEGER_SUMS}OpenVINO's kernel scales in floats"
"""The reason of an integer kernel whose sums are requantized in floats."""


def along(run: FloatArithmetic, like: SSAValue, numbers: Array | np.float32, axis: int | None) -> SSAValue:
    """Numbers along an axis, or one number, broadcast to the shape of `like`."""
    number = run.kernel.constant(np.asarray(numbers).reshape(() if axis is None else -1))
    return run.made(hlo.BroadcastInDimOp(number, like.type, [] if axis is None else [axis]))


def scaled(run: FloatArithmetic, of: UnroundedFloats, factor: PerChannel, addend: PerChannel) -> SSAValue:
    """fma(value, factor, addend), or with a factor per channel fl(fl(value * factor) + addend)."""
    if np.size(factor) == 1 and np.size(addend) == 1:
        return run.fused(of.value, *(np.float32(np.asarray(number).item()) for number in (factor, addend)))
    return plus(run, times(run, of, factor), addend)


def times(run: FloatArithmetic, of: UnroundedFloats, factor: PerChannel) -> UnroundedFloats:
    """The values times a factor, or one per channel."""
    number = along(run, of.value, factor, of.axis if np.size(factor) > 1 else None)
    return replace(of, value=run.made(hlo.MultiplyOp(of.value, number)))


def plus(run: FloatArithmetic, of: UnroundedFloats, addend: PerChannel) -> SSAValue:
    """The values plus a number, or one per channel."""
    number = along(run, of.value, addend, of.axis if np.size(addend) > 1 else None)
    return run.made(hlo.AddOp(of.value, number))


def of_dtype(kind: UniformQuantizedType) -> AffineParameters:
    """The parameters with the range of the dtype that holds the storage, because OpenVINO has no narrower ranges."""
    first, last = dtype_range(kind.storage.dtype)
    return replace(kind.affine, storage_min=first, storage_max=last)


def above_zero(run: FloatArithmetic, value: SSAValue, kind: UniformQuantizedType, zero: int = 0) -> SSAValue:
    """Stored integers minus `zero`, in f32."""
    return run.to(run.plus(run.centred(value, kind), of_dtype(kind).zero_point - zero), f32)


def requantized(run: FloatArithmetic, of: UnroundedFloats, by: RangeFactors, moved: int = 0) -> SSAValue:
    """Floats quantized to the result's type. They are clamped before they are rounded.

    `moved` is what the integers that OpenVINO stores are greater than those of the type.
    """
    value = times(run, of, by.scale).value if by.is_scale else scaled(run, of, by.scale, by.shift)
    return stored(run, value, moved)


def stored(run: FloatArithmetic, value: SSAValue, moved: int = 0) -> SSAValue:
    """Steps of the result's type, clamped and then rounded. All its channels have one zero point."""
    wanted = run.kernel.output_type
    value = run.clamped(value, wanted.storage.minimum + moved, wanted.storage.maximum + moved)
    return run.rounded(value, int(wanted.zero_points.flat[0]) + moved)


def real_of(run: FloatArithmetic, of: UnroundedFloats) -> SSAValue:
    """Floats as real numbers."""
    return of.value if of.unit is None else run.made(hlo.MultiplyOp(of.value, along(run, of.value, of.unit, of.axis)))


def stored_again(run: FloatArithmetic, value: SSAValue, unit: PerChannel, *, is_stored: bool = True) -> SSAValue:
    """Multiples of `unit`, in f32, quantized to the result's type with two roundings before the last.

    `is_stored`: the result is stored as integers, not dequantized in the same kernel as an output of the program.
    """
    result = of_dtype(run.kernel.output_type)
    k, shift = rescaling(*moved_ends(result, unit))
    product = run.times(value, k)
    if is_stored and is_symmetric(shift, result):
        return stored(run, product)
    return stored_steps(run, run.plus(product, shift))


def kept(
    run: FloatArithmetic, value: SSAValue, given: UniformQuantizedType, low: PerChannel, high: PerChannel
) -> SSAValue | None:
    """The stored integers of another type, in f32, as those of the result, if OpenVINO keeps them (`keeps_integers`).

    `low` and `high` are the ends of the result's range in steps of the other type.
    """
    wanted = run.kernel.output_type
    if given.zero_points.any() or given.storage.dtype != wanted.storage.dtype:
        return None
    if not keeps_integers(low, high, of_dtype(wanted)):
        return None
    return run.stored(run.plus(run.to(value, i32), -wanted.zero_point))


def stored_steps(run: FloatArithmetic, steps: SSAValue) -> SSAValue:
    """Steps above the least stored integer of the result's type, clamped and then rounded."""
    wanted = run.kernel.output_type
    first, last = dtype_range(wanted.storage.dtype)
    return run.rounded(run.clamped(steps, 0, last - first), wanted.zero_point - first)
