"""Sums and products of two tensors, functions of one, and changes of parameters."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from zeropoint.ir.annotations import FLOAT_REASON, RESCALE, carry
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import is_function
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConstantOp,
    MultiplyOp,
    SubtractOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.solve.materialize.kernel import Kernel


def binary(kernel: Kernel) -> SSAValue:
    """`add | subtract | multiply` on quantized operands, `clamp`."""
    bounds = Bounds()
    value: SSAValue | None = None
    for op in kernel.body:
        if isinstance(op, BroadcastInDimOp) and op.operand in kernel.values:
            kernel.retyped(op, kernel.type_of(op.operand))
        elif isinstance(op, AddOp | MultiplyOp | SubtractOp):
            value = kernel.retyped(op, kernel.output_type)
        else:
            bounds.then(op, kernel.weights)
    assert value is not None
    return kernel.bounded(value, bounds, kernel.region)


def encased(kernel: Kernel) -> SSAValue:
    """`uniform_dequantize` of every quantized operand, the float ops as they are, `uniform_quantize` of the result.

    What any kernel means; the form of those that have no integer one here, for targets whose runtime has it. Their ops
    say so. Of a function of one value the lowering makes a table.
    """
    values: dict[SSAValue, SSAValue] = {}
    for argument in kernel.arguments:
        value = kernel.values[argument]
        if isinstance(element_of(value), UniformQuantizedType):
            value = kernel.insert(UniformDequantizeOp(value), kernel.region).result
        values[argument] = value
    is_table = all(is_function(op) or splat_value(op.results[0], kernel.weights) is not None for op in kernel.body)
    for op in kernel.body:
        copy = kernel.builder.insert(op.clone(values))
        if not is_table and not isinstance(copy, ConstantOp):
            name = kernel.region.logical_kernel.data
            copy.attributes[FLOAT_REASON] = StringAttr(
                f"kernel '{name}' has no integer form but in the target's runtime"
            )
    terminator = kernel.region.body.block.last_op
    assert terminator is not None
    result = values[terminator.operands[0]]
    return kernel.insert(UniformQuantizeOp(result, with_element(result, kernel.output_type)), kernel.region).result


def rescale(kernel: Kernel) -> SSAValue:
    """`uniform_quantize` of the quantized value: a requantization."""
    value = kernel.values[kernel.arguments[0]]
    op = kernel.insert(UniformQuantizeOp(value, with_element(value, kernel.output_type)), kernel.region)
    carry(kernel.region, op, RESCALE)
    return op.result


KERNELS = {
    "add": binary,
    "elementwise_unary": encased,
    "logistic": encased,
    "multiply": binary,
    "rescale": rescale,
    "subtract": binary,
    "tanh": encased,
}
