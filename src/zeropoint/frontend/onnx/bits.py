"""Bitwise ops, remainders, and float predicates.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper
from xdsl.ir import Attribute, SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_together
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.tensors import WIDE_AND_NARROW_FLOATS, integer_of, program_element
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    BitcastConvertOp,
    ComparisonDirection,
    OrOp,
    RemainderOp,
    SelectOp,
    ShiftLeftOp,
    ShiftRightArithmeticOp,
    ShiftRightLogicalOp,
    XorOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element


def bit_shift(node: OnnxNode, build: Builder) -> SSAValue:
    """`BitShift`: `shift_left` or `shift_right_logical`; `shift_right_arithmetic` for signed integers (opset 28)."""
    value, amount = broadcast_together(node.operands(), build)
    if node.choice("direction", "", ("LEFT", "RIGHT")) == "LEFT":
        return build.apply(ShiftLeftOp, value, amount)
    signed = element_dtype(element_of(value)).kind == "i"
    return build.apply(ShiftRightArithmeticOp if signed else ShiftRightLogicalOp, value, amount)


def bit_cast(node: OnnxNode, build: Builder) -> SSAValue:
    """`BitCast`: `bitcast_convert` to an element type of the same width."""
    value, to = node.operand(0), node.integer("to", 0)
    element = program_element(to)
    if helper.tensor_dtype_to_np_dtype(to) in WIDE_AND_NARROW_FLOATS and to != TensorProto.FLOAT:
        raise NodeError("found floats of 16 or 64 bits, which a program holds as f32, expected another element type")
    widths = [_width(each) for each in (element_of(value), element)]
    if widths[0] != widths[1]:
        raise NodeError(f"found element types of {widths[0]} and {widths[1]} bits, expected one width")
    return (
        value if element_of(value) == element else build.insert(BitcastConvertOp(value, with_element(value, element)))
    )


def _width(element: Attribute) -> int:
    integer = integer_of(element)
    return integer.width.data if integer is not None else element_dtype(element).itemsize * 8


def mod(node: OnnxNode, build: Builder) -> SSAValue:
    """`Mod`: `remainder` with `fmod`. Without it, the divisor is added if the signs differ, as in Python's `%`."""
    lhs, rhs = broadcast_together(node.operands(), build)
    rest = build.apply(RemainderOp, lhs, rhs)
    if node.integer("fmod", 0) or element_dtype(element_of(lhs)).kind == "u":
        return rest
    negative = build.compare(ComparisonDirection.LT, rest, 0)
    differs = build.apply(XorOp, negative, build.compare(ComparisonDirection.LT, rhs, 0))
    wrong = build.apply(AndOp, differs, build.compare(ComparisonDirection.NE, rest, 0))
    return build.apply(SelectOp, wrong, build.apply(AddOp, rest, rhs), rest)


def is_nan(node: OnnxNode, build: Builder) -> SSAValue:
    """`IsNaN`: x != x."""
    value = node.operand(0)
    return build.compare(ComparisonDirection.NE, value, value)


def is_inf(node: OnnxNode, build: Builder) -> SSAValue:
    """`IsInf`: `compare` with inf and -inf, as the attributes request."""
    value = node.operand(0)
    found = [
        build.compare(ComparisonDirection.EQ, value, sign * np.inf)
        for name, sign in (("detect_positive", 1), ("detect_negative", -1))
        if node.integer(name, 1)
    ]
    if not found:
        return build.constant(np.zeros(shape_of(value), np.bool_))
    return found[0] if len(found) == 1 else build.apply(OrOp, *found)
