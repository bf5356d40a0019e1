"""Batch and layer normalization, softmax.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axes_of, axis_of
from zeropoint.frontend.onnx.reductions import lowest, mean_of
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import DequantizeCastOp
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    ComparisonDirection,
    ConvolutionOp,
    DivideOp,
    ExponentialOp,
    LogOp,
    MaximumOp,
    MultiplyOp,
    PowerOp,
    ReduceWindowOp,
    RsqrtOp,
    SelectOp,
    SqrtOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of


def batch_normalization(node: OnnxNode, build: Builder) -> SSAValue:
    """`BatchNormalization` in inference: one `multiply` and one `add` of constants along dimension 1.

    (x - mean) / sqrt(var + epsilon) * scale + bias = x * a + b with a = scale / sqrt(var + epsilon) and
    b = bias - mean * a, both computed in f64 and rounded to f32 once.

        %0 = stablehlo.broadcast_in_dim %a, dims = [1]
        %1 = stablehlo.multiply %x, %0
        %2 = stablehlo.broadcast_in_dim %b, dims = [1]
        %3 = stablehlo.add %1, %2

    Behind weights that the file dequantizes, the mean is subtracted first, and each step is rounded to f32, as in
    OpenVINO. If scale, bias, mean or variance are computed, all steps are ops.
    """
    value = node.operand(0)
    if mode := node.integer("training_mode", 0):
        raise NodeError(f"found training_mode {mode}, expected 0; export the model for inference")
    shape = shape_of(value)
    if len(shape) < 2:
        raise NodeError(f"found shape {list(shape)}, expected [N, C, ...]")
    names = ("scale", "B", "input_mean", "input_var")
    if any(node.known(i + 1) is None for i in range(len(names))):
        return _with_computed_channels(node, names, build)
    scale, bias, mean, variance = (_channels(node, i + 1, name, shape[1]) for i, name in enumerate(names))
    epsilon = node.number("epsilon", 1e-5)
    if _has_dequantized_weights(value):
        factor = scale.astype(np.float32) / np.sqrt(variance.astype(np.float32) + np.float32(epsilon))
        means = build.constant((-mean).astype(np.float32))
        value, offset = build.insert(AddOp(value, build.broadcast(means, value.type, [1]))), bias
    else:
        factor = scale / np.sqrt(variance + epsilon)
        offset = bias - mean * factor
    factors, offsets = (build.constant(array.astype(np.float32)) for array in (factor, offset))
    scaled = build.insert(MultiplyOp(value, build.broadcast(factors, value.type, [1])))
    return build.insert(AddOp(scaled, build.broadcast(offsets, value.type, [1])))


def _with_computed_channels(node: OnnxNode, names: Sequence[str], build: Builder) -> SSAValue:
    """(x - mean) * (scale / sqrt(var + epsilon)) + bias, in f32.

    PyTorch exports this for a normalization in training mode, whose mean and variance are those of the operand. Where
    the operand has weights (standardized convolutions), `simplify` folds it.
    """
    value = node.operand(0)
    operands = [node.operand(i + 1) for i in range(len(names))]
    for name, operand in zip(names, operands, strict=True):
        _check_channels(name, shape_of(operand), shape_of(value)[1])
    scale, bias, mean, variance = operands
    deviation = build.apply(SqrtOp, build.apply(AddOp, variance, build.splat(node.number("epsilon", 1e-5), variance)))
    factor = build.apply(DivideOp, scale, deviation)
    centred = build.insert(SubtractOp(value, build.broadcast(mean, value.type, [1])))
    scaled = build.insert(MultiplyOp(centred, build.broadcast(factor, value.type, [1])))
    return build.insert(AddOp(scaled, build.broadcast(bias, value.type, [1])))


def _has_dequantized_weights(value: SSAValue) -> bool:
    """Whether a value is a convolution with weights that the file dequantizes. It may have a bias."""
    maker = defining_op(value)
    if isinstance(maker, AddOp):
        maker = defining_op(maker.lhs)
    return isinstance(maker, ConvolutionOp) and isinstance(maker.rhs.owner, DequantizeCastOp)


def mean_variance_normalization(node: OnnxNode, build: Builder) -> SSAValue:
    """`MeanVarianceNormalization`: (x - m) / (sqrt(mean(x * x) - m * m) + 1e-9), with the means m over `axes`.

    This is ONNX's function body, except for empty tensors, which have no mean. Their result is empty.
    """
    value = node.operand(0)
    shape = shape_of(value)
    given = node.integers("axes")
    axes = axes_of((0, 2, 3) if given is None else given, len(shape))
    if 0 in shape:
        return value
    mean = mean_of(value, axes, True, build)
    squares = mean_of(build.apply(MultiplyOp, value, value), axes, True, build)
    deviation = build.apply(SqrtOp, build.apply(SubtractOp, squares, build.apply(MultiplyOp, mean, mean)))
    divisor = build.apply(AddOp, deviation, build.splat(1e-9, deviation))
    centred = build.apply(SubtractOp, value, broadcast_to(mean, shape, build))
    return build.apply(DivideOp, centred, broadcast_to(divisor, shape, build))


def layer_normalization(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`LayerNormalization` over the dimensions from `axis` on: (x - mean) times the inverse standard deviation.

    %d = stablehlo.subtract %x, (mean of %x)
    %v = (mean of %d * %d), by `reduce`, `reshape`, `divide`
    %r = stablehlo.rsqrt (%v + epsilon)
    %n = stablehlo.multiply %d, %r
    Then `multiply` by the scale and `add` the bias. Mean and inverse deviation are the second and third output. Rows
    without elements have no mean and are returned unchanged.
    """
    value = node.operand(0)
    shape = shape_of(value)
    axes = range(axis_of(node.integer("axis", -1), len(shape)), len(shape))
    epsilon = node.number("epsilon", 1e-5)
    if 0 in shape[axes.start :]:
        return (value,)
    bias = node.operand(2) if node.has(2) else None
    return normalized_rows(value, axes, epsilon, node.operand(1), bias, build)


def normalized_rows(
    value: SSAValue, axes: range, epsilon: float, scale: SSAValue, bias: SSAValue | None, build: Builder
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The normalized value, the means and the inverse deviations."""
    shape = shape_of(value)

    def repeated(reduced: SSAValue) -> SSAValue:
        return build.broadcast(reduced, value.type, list(range(len(shape))))

    mean = mean_of(value, axes, True, build)
    centred = build.insert(SubtractOp(value, repeated(mean)))
    variance = mean_of(build.insert(MultiplyOp(centred, centred)), axes, True, build)
    shifted = build.insert(AddOp(variance, build.splat(epsilon, variance)))
    inverse = build.insert(RsqrtOp(shifted))
    result = build.insert(MultiplyOp(centred, repeated(inverse)))
    result = build.insert(MultiplyOp(result, broadcast_to(scale, shape, build)))
    result = result if bias is None else build.insert(AddOp(result, broadcast_to(bias, shape, build)))
    return result, mean, inverse


def instance_normalization(node: OnnxNode, build: Builder) -> SSAValue:
    """`InstanceNormalization`: layer normalization over the spatial dimensions, with scale and bias per channel.

    Images without elements are returned unchanged.
    """
    value = node.operand(0)
    shape = shape_of(value)
    if 0 in shape:
        return value
    axes = range(2, len(shape))

    def repeated(reduced: SSAValue) -> SSAValue:
        return build.broadcast(reduced, value.type, list(range(len(shape))))

    centred = build.insert(SubtractOp(value, repeated(mean_of(value, axes, True, build))))
    variance = mean_of(build.insert(MultiplyOp(centred, centred)), axes, True, build)
    shifted = build.insert(AddOp(variance, build.splat(node.number("epsilon", 1e-5), variance)))
    result = build.insert(MultiplyOp(centred, repeated(build.insert(RsqrtOp(shifted)))))
    result = build.insert(MultiplyOp(result, build.broadcast(node.operand(1), value.type, [1])))
    return build.insert(AddOp(result, build.broadcast(node.operand(2), value.type, [1])))


def local_response_normalization(node: OnnxNode, build: Builder) -> SSAValue:
    """`LRN`: x / (bias + alpha * sum / size)^beta with the sum of x^2 over neighbouring channels, by `reduce_window`.

    The quotient is a mean, which targets have a kernel for.
    """
    value = node.operand(0)
    shape = shape_of(value)
    size = node.integer("size", 1)
    rank = len(shape)
    if size < 1 or rank < 2:
        raise NodeError(f"found size {size} and shape {list(shape)}, expected 1 or more channels of an image")
    low, high = (size - 1) // 2, size // 2
    total = ReduceWindowOp(
        [build.insert(MultiplyOp(value, value))],
        [build.scalar(0.0, value)],
        [value.type],
        [size if axis == 1 else 1 for axis in range(rank)],
        binary_body(AddOp, element_of(value)),
        padding=[(low, high) if axis == 1 else (0, 0) for axis in range(rank)],
    )
    mean = build.insert(DivideOp(build.insert(total), build.splat(size, value)))
    scaled = build.insert(MultiplyOp(mean, build.splat(node.number("alpha", 1e-4), value)))
    shifted = build.insert(AddOp(scaled, build.splat(node.number("bias", 1.0), value)))
    divisor = build.insert(PowerOp(shifted, build.splat(node.number("beta", 0.75), value)))
    return build.insert(DivideOp(value, divisor))


def lp_normalization(node: OnnxNode, build: Builder) -> SSAValue:
    """`LpNormalization`: x / norm(x) along a dimension for p = 1 or 2; 0 where the norm is 0."""
    value = node.operand(0)
    shape = shape_of(value)
    axis = axis_of(node.integer("axis", -1), len(shape))
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise NodeError(f"found p {p}, expected 1 or 2")
    powers = build.insert(AbsOp(value)) if p == 1 else build.insert(MultiplyOp(value, value))
    norm = build.reduce(powers, [axis], 0.0)
    norm = norm if p == 1 else build.insert(SqrtOp(norm))
    norm = build.broadcast(norm, value.type, [other for other in range(len(shape)) if other != axis])
    zero = build.compare(ComparisonDirection.EQ, norm, 0.0)
    return build.insert(SelectOp(zero, build.splat(0.0, value), build.insert(DivideOp(value, norm))))


def _channels(node: OnnxNode, index: int, name: str, channels: int) -> Array:
    array = node.parameter(index, name)
    assert array is not None  # required by the schema
    _check_channels(name, array.shape, channels)
    return array.astype(np.float64)


def _check_channels(name: str, shape: Sequence[int], channels: int) -> None:
    if tuple(shape) != (channels,):
        raise NodeError(f"found '{name}' of shape {list(shape)}, expected [{channels}]")


def _softmax_axes(node: OnnxNode, rank: int) -> list[int]:
    """The dimensions of a softmax: one since opset 13, before that all dimensions from `axis` on."""
    if node.opset >= 13:
        return [axis_of(node.integer("axis", -1), rank)]
    return list(range(axis_of(node.integer("axis", 1), rank), rank))


def _shifted(value: SSAValue, axes: list[int], build: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
    """x - max(x), its exponential, and the sum of that."""
    kept = [axis for axis in range(len(shape_of(value))) if axis not in axes]
    greatest = build.reduce(value, axes, lowest(value), MaximumOp)
    shifted = build.insert(SubtractOp(value, build.broadcast(greatest, value.type, kept)))
    exponential = build.insert(ExponentialOp(shifted))
    return shifted, exponential, build.reduce(exponential, axes, 0.0)


def softmax(node: OnnxNode, build: Builder) -> SSAValue:
    """`Softmax`: e / sum(e) where e = exp(x - max(x)).

    %0 = stablehlo.reduce(%x init: %minus_infinity) applies stablehlo.maximum across dimensions = [1]
    %1 = stablehlo.broadcast_in_dim %0, dims = [0]
    %2 = stablehlo.subtract %x, %1
    %3 = stablehlo.exponential %2
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
    %5 = stablehlo.broadcast_in_dim %4, dims = [0]
    %6 = stablehlo.divide %3, %5
    """
    value = node.operand(0)
    return softmax_of(value, _softmax_axes(node, len(shape_of(value))), build)


def softmax_of(value: SSAValue, axes: list[int], build: Builder) -> SSAValue:
    """The softmax over some dimensions."""
    _, exponential, total = _shifted(value, axes, build)
    kept = [axis for axis in range(len(shape_of(value))) if axis not in axes]
    return build.insert(DivideOp(exponential, build.broadcast(total, value.type, kept)))


def log_softmax(node: OnnxNode, build: Builder) -> SSAValue:
    """`LogSoftmax`: s - log(sum(exp(s))) where s = x - max(x)."""
    value = node.operand(0)
    axes = _softmax_axes(node, len(shape_of(value)))
    shifted, _, total = _shifted(value, axes, build)
    kept = [axis for axis in range(len(shape_of(value))) if axis not in axes]
    logarithm = build.insert(LogOp(total))
    return build.insert(SubtractOp(shifted, build.broadcast(logarithm, value.type, kept)))
