"""Positions of extremes. Storage integers have the order of the real numbers, so they are compared directly."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.stablehlo import BroadcastInDimOp, CompareOp, MaximumOp, ReduceOp, ReshapeOp
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of
from zeropoint.materialize.kernel import MaterializedKernel, quantized_body


def position(kernel: MaterializedKernel) -> SSAValue:
    """The ops of the body: on quantized values up to the comparison, unchanged after it."""
    (argument,) = kernel.arguments
    quantized = kernel.type_of(argument)
    for op in kernel.body:
        if isinstance(op, ReduceOp) and op.inputs[0] is argument:
            body = body_op(op.body)
            assert body is not None
            initial = quantized.storage.minimum if body is MaximumOp else quantized.storage.maximum
            kernel.values[op.init_values[0]] = kernel.scalar(initial, quantized)
            kernel.retyped(op, quantized, quantized_body(body, quantized))
        elif isinstance(op, BroadcastInDimOp | ReshapeOp) and _is_quantized(kernel, op.operand):
            kernel.retyped(op, quantized)
        elif isinstance(op, CompareOp):
            sides = kernel.values[op.lhs], kernel.values[op.rhs]
            kernel.values[op.result] = kernel.insert(CompareOp(*sides, op.comparison_direction.data), op).result
        else:
            kernel.builder.insert(op.clone(kernel.values))
    return kernel.values[kernel.returned[0][0]]


def _is_quantized(kernel: MaterializedKernel, value: SSAValue) -> bool:
    found = kernel.values.get(value)
    return found is not None and element_of(found) == kernel.type_of(kernel.arguments[0])


KERNELS = {"arg_max": position, "arg_min": position}
