"""Batch norms of floats as elementwise ops and reductions.

Source: the StableHLO specification, "batch_norm_inference", "batch_norm_training", "batch_norm_grad"; the order of
operations is that of `interp.batch_norm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.stablehlo import (
    AddOp,
    BatchNormGradOp,
    BatchNormInferenceOp,
    BatchNormTrainingOp,
    DivideOp,
    MultiplyOp,
    ReduceOp,
    SqrtOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.batch_norm import BatchNormOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


@dataclass(frozen=True)
class _Form:
    """Emits the computations that the three ops share."""

    emit: Emission
    op: BatchNormOp

    @property
    def count(self) -> int:
        """The number of elements per feature."""
        shape = shape_of(self.op.operands[0])
        return math.prod(shape) // max(1, shape[self.op.feature])

    def spread(self, features: SSAValue) -> SSAValue:
        """Values per feature, broadcast to the shape of the operand."""
        return self.emit.spread(features, shape_of(self.op.operands[0]), [self.op.feature])

    def total(self, values: SSAValue) -> SSAValue:
        """The sum per feature."""
        dims = [dim for dim in range(len(shape_of(values))) if dim != self.op.feature]
        element = element_of(values)
        zero = self.emit.constant(np.zeros((), element_dtype(element)))
        result = TensorType(element, [shape_of(values)[self.op.feature]])
        return self.emit.add(ReduceOp([values], [zero], [result], dims, binary_body(AddOp, element)))

    def divided(self, values: SSAValue) -> SSAValue:
        """Values divided by the number of elements per feature."""
        return self.emit.add(DivideOp(values, self.emit.splat(self.count, values)))

    def shifted(self, variance: SSAValue) -> SSAValue:
        """variance + epsilon."""
        epsilon = self.emit.splat(self.op.epsilon.value.data, variance)
        return self.emit.add(AddOp(variance, epsilon))

    def centered(self, operand: SSAValue, mean: SSAValue) -> SSAValue:
        """operand - mean."""
        return self.emit.add(SubtractOp(operand, self.spread(mean)))

    def normalized(
        self, operand: SSAValue, scale: SSAValue, offset: SSAValue, mean: SSAValue, variance: SSAValue
    ) -> SSAValue:
        """scale * ((operand - mean) / sqrt(variance + epsilon)) + offset."""
        emit = self.emit
        deviation = emit.add(SqrtOp(self.shifted(variance)))
        scaled = emit.add(DivideOp(self.centered(operand, mean), self.spread(deviation)))
        return emit.add(AddOp(emit.add(MultiplyOp(self.spread(scale), scaled)), self.spread(offset)))


def _is_float(op: BatchNormOp) -> bool:
    return all(isinstance(element_of(value), AnyFloat) for value in op.operands)


def batch_norm_inference(emit: Emission, op: BatchNormInferenceOp) -> Sequence[SSAValue] | None:
    """scale * ((operand - mean) / sqrt(variance + epsilon)) + offset; None for quantized values."""
    return [_Form(emit, op).normalized(*op.operands)] if _is_float(op) else None


def batch_norm_training(emit: Emission, op: BatchNormTrainingOp) -> Sequence[SSAValue] | None:
    """`batch_norm_inference` with the operand's own mean and variance, which are the other two results."""
    if not _is_float(op):
        return None
    form, (operand, scale, offset) = _Form(emit, op), op.operands
    mean = form.divided(form.total(operand))
    centered = form.centered(operand, mean)
    variance = form.divided(form.total(emit.add(MultiplyOp(centered, centered))))
    return [form.normalized(operand, scale, offset, mean, variance), mean, variance]


def batch_norm_grad(emit: Emission, op: BatchNormGradOp) -> Sequence[SSAValue] | None:
    """The gradients of operand, scale and offset."""
    if not _is_float(op):
        return None
    form, (operand, scale, mean, variance, given) = _Form(emit, op), op.operands
    shifted = form.shifted(variance)
    centered, deviation = form.centered(operand, mean), form.spread(emit.add(SqrtOp(shifted)))
    covered = form.spread(form.total(emit.add(MultiplyOp(given, centered))))
    along = emit.add(DivideOp(emit.add(MultiplyOp(covered, centered)), form.spread(shifted)))
    counted = emit.add(MultiplyOp(given, emit.splat(form.count, given)))
    offset = form.total(given)
    inner = emit.add(SubtractOp(emit.add(SubtractOp(counted, form.spread(offset))), along))
    scaled = emit.add(MultiplyOp(emit.add(DivideOp(form.spread(scale), deviation)), inner))
    of_scale = form.total(emit.add(MultiplyOp(given, emit.add(DivideOp(centered, deviation)))))
    return [form.divided(scaled), of_scale, offset]
