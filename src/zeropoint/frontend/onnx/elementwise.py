"""Arithmetic, element by element, with ONNX broadcasting.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_together
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import Node, NodeError
from zeropoint.frontend.onnx.tensors import program_dtype
from zeropoint.ir.stablehlo import BinaryOp, ConvertOp, DivideOp, MultiplyOp, PowerOp, UnaryOp
from zeropoint.ir.tensors import dtype_element, element_dtype, element_of, with_element

Convert = Callable[[Node, Builder], SSAValue]


def unary(op: type[UnaryOp]) -> Convert:
    """A converter to one unary op: `%0 = stablehlo.tanh %x`."""

    def convert(node: Node, build: Builder) -> SSAValue:
        return build.insert(op(node.operand(0)))

    return convert


def binary(op: type[BinaryOp]) -> Convert:
    """A converter to a binary op, applied from the left where there are more inputs than two (`Max`, `Min`, `Sum`).

    %0 = stablehlo.broadcast_in_dim %b, dims = [1]
    %1 = stablehlo.add %a, %0
    """

    def convert(node: Node, build: Builder) -> SSAValue:
        result, *others = broadcast_together(node.operands(), build)
        for other in others:
            result = build.insert(op(result, other))
        return result

    return convert


def power(node: Node, build: Builder) -> SSAValue:
    """`Pow`: `multiply` of the base with itself for a constant exponent of 2, otherwise `power`."""
    base = node.operand(0)
    exponent = node.constant(1)
    if exponent is not None and exponent.size == 1 and exponent.reshape(()) == 2 and exponent.ndim <= 1:
        return build.insert(MultiplyOp(base, base))
    if exponent is not None:
        raised = build.constant(exponent.astype(element_dtype(element_of(base))))
    else:
        raised = _converted(node.operand(1), element_of(base), build)
    lhs, rhs = broadcast_together([base, raised], build)
    return build.insert(PowerOp(lhs, rhs))


def reciprocal(node: Node, build: Builder) -> SSAValue:
    """`Reciprocal`: 1 / x."""
    value = node.operand(0)
    return build.insert(DivideOp(build.splat(1.0, value), value))


def identity(node: Node, build: Builder) -> SSAValue:
    """`Identity`: the value itself, no op."""
    return node.operand(0)


def dropout(node: Node, build: Builder) -> SSAValue:
    """`Dropout` in inference: the value itself, no op."""
    training = node.parameter(2, "training_mode")
    if training is not None and bool(training.any()):
        raise NodeError("found training_mode true, expected false; export the model for inference")
    return node.operand(0)


def cast(node: Node, build: Builder) -> SSAValue:
    """`Cast`: `convert`; nothing between floats, all of which are f32 here."""
    return _converted(node.operand(0), dtype_element(program_dtype(node.integer("to", 0))), build)


def _converted(value: SSAValue, element: Attribute, build: Builder) -> SSAValue:
    return value if element == element_of(value) else build.insert(ConvertOp(value, with_element(value, element)))
