"""Means in OpenVINO: sums of stored integers are divided by their number, then quantized (`numerics.openvino`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import shape_of
from zeropoint.materialize import onnxruntime, reduction
from zeropoint.materialize.float_arithmetic import FloatArithmetic, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_floats import REASON, of_dtype, requantized
from zeropoint.materialize.storage import counts_of, division_of, repeated
from zeropoint.numerics.openvino import RangeFactors


def mean(kernel: MaterializedKernel) -> SSAValue:
    """The sum of stored integers, divided by their number and then quantized, in f32."""
    run, given = FloatArithmetic(kernel, REASON), kernel.type_of(kernel.arguments[0])
    found = onnxruntime.sum_of_mean(run)
    if found is None:
        return reduction.summed(kernel)
    total, terms = found
    sums = run.to(run.plus(total, terms * given.zero_point), f32)
    return _quantized(run, run.made(hlo.DivideOp(sums, run.filled(sums, np.float32(terms)))), given)


def average_pool(kernel: MaterializedKernel) -> SSAValue:
    """The sums of stored integers times the reciprocals of their numbers, then quantized, in f32."""
    op = next(op for op in kernel.body if isinstance(op, hlo.ReduceWindowOp))
    division = division_of(kernel)
    counts = None if division is None else counts_of(kernel, division)
    given = kernel.type_of(kernel.arguments[0])
    if counts is None or not is_of_bytes(kernel) or given.storage.type.signed:  # those of i8 are other kernels
        return onnxruntime.average_pool(kernel)
    run = FloatArithmetic(kernel, REASON)
    kernel.values[kernel.arguments[0]] = run.centred(kernel.values[kernel.arguments[0]], given)
    kernel.values[op.init_values[0]] = kernel.constant(np.array(0, np.int32))
    total = kernel.retyped(op, i32, binary_body(hlo.AddOp, i32))
    numbers = np.broadcast_to(counts, shape_of(total)) if counts.size > 1 else counts.reshape(())
    points = repeated(kernel, numbers.astype(np.int32) * np.int32(given.zero_point), total)
    sums = run.to(run.made(hlo.AddOp(total, points)), f32)
    reciprocals = np.float32(1) / numbers.astype(np.float32)
    return _quantized(run, run.made(hlo.MultiplyOp(sums, repeated(kernel, reciprocals, sums))), given)


def _quantized(run: FloatArithmetic, quotient: SSAValue, given: UniformQuantizedType) -> SSAValue:
    """Means of stored integers of a type, quantized to the result's type."""
    by = RangeFactors.of_stored(of_dtype(run.kernel.output_type), np.float32(given.scale), given.zero_point)
    return requantized(run, UnroundedFloats(quotient), by)
