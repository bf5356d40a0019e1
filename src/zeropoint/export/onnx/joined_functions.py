"""Functions of sums and products as ONNX operators, in the form that OpenVINO computes in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import SSAValue

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.floats import OPERATORS
from zeropoint.export.onnx.rows import HARD_SWISH_OPSET, side
from zeropoint.ir.annotations import FUNCTION
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.stablehlo import AddOp, ConstantOp
from zeropoint.targets.logical_kernels import FUNCTION_OF_PRODUCT, FUNCTION_OF_SUM

NODES: Mapping[str, str] = {
    "elu": "Elu",
    "hard_swish": "HardSwish",
    "leaky_relu": "LeakyRelu",
    "relu": "Relu",
    "softplus": "Softplus",
}
"""The operator of each function that has one. Others are written as the ops of the body."""


def function_of_sum(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """An Add whose result is not quantized, and the function."""
    op = kernel.first(AddOp)
    sides = [side(kernel, emit, value) for value in op.operands]
    _function(kernel, emit, op.result, emit.apply("Add", sides, f32, kernel.output_shape, emit.name(op.result)))


def function_of_product(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """The function of a product whose result is not quantized."""
    (argument,), (value,) = kernel.region.body.block.args, kernel.region.inputs
    _function(kernel, emit, argument, emit.operand(value, f32))


def _function(kernel: ExportKernel, emit: OnnxEmission, of: SSAValue, given: Tensor) -> None:
    """The function of a value of the body, which is a given tensor: one operator, or those of the ops."""
    returned, result = kernel.region.body.block.last_op, kernel.region.outputs[0]
    assert returned is not None
    name, value = kernel.region.attributes[FUNCTION], returned.operands[0]
    node = NODES.get(name.data) if isinstance(name, StringAttr) else None
    if node is None:
        emit.put(of, given)
        for other in kernel.ops:
            if other is not of.owner and not isinstance(other, ConstantOp):
                OPERATORS[type(other)](other, emit)
        emit.put(result, emit.operand(value, kernel.output_spec))
        return
    attributes: dict[str, float] = {}
    if node == "HardSwish":
        emit.builder.needs(HARD_SWISH_OPSET)
    if node == "LeakyRelu":
        at = evaluate_chain(value, of, np.array([-1.0], np.float32), emit.weights)
        attributes = {"alpha": -float(at[0])}
    emit.put(result, emit.apply(node, [given], kernel.output_spec, kernel.output_shape, emit.name(result), attributes))


KERNELS: Mapping[str, Callable[[ExportKernel, OnnxEmission], None]] = {
    FUNCTION_OF_PRODUCT: function_of_product,
    FUNCTION_OF_SUM: function_of_sum,
}
