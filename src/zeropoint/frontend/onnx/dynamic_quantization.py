"""`DynamicQuantizeLinear`: a scale and a zero point that are computed from the values, and the integers."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, Signedness, f32
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.node import OnnxNode
from zeropoint.frontend.onnx.reductions import highest, lowest
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ComparisonDirection,
    DivideOp,
    MaximumOp,
    MinimumOp,
    RoundNearestEvenOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.tensors import shape_of

LEVELS = 255.0
"""The largest u8. The operator has no other storage type."""


def dynamic_quantize_linear(node: OnnxNode, build: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
    """`DynamicQuantizeLinear`: f32 of any shape to u8 of that shape, a scalar f32 scale and a scalar u8 zero point.

    The range [low, high] of the values is extended to include 0; scale = (high - low) / 255, and
    zero_point = round(-low / scale). Source: the ONNX operator specification.

    A tensor of zeros has scale 1, as in onnxruntime. By the specification's formula, the scale would be 0 and x / scale
    NaN.
    """
    value = node.operand(0)
    axes = range(len(shape_of(value)))
    low, high = (
        build.reduce(value, axes, highest(value), MinimumOp),
        build.reduce(value, axes, lowest(value), MaximumOp),
    )
    zero, top = build.scalar(0.0, value), build.scalar(LEVELS, value)
    low, high = build.apply(MinimumOp, low, zero), build.apply(MaximumOp, high, zero)
    scale = build.apply(DivideOp, build.apply(SubtractOp, high, low), top)
    is_empty = build.compare(ComparisonDirection.EQ, low, high)
    scale = build.apply(SelectOp, is_empty, build.scalar(1.0, value), scale)
    point = build.apply(SubtractOp, zero, build.apply(DivideOp, low, scale))
    u8 = IntegerType(8, Signedness.UNSIGNED)
    zero_point = converted(build.apply(RoundNearestEvenOp, build.insert(ClampOp(zero, point, top))), u8, build)
    number = build.apply(RoundNearestEvenOp, build.apply(DivideOp, value, build.broadcast(scale, value.type, ())))
    shifted = build.apply(AddOp, number, build.broadcast(converted(zero_point, f32, build), value.type, ()))
    return converted(build.insert(ClampOp(zero, shifted, top)), u8, build), scale, zero_point
