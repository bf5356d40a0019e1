"""Activation functions.

Source: the ONNX operator specification. Each function is written in one form, which fusion recognizes.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import WRITTEN_AS_SUM, NodeError, OnnxNode
from zeropoint.ir.annotations import FILE_HAS_FLOATS
from zeropoint.ir.chlo import ErfOp
from zeropoint.ir.quant import DequantizeCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    ClampOp,
    CompareOp,
    ComparisonDirection,
    DivideOp,
    ExponentialMinusOneOp,
    ExponentialOp,
    LogPlusOneOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    SelectOp,
    SubtractOp,
    TanhOp,
)
from zeropoint.ir.tensors import element_of, shape_of

_GREATEST = float(np.finfo(np.float32).max)


def relu(node: OnnxNode, build: Builder) -> SSAValue:
    """`Relu`: max(x, 0).

    %z = stablehlo.broadcast_in_dim %zero, dims = []
    %0 = stablehlo.maximum %x, %z
    """
    value = node.operand(0)
    return build.insert(MaximumOp(value, build.splat(0.0, value)))


def clip(node: OnnxNode, build: Builder) -> SSAValue:
    """`Clip`: `clamp` by two scalars, or `maximum` or `minimum` if only one bound is effective.

        %0 = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>

    A constant bound at or beyond the lowest or highest f32 has no effect. A quantized value is returned unchanged,
    because the storage range of its type is already within the bounds (`clipped`).
    """
    value = node.operand(0)
    if isinstance(element_of(value), UniformQuantizedType):
        return value
    if node.opset < 11:
        return _clipped_by_attributes(node, value, build)
    low = node.scalar(1) if _says_something(node, 1, -1) else None
    high = node.scalar(2) if _says_something(node, 2, 1) else None
    if low is not None and high is not None:
        return build.insert(ClampOp(low, value, high))
    if low is not None:
        return build.insert(MaximumOp(value, build.broadcast(low, value.type, ())))
    if high is not None:
        return build.insert(MinimumOp(value, build.broadcast(high, value.type, ())))
    return value


def _clipped_by_attributes(node: OnnxNode, value: SSAValue, build: Builder) -> SSAValue:
    """`Clip` before opset 11, which has the bounds as attributes."""
    low, high = node.number("min", -_GREATEST), node.number("max", _GREATEST)
    bounded = low > -_GREATEST, high < _GREATEST
    if all(bounded):
        return build.insert(ClampOp(build.scalar(low, value), value, build.scalar(high, value)))
    if bounded[0]:
        return build.insert(MaximumOp(value, build.splat(low, value)))
    return build.insert(MinimumOp(value, build.splat(high, value))) if bounded[1] else value


def _says_something(node: OnnxNode, index: int, sign: int) -> bool:
    """Whether a bound is given and has an effect: it is computed, or it is inside the range of f32."""
    array = node.constant(index)
    return node.has(index) and (array is None or sign * float(array.reshape(())) < _GREATEST)


def leaky_relu(node: OnnxNode, build: Builder) -> SSAValue:
    """`LeakyRelu`: x where x >= 0, alpha * x elsewhere, by `compare GE` and `select`."""
    return leaky_relu_of(node.operand(0), node.number("alpha", 0.01), build)


def leaky_relu_of(value: SSAValue, alpha: float, build: Builder) -> SSAValue:
    """x where x >= 0, alpha * x elsewhere."""
    return _select_positive(value, build.splat(alpha, value), build)


def prelu(node: OnnxNode, build: Builder) -> SSAValue:
    """`PRelu`: x where x >= 0, slope * x elsewhere. The slope is broadcast to x; before opset 7, it is per channel."""
    value, slope = node.operand(0), node.operand(1)
    if node.opset < 7 and len(shape_of(slope)) == 1 and shape_of(slope) != (1,):
        return _select_positive(value, build.broadcast(slope, value.type, [1]), build)
    return _select_positive(value, broadcast_to(slope, shape_of(value), build), build)


def _select_positive(value: SSAValue, slope: SSAValue, build: Builder) -> SSAValue:
    positive = build.insert(CompareOp(value, build.splat(0.0, value), ComparisonDirection.GE))
    return build.insert(SelectOp(positive, value, build.insert(MultiplyOp(value, slope))))


def line_of(value: SSAValue, slope: float, offset: float, build: Builder) -> SSAValue:
    """slope * x + offset."""
    return build.apply(AddOp, build.apply(MultiplyOp, value, build.splat(slope, value)), build.splat(offset, value))


def clamped_line_of(value: SSAValue, slope: float, offset: float, build: Builder) -> SSAValue:
    """clamp(0, slope * x + offset, 1)."""
    line = line_of(value, slope, offset, build)
    return build.insert(ClampOp(build.scalar(0.0, value), line, build.scalar(1.0, value)))


def hard_sigmoid(node: OnnxNode, build: Builder) -> SSAValue:
    """`HardSigmoid`: clamp(0, alpha * x + beta, 1), by `multiply`, `add`, `clamp`."""
    value = node.operand(0)
    made = clamped_line_of(value, node.number("alpha", 0.2), node.number("beta", 0.5), build)
    if isinstance(value.owner, DequantizeCastOp) and WRITTEN_AS_SUM not in node.notes:
        assert isinstance(made.owner, Operation)
        made.owner.attributes[FILE_HAS_FLOATS] = UnitAttr()
    return made


def hard_swish(node: OnnxNode, build: Builder) -> SSAValue:
    """`HardSwish`: x * clamp(0, x / 6 + 1/2, 1), the HardSigmoid with alpha 1/6 and beta 1/2."""
    value = node.operand(0)
    return build.insert(MultiplyOp(value, clamped_line_of(value, 1 / 6, 0.5, build)))


def erf(node: OnnxNode, build: Builder) -> SSAValue:
    """`Erf`: `chlo.erf`."""
    return build.insert(ErfOp(node.operand(0)))


def gelu(node: OnnxNode, build: Builder) -> SSAValue:
    """`Gelu`: x / 2 * (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) instead of erf."""
    value = node.operand(0)

    def scaled(number: float, operand: SSAValue) -> SSAValue:
        return build.insert(MultiplyOp(operand, build.splat(number, operand)))

    approximate = node.text("approximate", "none")
    if approximate == "tanh":
        cube = build.insert(MultiplyOp(build.insert(MultiplyOp(value, value)), value))
        inner = scaled(math.sqrt(2 / math.pi), build.insert(AddOp(value, scaled(0.044715, cube))))
        curve = build.insert(TanhOp(inner))
    elif approximate == "none":
        curve = build.insert(ErfOp(scaled(math.sqrt(0.5), value)))
    else:
        raise NodeError(f"found approximate '{approximate}', expected 'none' or 'tanh'")
    above = build.insert(AddOp(curve, build.splat(1.0, curve)))
    return build.insert(MultiplyOp(scaled(0.5, value), above))


def elu(node: OnnxNode, build: Builder) -> SSAValue:
    """`Elu`: x where x >= 0, alpha * (exp(x) - 1) elsewhere."""
    return elu_of(node.operand(0), node.number("alpha", 1.0), build)


def elu_of(value: SSAValue, alpha: float, build: Builder) -> SSAValue:
    """x where x >= 0, alpha * (exp(x) - 1) elsewhere."""
    positive = build.insert(CompareOp(value, build.splat(0.0, value), ComparisonDirection.GE))
    curve = build.insert(ExponentialMinusOneOp(value))
    curve = build.insert(MultiplyOp(curve, build.splat(alpha, value)))
    return build.insert(SelectOp(positive, value, curve))


def softplus(node: OnnxNode, build: Builder) -> SSAValue:
    """`Softplus`: log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    return softplus_of(node.operand(0), build)


def softplus_of(value: SSAValue, build: Builder) -> SSAValue:
    """log(1 + exp(x))."""
    falling = build.insert(NegateOp(build.insert(AbsOp(value))))
    curve = build.insert(LogPlusOneOp(build.insert(ExponentialOp(falling))))
    return build.insert(AddOp(build.insert(MaximumOp(value, build.splat(0.0, value))), curve))


def softsign(node: OnnxNode, build: Builder) -> SSAValue:
    """`Softsign`: x / (1 + |x|)."""
    return softsign_of(node.operand(0), build)


def softsign_of(value: SSAValue, build: Builder) -> SSAValue:
    """x / (1 + |x|)."""
    size = build.insert(AbsOp(value))
    return build.insert(DivideOp(value, build.insert(AddOp(size, build.splat(1.0, value)))))


def selu(node: OnnxNode, build: Builder) -> SSAValue:
    """`Selu`: gamma * x where x > 0, gamma * alpha * (exp(x) - 1) elsewhere."""
    value = node.operand(0)
    alpha, gamma = node.number("alpha", 1.67326319217681884765625), node.number("gamma", 1.05070102214813232421875)
    positive = build.insert(CompareOp(value, build.splat(0.0, value), ComparisonDirection.GT))
    line = build.insert(MultiplyOp(value, build.splat(gamma, value)))
    curve = build.insert(ExponentialMinusOneOp(value))
    curve = build.insert(MultiplyOp(curve, build.splat(alpha * gamma, value)))
    return build.insert(SelectOp(positive, line, curve))


def shrink(node: OnnxNode, build: Builder) -> SSAValue:
    """`Shrink`: x + bias below -lambd, x - bias above lambd, 0 between."""
    value = node.operand(0)
    bias, width = build.splat(node.number("bias", 0.0), value), node.number("lambd", 0.5)
    below = build.compare(ComparisonDirection.LT, value, -width)
    above = build.compare(ComparisonDirection.GT, value, width)
    rest = build.apply(SelectOp, above, build.apply(SubtractOp, value, bias), build.splat(0.0, value))
    return build.apply(SelectOp, below, build.apply(AddOp, value, bias), rest)


def thresholded_relu(node: OnnxNode, build: Builder) -> SSAValue:
    """`ThresholdedRelu`: x where x > alpha, 0 elsewhere."""
    return thresholded_relu_of(node.operand(0), node.number("alpha", 1.0), build)


def thresholded_relu_of(value: SSAValue, alpha: float, build: Builder) -> SSAValue:
    """x where x > alpha, 0 elsewhere."""
    return build.apply(SelectOp, build.compare(ComparisonDirection.GT, value, alpha), value, build.splat(0.0, value))
