"""Elementwise arithmetic with ONNX broadcasting.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import AnyFloat, UnitAttr, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_operands
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import KEPT_APART, NodeError, OnnxNode, ValueConverter
from zeropoint.frontend.onnx.tensors import integer_of, program_element
from zeropoint.ir.annotations import FILE_HAS_FLOATS
from zeropoint.ir.floats import FORMATS
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    ClampOp,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    PowerOp,
    SubtractOp,
    UnaryOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, with_element

_NARROW = 60000.0
"""An upper bound of the largest number of every 8-bit float type."""


def unary(op: type[UnaryOp]) -> ValueConverter:
    """A converter to a unary op: `%0 = stablehlo.tanh %x`."""

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        return build.insert(op(node.operand(0)))

    return convert


def binary(op: type[BinaryOp]) -> ValueConverter:
    """A converter to a binary op. More than two inputs (`Max`, `Min`, `Sum`) are combined from left to right.

    %0 = stablehlo.broadcast_in_dim %b, dims = [1]
    %1 = stablehlo.add %a, %0
    """

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        result, *others = broadcast_operands(node, node.operands(), build)
        for other in others:
            result = build.insert(op(result, other))
        return result

    return convert


def subtract(node: OnnxNode, build: Builder) -> SSAValue:
    """`Sub`: `subtract`. One that zeropoint kept apart for OpenVINO is marked as floats of the file."""
    result = binary(SubtractOp)(node, build)
    if KEPT_APART in node.notes and isinstance(result.owner, Operation):
        result.owner.attributes[FILE_HAS_FLOATS] = UnitAttr()
    return result


def power(node: OnnxNode, build: Builder) -> SSAValue:
    """`Pow`: `multiply` for a constant exponent of 2, otherwise `power`. The result has the type of the base.

    An integer to the power of a float is computed in f64 and truncated, as onnxruntime does.
    """
    base = node.operand(0)
    exponent = node.constant(1)
    if exponent is not None and exponent.size == 1 and exponent.reshape(()) == 2 and exponent.ndim <= 1:
        node.integer("broadcast", 0)  # of opset 6 and older: one number is broadcast in any case
        return build.insert(MultiplyOp(base, base))
    if isinstance(element_of(node.operand(1)), AnyFloat) and not isinstance(element_of(base), AnyFloat):
        wide = [converted(value, f64, build) for value in (base, node.operand(1))]
        lhs, rhs = broadcast_operands(node, wide, build)
        return converted(build.insert(PowerOp(lhs, rhs)), element_of(base), build)
    wanted = element_dtype(element_of(base))
    if exponent is not None and exponent.dtype != wanted:
        raised = build.constant(exponent.astype(wanted))
    else:
        raised = converted(node.operand(1), element_of(base), build)
    lhs, rhs = broadcast_operands(node, [base, raised], build)
    return build.insert(PowerOp(lhs, rhs))


def mean(node: OnnxNode, build: Builder) -> SSAValue:
    """`Mean`: the sum of all inputs, divided by their number."""
    total = binary(AddOp)(node, build)
    return build.apply(DivideOp, total, build.splat(float(node.input_count), total))


def reciprocal(node: OnnxNode, build: Builder) -> SSAValue:
    """`Reciprocal`: 1 / x."""
    value = node.operand(0)
    return build.insert(DivideOp(build.splat(1.0, value), value))


def identity(node: OnnxNode, build: Builder) -> SSAValue:
    """`Identity`: the value itself, without an op."""
    return node.operand(0)


def dropout(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`Dropout` in inference: the value itself, without an op, and a mask that keeps all elements."""
    training = node.parameter(2, "training_mode")
    if training is not None and bool(training.any()):
        raise NodeError("found training_mode true, expected false; export the model for inference")
    value = node.operand(0)
    if node.output_count == 1:
        return (value,)
    true = build.constant(np.array(True))
    return value, build.broadcast(true, with_element(value, element_of(true)), ())


def cast(node: OnnxNode, build: Builder) -> SSAValue:
    """`Cast`: `convert`. No op between floats of 16 to 64 bits, because a program holds all of them as f32."""
    to = node.text("to", "") if node.opset < 6 else node.integer("to", 0)
    code = TensorProto.DataType.Value(to) if isinstance(to, str) else to
    return _cast(node, program_element(code), build)


def cast_like(node: OnnxNode, build: Builder) -> SSAValue:
    """`CastLike`: `convert` to the element type of the second input."""
    return _cast(node, element_of(node.operand(1)), build)


def _cast(node: OnnxNode, element: Attribute, build: Builder) -> SSAValue:
    """`convert`. With `saturate`, numbers are clamped to the range of an 8-bit float first."""
    value = node.operand(0)
    if element != element_of(value) and isinstance(element, AnyFloat) and node.integer("saturate", 1):
        return saturated(value, element, build)
    integer = integer_of(element)
    if integer is not None and 1 < integer.width.data < 8:  # take the low bits, as for wider integers
        value = converted(value, i32, build)
    return converted(value, element, build)


def saturated(value: SSAValue, element: Attribute, build: Builder) -> SSAValue:
    """`convert` to a float. Numbers are clamped to the range of a float of 8 bits or fewer first."""
    largest = FORMATS[type(element)].largest
    if largest < _NARROW:
        if not isinstance(element_of(value), AnyFloat):
            value = converted(value, f32, build)
        low, high = (build.scalar(sign * largest, value) for sign in (-1, 1))
        value = build.insert(ClampOp(low, value, high))
    return converted(value, element, build)


def converted(value: SSAValue, element: Attribute, build: Builder) -> SSAValue:
    """`convert`, or the value itself if it has that element type."""
    return value if element == element_of(value) else build.insert(ConvertOp(value, with_element(value, element)))
