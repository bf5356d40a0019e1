"""Elementwise kernels: binary arithmetic, functions of one value, and rescales."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from xdsl.dialects.builtin import AnyFloat, StringAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FLOAT_REASON, KERNEL, RESCALE, carry
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import elements, splat_value
from zeropoint.ir.functions import is_function
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    ConstantOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    SelectOp,
    SubtractOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.edges import in_element
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import repeated, stored_input
from zeropoint.materialize.widths import in_one_storage

TABLE_WIDTH = 8
"""Functions of values of at most this many bits become tables."""
WIDE_TABLE_WIDTH = 16
"""`TABLE_WIDTH` of profiles with integer kernels: tables of 65,536 entries."""


def binary(kernel: MaterializedKernel) -> SSAValue:
    """`add | subtract | multiply | divide` on quantized operands, then `clamp`."""
    bounds = Bounds()
    value: SSAValue | None = None
    for op in kernel.body:
        if isinstance(op, BroadcastInDimOp) and op.operand in kernel.values:
            kernel.retyped(op, kernel.type_of(op.operand))
        elif isinstance(op, AddOp | DivideOp | MultiplyOp | SubtractOp):
            value = in_one_storage(kernel, op, kernel.output_type)
        else:
            bounds.then(op, kernel.weights)
    assert value is not None
    return kernel.bounded(value, bounds, kernel.region)


def encased(kernel: MaterializedKernel, reason: str | None = None) -> SSAValue:
    """`encased_results` for a kernel of one result."""
    (result,) = encased_results(kernel, reason)
    return result


def tabulated(kernel: MaterializedKernel) -> SSAValue:
    """`encased` with tables of up to 16 bits."""
    (result,) = encased_results(kernel, table_width=WIDE_TABLE_WIDTH)
    return result


def encased_results(
    kernel: MaterializedKernel, reason: str | None = None, *, table_width: int = TABLE_WIDTH
) -> list[SSAValue]:
    """`uniform_dequantize` of every quantized operand, the float ops unchanged, `uniform_quantize` of the results.

    This form defines the meaning of every kernel. It is emitted for kernels that have an integer form only in the
    target's runtime; their float ops carry a reason, by default that of `why_float`. It is also emitted for a function
    of one value of at most `table_width` bits, which lowering turns into a table.
    """
    values: dict[SSAValue, SSAValue] = {}
    for argument in kernel.arguments:
        value = kernel.values[argument]
        if isinstance(element_of(value), UniformQuantizedType):
            value = kernel.insert(UniformDequantizeOp(value), kernel.region).result
        values[argument] = value
    if reason is None:
        reason = why_float(kernel, table_width)
    if reason is not None:
        for argument, value in values.items():
            values[argument] = in_element(value, element_of(argument), kernel.builder, kernel.region.location)
    for op in kernel.body:
        copy = kernel.builder.insert(op.clone(values))
        if reason is None:
            _in_f32(copy, kernel)
            values.update(zip(op.results, copy.results, strict=True))
        if reason is not None and not isinstance(copy, ConstantOp):
            copy.attributes[FLOAT_REASON] = StringAttr(reason)
            copy.attributes[KERNEL] = kernel.region.logical_kernel
    return [_quantized(kernel, values[value], kind) for value, kind in kernel.returned]


def _in_f32(op: Operation, kernel: MaterializedKernel) -> None:
    """Give a function of a model in f16, bf16 or f64 the type of the numbers that its operand expresses."""
    for result in op.results:
        if not isinstance(element_of(result), AnyFloat) or element_of(result) == f32:
            continue
        if isinstance(op, ConstantOp):
            op.properties["value"] = kernel.weights.attribute(elements(op, kernel.weights).astype(np.float32))
        Rewriter.replace_value_with_new_type(result, with_element(result, f32))


def _quantized(kernel: MaterializedKernel, value: SSAValue, kind: UniformQuantizedType | None) -> SSAValue:
    if kind is None:
        return value
    value = in_element(value, kind.expressed_type, kernel.builder, kernel.region.location)
    return kernel.insert(UniformQuantizeOp(value, with_element(value, kind)), kernel.region).result


def why_float(kernel: MaterializedKernel, table_width: int = TABLE_WIDTH) -> str | None:
    """The reason why the ops of a kernel stay float; None for a function of one value that becomes a table."""
    name = kernel.region.logical_kernel.data
    if not all(is_function(op) or splat_value(op.results[0], kernel.weights) is not None for op in kernel.body):
        return f"kernel '{name}' has an integer form only in the target's runtime"
    specs = [spec for spec in kernel.region.input_specs if isinstance(spec, UniformQuantizedType)]
    if len(set(kernel.region.inputs)) > 1:
        return f"kernel '{name}' of {len(specs)} operands has an integer form only in the target's runtime"
    width = max((spec.storage.type.width for spec in specs), default=0)
    if width > table_width:
        only = f"kernel '{name}' of {width} bits has an integer form only in the target's runtime"
        return f"{only}: our tables take up to {table_width} bits"
    return None


def ordered(kernel: MaterializedKernel) -> SSAValue:
    """`maximum | minimum` on storage integers, for values of one type. For a number, `uniform_quantize` and `clamp`."""
    bounds = Bounds()
    value: SSAValue | None = None
    for op in kernel.body:
        if isinstance(op, BroadcastInDimOp) and op.operand in kernel.values:
            kernel.retyped(op, kernel.type_of(op.operand))
        elif isinstance(op, MaximumOp | MinimumOp) and all(operand in kernel.values for operand in op.operands):
            value = kernel.retyped(op, kernel.output_type)
        else:
            bounds.then(op, kernel.weights)
    return kernel.bounded(_requantized(kernel) if value is None else value, bounds, kernel.region)


def _requantized(kernel: MaterializedKernel) -> SSAValue:
    """The first operand in the type of the result."""
    value = kernel.values[kernel.arguments[0]]
    if element_of(value) == kernel.output_type:
        return value
    return kernel.insert(UniformQuantizeOp(value, with_element(value, kernel.output_type)), kernel.region).result


def clamped(low: float, high: float) -> Callable[[MaterializedKernel], SSAValue]:
    """A kernel that clamps to two numbers.

    Fusion recognizes it by its function's values, so its ops may have any form.
    """
    return lambda kernel: kernel.bounded(_requantized(kernel), Bounds(low, high), kernel.region)


def compare(kernel: MaterializedKernel) -> SSAValue:
    """`compare` of quantized operands."""
    for op in kernel.body:
        if isinstance(op, BroadcastInDimOp):
            kernel.retyped(op, kernel.type_of(op.operand))
    op = next(op for op in kernel.body if isinstance(op, CompareOp))
    lhs, rhs = kernel.values[op.lhs], kernel.values[op.rhs]
    return kernel.insert(CompareOp(lhs, rhs, op.comparison_direction.data), op).result


def prelu(kernel: MaterializedKernel) -> SSAValue:
    """`select` by the sign of x between x, requantized, and its product with the slope. Each result is rounded once.

    Source: TFLite's reference kernel (prelu.h), which multiplies either x - z by s_x / s_y, or the product of x - z and
    the centred slope by s_x * s_slope / s_y.
    """
    wanted, argument = kernel.output_type, kernel.arguments[0]
    value = same = kernel.values[argument]
    if element_of(value) != wanted:
        same = kernel.insert(UniformQuantizeOp(value, with_element(value, wanted)), kernel.region).result
    product: SSAValue | None = None
    for op in kernel.body:
        if isinstance(op, BroadcastInDimOp) and op.operand in kernel.values:
            kernel.retyped(op, kernel.type_of(op.operand))
        elif isinstance(op, MultiplyOp):
            product = kernel.retyped(op, wanted)
    assert product is not None
    stored = stored_input(kernel)
    zero = repeated(kernel, kernel.type_of(argument).zero_point, stored)
    positive = kernel.insert(CompareOp(stored, zero, ComparisonDirection.GE), kernel.region).result
    return kernel.insert(SelectOp(positive, same, product), kernel.region).result


def rescale(kernel: MaterializedKernel) -> SSAValue:
    """`uniform_quantize` of the quantized value: a requantization. With a scale per channel, of its real numbers."""
    value = kernel.values[kernel.arguments[0]]
    if not (kernel.type_of(kernel.arguments[0]).is_per_layer and kernel.output_type.is_per_layer):
        return cast_again(kernel, value)
    op = kernel.insert(UniformQuantizeOp(value, with_element(value, kernel.output_type)), kernel.region)
    carry(kernel.region, op, RESCALE)
    return op.result


def cast_again(kernel: MaterializedKernel, value: SSAValue) -> SSAValue:
    """A quantized value in the type of the result, by way of its real numbers."""
    real = kernel.insert(UniformDequantizeOp(value), kernel.region).result
    return kernel.insert(UniformQuantizeOp(real, with_element(real, kernel.output_type)), kernel.region).result


CLAMPS = {"relu": (0.0, inf), "relu6": (0.0, 6.0), "relu_0_to_1": (0.0, 1.0), "relu_n1_to_1": (-1.0, 1.0)}
"""The kernels that only clamp, and their bounds."""

KERNELS = {
    **{name: clamped(*bounds) for name, bounds in CLAMPS.items()},
    "add": binary,
    "compare": compare,
    "elementwise_unary": encased,
    "logistic": encased,
    "maximum": ordered,
    "minimum": ordered,
    "multiply": binary,
    "prelu": prelu,
    "rescale": rescale,
    "subtract": binary,
    "tanh": encased,
}

INTEGER_KERNELS = {
    "divide": binary,
    "elementwise_unary": tabulated,
    "logistic": tabulated,
    "tanh": tabulated,
}
"""Kernels that differ under profiles with integer kernels."""
