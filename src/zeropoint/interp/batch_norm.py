"""Batch normalisation ops, composed of elementwise ops and sums as in the StableHLO specification.

Every step is computed in the (expressed) element type, in the specification's order. Sums are those of `reduce`.
Quantized operands are dequantized first, and results are quantized.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Attribute, SSAValue

from zeropoint.interp.affine import dequantization, is_quantized, quantization
from zeropoint.interp.binding import Kernel, Scope, Unary
from zeropoint.interp.reduction import sum_of
from zeropoint.ir.stablehlo import BatchNormGradOp, BatchNormInferenceOp, BatchNormTrainingOp
from zeropoint.ir.stablehlo.batch_norm import BatchNormOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.numerics.normalization import normalized

SpreadFunction = Callable[[Array], Array]


def _on_reals(op: BatchNormOp, scope: Scope, kernel: Callable[..., tuple[Array, ...]]) -> Kernel:
    """Wrap the kernel: dequantize quantized operands, quantize quantized results."""

    def edge(value: SSAValue, convert: Callable[[Attribute], Unary]) -> Unary:
        element = element_of(value)
        return convert(element) if is_quantized(element) else lambda array: array

    into = [edge(value, dequantization) for value in op.operands]
    out_of = [edge(value, lambda t: quantization(t, scope.profile)) for value in op.results]

    def run(*operands: Array) -> tuple[Array, ...]:
        results = kernel(*(convert(value) for convert, value in zip(into, operands, strict=True)))
        return tuple(convert(value) for convert, value in zip(out_of, results, strict=True))

    return run


def _spread(op: BatchNormOp) -> SpreadFunction:
    """Broadcast one value per feature along the feature dimension."""
    rank, feature = len(shape_of(op.operands[0])), op.feature
    shape = [-1 if dim == feature else 1 for dim in range(rank)]
    return lambda values: values.reshape(shape)


def _sum(op: BatchNormOp) -> Unary:
    """The specification's compute_sum: over all dimensions except the feature dimension."""
    dims = tuple(dim for dim in range(len(shape_of(op.operands[0]))) if dim != op.feature)
    return lambda values: sum_of(values, dims)


def _count(op: BatchNormOp, like: Array) -> Array:
    """The number of elements per feature of the operand `like`, in its dtype."""
    return np.asarray(like.size // max(1, like.shape[op.feature])).astype(like.dtype)


def _epsilon(op: BatchNormOp, like: Array) -> Array:
    return np.asarray(op.epsilon.value.data).astype(like.dtype)


def inference(op: BatchNormInferenceOp, scope: Scope) -> Kernel:
    """scale * ((operand - mean) / sqrt(variance + epsilon)) + offset."""
    spread = _spread(op)

    def run(operand: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        return (_normalized(op, operand, scale, offset, mean, variance, spread),)

    return _on_reals(op, scope, run)


def _normalized(
    op: BatchNormOp, operand: Array, scale: Array, offset: Array, mean: Array, variance: Array, spread: SpreadFunction
) -> Array:
    features = (spread(array) for array in (scale, offset, mean, variance))
    return normalized(operand, *features, epsilon=op.epsilon.value.data)


def training(op: BatchNormTrainingOp, scope: Scope) -> Kernel:
    """`inference` with the mean and variance of the operand, which are the other two results."""
    spread, total = _spread(op), _sum(op)

    def run(operand: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
        count = _count(op, operand)
        mean = total(operand) / count
        centered = operand - spread(mean)
        variance = total(centered * centered) / count
        return _normalized(op, operand, scale, offset, mean, variance, spread), mean, variance

    return _on_reals(op, scope, run)


def gradient(op: BatchNormGradOp, scope: Scope) -> Kernel:
    """The gradients with respect to operand, scale and offset."""
    spread, total = _spread(op), _sum(op)

    def run(operand: Array, scale: Array, mean: Array, variance: Array, grad_output: Array) -> tuple[Array, ...]:
        count = _count(op, operand)
        shifted = spread(variance) + _epsilon(op, operand)
        centered, deviation = operand - spread(mean), np.sqrt(shifted)
        along = spread(total(grad_output * centered)) * centered / shifted
        inner = grad_output * count - spread(total(grad_output)) - along
        grad_operand = spread(scale) / deviation * inner / count
        return grad_operand, total(grad_output * (centered / deviation)), total(grad_output)

    return _on_reals(op, scope, run)
