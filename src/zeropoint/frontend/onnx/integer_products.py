"""Matrix products and convolutions of integers: `MatMulInteger`, `ConvInteger`, `QLinearMatMul`, `QLinearConv`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.convolution import convolved
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.node import OnnxNode
from zeropoint.frontend.onnx.products import multiplied
from zeropoint.frontend.onnx.quantization import OnnxParameters, dequantized, quantized
from zeropoint.ir.constants import is_wide, with_rest
from zeropoint.ir.stablehlo import AddOp, ConstantOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import shape_of


def _from_zero(node: OnnxNode, index: int, point: int, axis: int, build: Builder) -> SSAValue:
    """An integer input as i32, minus its zero point: one number, or one for each index of `axis`."""
    value = converted(node.operand(index), i32, build)
    if not node.has(point):
        return value
    zero = converted(node.operand(point), i32, build)
    if len(shape_of(zero)) == 1 and shape_of(zero) != (1,):
        zero = build.broadcast(zero, value.type, [axis])
    elif shape_of(zero) in ((), (1,)):
        zero = build.broadcast(build.reshape(zero, ()), value.type, ())
    else:
        zero = broadcast_to(zero, shape_of(value), build)
    return build.apply(SubtractOp, value, zero)


def matmul_integer(node: OnnxNode, build: Builder) -> SSAValue:
    """`MatMulInteger`: `dot_general` in i32 of the inputs minus their zero points."""
    rank = len(shape_of(node.operand(0)))
    lhs = _from_zero(node, 0, 2, max(rank - 2, 0), build)
    rhs = _from_zero(node, 1, 3, len(shape_of(node.operand(1))) - 1, build)
    return multiplied(lhs, rhs, build)


def conv_integer(node: OnnxNode, build: Builder) -> SSAValue:
    """`ConvInteger`: `convolution` in i32 of the inputs minus their zero points."""
    return convolved(node, _from_zero(node, 0, 2, 1, build), _from_zero(node, 1, 3, 0, build), build)


def qlinear_matmul(node: OnnxNode, build: Builder) -> SSAValue:
    """`QLinearMatMul`: dequantize, multiply, quantize."""
    ranks = [len(shape_of(node.operand(index))) for index in (0, 3)]
    lhs = dequantized(node, 0, OnnxParameters(1, 2, max(ranks[0] - 2, 0)), build)
    rhs = dequantized(node, 3, OnnxParameters(4, 5, ranks[1] - 1), build)
    product = multiplied(lhs, rhs, build)
    where = OnnxParameters(6, 7, max(len(shape_of(product)) - 2, 0))
    return quantized(node, product, where, node.constant(7), build)


def qlinear_conv(node: OnnxNode, build: Builder) -> SSAValue:
    """`QLinearConv`: dequantize, convolve, add the bias (whose scale is the product of both scales), quantize."""
    data = dequantized(node, 0, OnnxParameters(1, 2), build)
    kernel = dequantized(node, 3, OnnxParameters(4, 5, 0), build)
    result = convolved(node, data, kernel, build)
    if node.has(8):
        result = build.apply(AddOp, result, build.broadcast(_bias(node, build), result.type, [1]))
    return quantized(node, result, OnnxParameters(6, 7), node.constant(7), build)


def _bias(node: OnnxNode, build: Builder) -> SSAValue:
    bias, scales = node.constant(8), [node.constant(index) for index in (1, 4)]
    if bias is not None and scales[0] is not None and scales[1] is not None:
        factor = scales[0].astype(np.float64).reshape(()) * scales[1].astype(np.float64).reshape(-1)
        exact = bias.astype(np.float64) * factor
        made = build.constant(exact.astype(np.float32))
        if is_wide(bias) and isinstance(made.owner, ConstantOp):
            with_rest(made.owner, exact, build.weights)
        return made
    value = converted(node.operand(8), f32, build)
    for index in (1, 4):
        scale = node.operand(index)
        dimensions = [] if shape_of(scale) in ((), (1,)) else [0]
        scale = scale if dimensions else build.reshape(scale, ())
        value = build.apply(MultiplyOp, value, build.broadcast(scale, value.type, dimensions))
    return value
