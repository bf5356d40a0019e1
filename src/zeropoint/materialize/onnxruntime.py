"""onnxruntime kernels that compute in float on stored integers, exactly as its x64 kernels do.

```mlir
%2 = "quant.region"(%0, %1) ({ add }) {logical_kernel = "add"} : ...
```
becomes, under profile `onnxruntime`,
```mlir
%a = (%0 in f64: its stored integers)     %b = (the same of %1)
%t = (%b * 0.84 - 12.6 in f64, rounded to f32: a fused multiply-add)
%u = (%a * 1.27 + %t in f64, rounded to f32)
%2 = (%u rounded to even, minus the zero point, as i32 at the result's scale; `uniform_quantize` clamps it)
```
Centred integers (q - z) are i32 at the operand's scale with zero point 0. So u8 needs no special case. Kernels that are
not listed here, and those of other storage than 8 bits with one scale, follow StableHLO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32, f64, i32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.named_functions import hard_sigmoid_line
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.materialize import elementwise, movement, reduction
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes, operands_of
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import counts_of, division_of, repeated
from zeropoint.materialize.tabulated_rows import TabulatedRows
from zeropoint.numerics.onnxruntime import (
    line_operands,
    mean_factor,
    product_factor,
    softmax_factor,
    softmax_table,
    sum_factors,
)
from zeropoint.numerics.rounding import INT32_MAX

REASON = "onnxruntime's kernel computes in floats"
WORD = Storage.of("i32")


def _is_one_number(kernel: MaterializedKernel, value: SSAValue, other: SSAValue) -> bool:
    """Whether `value` is broadcast along the innermost dimension in which either operand has several elements."""
    shapes = [_spread(kernel, operand) for operand in (value, other)]
    for first, second in zip(*map(reversed, shapes), strict=True):
        if max(first, second) > 1:
            return first == 1
    return False


def _spread(kernel: MaterializedKernel, value: SSAValue) -> Sequence[int]:
    op = value.owner
    return op.aligned_shape if isinstance(op, hlo.BroadcastInDimOp) else shape_of(value)


def add(kernel: MaterializedKernel) -> SSAValue:
    """Two fused multiply-adds on stored integers.

    The right operand is added first, unless the left one is broadcast.
    """
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    if not is_of_bytes(kernel):
        return elementwise.binary(kernel)
    run, values = FloatArithmetic(kernel, REASON), operands_of(kernel, op)
    kinds = [kernel.type_of(operand) for operand in op.operands]
    found = sum_factors(kinds[0].affine, kinds[1].affine, kernel.output_type.affine)
    stored = [run.plus(run.centred(value, kind), kind.zero_point) for value, kind in zip(values, kinds, strict=True)]
    if _is_one_number(kernel, op.lhs, op.rhs):
        total = run.fused(stored[1], found.second, run.fused(stored[0], found.first, found.offset))
    else:
        total = run.fused(stored[0], found.first, run.fused(stored[1], found.second, found.offset))
    return bounded(kernel, run.rounded(total, kernel.output_type.zero_point))


def multiply(kernel: MaterializedKernel) -> SSAValue:
    """The exact product times one f32 factor. The zero point is added before rounding."""
    op = next(op for op in kernel.body if isinstance(op, hlo.MultiplyOp))
    if not is_of_bytes(kernel):
        return elementwise.binary(kernel)
    run, values = FloatArithmetic(kernel, REASON), operands_of(kernel, op)
    kinds = [kernel.type_of(operand) for operand in op.operands]
    factor = product_factor(kinds[0].affine, kinds[1].affine, kernel.output_type.affine)
    first, second = (run.centred(value, kind) for value, kind in zip(values, kinds, strict=True))
    scaled = run.times(run.to(run.made(hlo.MultiplyOp(first, second)), f32), factor)
    point = kernel.output_type.zero_point
    return bounded(kernel, run.rounded(run.plus(scaled, point), point))


def hard_sigmoid(kernel: MaterializedKernel) -> SSAValue:
    """slope * x + offset, as the sum of x, read at another scale, and a constant. The storage range clamps the sum."""
    if not is_of_bytes(kernel):
        return elementwise.encased(kernel)
    run, (argument,), kind = FloatArithmetic(kernel, REASON), kernel.arguments, kernel.type_of(kernel.arguments[0])
    returned = kernel.region.body.block.last_op
    assert returned is not None
    slope, offset = hard_sigmoid_line(
        lambda points: evaluate_chain(returned.operands[0], argument, points, kernel.weights)
    )
    found = sum_factors(*line_operands(kind.affine, slope, offset), kernel.output_type.affine)
    stored = run.plus(run.centred(kernel.values[argument], kind), kind.zero_point)
    constant = np.float32(np.float64(found.second) + np.float64(found.offset))  # fma(1, second, offset)
    total = run.fused(stored, found.first, constant)
    return bounded(kernel, run.rounded(total, kernel.output_type.zero_point))


def average_pool(kernel: MaterializedKernel) -> SSAValue:
    """Dequantized values are summed in f32 in window order, divided by the count, then by the output scale."""
    op = next(op for op in kernel.body if isinstance(op, hlo.ReduceWindowOp))
    division = division_of(kernel)
    counts = None if division is None else counts_of(kernel, division)
    if counts is None or not is_of_bytes(kernel):
        return reduction.summed(kernel)
    run, given, wanted = FloatArithmetic(kernel, REASON), kernel.type_of(kernel.arguments[0]), kernel.output_type
    real = run.times(run.to(run.centred(kernel.values[kernel.arguments[0]], given), f32), np.float32(given.scale))
    kernel.values[kernel.arguments[0]] = real
    kernel.values[op.init_values[0]] = kernel.constant(np.array(0, np.float32))
    total = kernel.retyped(op, f32, binary_body(hlo.AddOp, f32))
    assert isinstance(total.owner, Operation)
    total.owner.attributes[FLOAT_REASON] = StringAttr(REASON)
    numbers = np.broadcast_to(counts, shape_of(total)) if counts.size > 1 else counts.reshape(())
    mean_of = run.made(hlo.DivideOp(total, repeated(kernel, numbers, total)))
    scaled = run.made(hlo.DivideOp(mean_of, run.filled(mean_of, np.float32(wanted.scale))))
    return run.rounded(run.plus(scaled, wanted.zero_point), wanted.zero_point)


def mean(kernel: MaterializedKernel) -> SSAValue:
    """The sum of centred integers times one f32 factor."""
    run, given = FloatArithmetic(kernel, REASON), kernel.type_of(kernel.arguments[0])
    found = sum_of_mean(run)
    if found is None:
        return reduction.summed(kernel)
    total, terms = found
    return run.rounded(run.times(run.to(total, f32), mean_factor(given.affine, kernel.output_type.affine, terms)))


def sum_of_mean(run: FloatArithmetic) -> tuple[SSAValue, int] | None:
    """The sum of centred integers in i32, and the number of terms; None if a kernel computes no mean of bytes."""
    kernel = run.kernel
    op = next(op for op in kernel.body if isinstance(op, hlo.ReduceOp))
    terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
    division = division_of(kernel)
    counts = None if division is None else counts_of(kernel, division)
    given = kernel.type_of(kernel.arguments[0])
    if (
        counts is None
        or not (counts == terms).all()
        or not is_of_bytes(kernel)
        or terms * given.affine.reach > INT32_MAX
    ):
        return None
    kernel.values[kernel.arguments[0]] = run.centred(kernel.values[kernel.arguments[0]], given)
    kernel.values[op.init_values[0]] = kernel.constant(np.array(0, np.int32))
    total = kernel.retyped(op, i32, binary_body(hlo.AddOp, i32))
    for other in kernel.body:
        if isinstance(other, hlo.ReshapeOp | hlo.BroadcastInDimOp) and other.operand in kernel.values:
            total = kernel.retyped(other, i32)
    return total, terms


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Exponentials from a table are summed in order in f32 and divided by the sum in f64, as in onnxruntime since 1.32.

    On x64, onnxruntime rewrites i8 to u8 with zero points 128 greater, so both have the kernel of u8.
    """
    run = FloatArithmetic(kernel, REASON)
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    rows = TabulatedRows.of(run) if given.storage.type.signed == wanted.storage.type.signed else None
    if rows is None:
        return elementwise.encased(kernel)
    exponentials = rows.exponentials(rows.greatest(), softmax_table(given.scale, rows.length))
    total = rows.along(rows.sums(exponentials))
    scaled = run.times(run.to(exponentials, f64), float(softmax_factor(wanted.scale)))
    return run.rounded(run.made(hlo.DivideOp(scaled, run.to(total, f64))))


def rescale(kernel: MaterializedKernel) -> SSAValue:
    """DequantizeLinear, then QuantizeLinear."""
    return elementwise.cast_again(kernel, kernel.values[kernel.arguments[0]])


def joined(kernel: MaterializedKernel) -> SSAValue:
    """A concatenation or selection.

    Operands with other parameters are rescaled by DequantizeLinear and QuantizeLinear.
    """
    run = FloatArithmetic(kernel, REASON)
    for argument in kernel.arguments:
        value = kernel.values[argument]
        if isinstance(kind := element_of(value), UniformQuantizedType) and kind != kernel.output_type:
            real = run.made(hlo.UniformDequantizeOp(value))
            made = run.made(hlo.UniformQuantizeOp(real, with_element(real, kernel.output_type)))
            kernel.values[argument] = made
    return movement.KERNELS[kernel.region.logical_kernel.data](kernel)


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    "add": add,
    "average_pool": average_pool,
    "concatenate": joined,
    "hard_sigmoid": hard_sigmoid,
    "mean": mean,
    "multiply": multiply,
    "rescale": rescale,
    "select": joined,
    "softmax": softmax,
}
"""By logical kernel."""
