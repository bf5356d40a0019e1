"""Functions of sums and products as ONNX operators, in the form that OpenVINO computes in one kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission
from zeropoint.export.onnx.floats import OPERATORS
from zeropoint.export.onnx.rows import HARD_SWISH_OPSET, side
from zeropoint.ir.annotations import FUNCTION
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.stablehlo import AddOp, ConstantOp

NODES: Mapping[str, str] = {"elu": "Elu", "hard_swish": "HardSwish", "leaky_relu": "LeakyRelu"}
"""The operator of each function that has one. Others are written as the ops of the body."""


def function_of_sum(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """An Add whose result is not quantized, and the function."""
    op, returned, result = kernel.first(AddOp), kernel.region.body.block.last_op, kernel.region.outputs[0]
    assert returned is not None
    sides = [side(kernel, emit, value) for value in op.operands]
    total = emit.apply("Add", sides, f32, kernel.output_shape, emit.name(op.result))
    name, value = kernel.region.attributes[FUNCTION], returned.operands[0]
    node = NODES.get(name.data) if isinstance(name, StringAttr) else None
    if node is None:
        emit.put(op.result, total)
        for other in kernel.ops:
            if other is not op and not isinstance(other, ConstantOp):
                OPERATORS[type(other)](other, emit)
        emit.put(result, emit.operand(value, kernel.output_spec))
        return
    attributes: dict[str, float] = {}
    if node == "HardSwish":
        emit.builder.needs(HARD_SWISH_OPSET)
    if node == "LeakyRelu":
        at = evaluate_chain(value, op.result, np.array([-1.0], np.float32), emit.weights)
        attributes = {"alpha": -float(at[0])}
    emit.put(result, emit.apply(node, [total], kernel.output_spec, kernel.output_shape, emit.name(result), attributes))


def quantize_product(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """A cast."""
    emit.put(kernel.region.outputs[0], emit.operand(kernel.region.inputs[0], kernel.output_spec))
