"""Folds a per-channel scale and shift into the preceding contraction.

```mlir
%0 = stablehlo.convolution(%x, %w) ...
%1 = stablehlo.multiply %0, (broadcast of %scale along the channels)
%2 = stablehlo.add %1, (broadcast of %shift along the channels)
```
becomes one convolution with `w * scale` and one add of `shift`. Batch norms reach this pass in this form. Products and
sums of constants are computed in f64 and rounded once. An op that replaces two has the locations of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.annotations import PINNED, SCALED_AFTER
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import fused_location, location_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.simplify.scaled_pins import scaled_pin
from zeropoint.simplify.statements import rewrite, without_statements


def _per_channel(value: SSAValue, axis: int, weights: Weights) -> Array | None:
    """The rank-1 constant that `value` broadcasts along `axis`, as f64."""
    op = value.owner
    if not isinstance(op, BroadcastInDimOp):
        return None
    array = constant_array(op.operand, weights)
    if array is None or array.ndim > 1:
        return None
    if array.ndim == 1 and op.broadcast_dimensions.get_values() != (axis,):
        return None
    return array.astype(np.float64)


def _contraction(value: SSAValue, weights: Weights) -> ContractionOp | None:
    """The contraction with constant weights that defines `value`, if `value` has only one user; None otherwise."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConvolutionOp | DotGeneralOp):
        return None
    if not value.has_one_use() or constant_array(value.op.rhs, weights) is None:
        return None
    return value.op if weight_channel_axis(value.op) is not None else None


def _replace_by_broadcast(value: SSAValue, array: Array, axis: int, builder: Builder, weights: Weights) -> SSAValue:
    location = location_of(value)
    constant = builder.insert(constant_op(array.astype(np.float32), weights, location=location))
    made = builder.insert(BroadcastInDimOp(constant.output, value.type, [axis]))
    made.location = location
    return made.result


@dataclass
class FoldScale(RewritePattern):
    """(x * w) * scale -> x * (w * scale), also across a bias addition."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter) -> None:
        """Rewrite the product and its contraction."""
        inner = op.lhs.owner
        contraction = _contraction(op.lhs, self.weights)
        bias: Array | None = None
        if contraction is None and isinstance(inner, AddOp) and op.lhs.has_one_use():
            contraction = _contraction(inner.lhs, self.weights)
            if contraction is not None:
                bias = _per_channel(inner.rhs, output_channel_axis(contraction), self.weights)
        if contraction is None or (contraction is not inner and bias is None):
            return
        axis = output_channel_axis(contraction)
        scale = _per_channel(op.rhs, axis, self.weights)
        if scale is None:
            return
        builder = Builder(InsertPoint.before(op))
        scaled = self._scaled(contraction, scale, builder)
        scaled.location = fused_location(contraction.location, op.location)
        value = scaled.results[0]
        if bias is not None:
            shift = _replace_by_broadcast(op.lhs, np.atleast_1d(bias * scale), axis, builder, self.weights)
            added = builder.insert(AddOp(value, shift))
            added.location = fused_location(location_of(op.lhs), op.location)
            value = added.result
        rewriter.replace(op, [], [value])

    def _scaled(self, contraction: ContractionOp, scale: Array, builder: Builder) -> Operation:
        weight = constant_array(contraction.rhs, self.weights)
        axis = weight_channel_axis(contraction)
        assert weight is not None and axis is not None
        shape = [1] * weight.ndim
        shape[axis] = -1
        scaled = (weight.astype(np.float64) * np.atleast_1d(scale).reshape(shape)).astype(np.float32)
        location = contraction.rhs.owner.location if isinstance(contraction.rhs.owner, Operation) else None
        constant = builder.insert(constant_op(scaled, self.weights, location=location))
        made = builder.insert(without_statements(contraction.clone({contraction.rhs: constant.output})))
        if (pinned := scaled_pin(contraction.rhs, np.atleast_1d(scale), axis, self.weights)) is not None:
            constant.attributes[PINNED] = pinned
            made.attributes[SCALED_AFTER] = UnitAttr()
        return made


@dataclass
class MergeShifts(RewritePattern):
    """(x * w + a) + b -> x * w + (a + b); `subtract` is an addition of -b."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp | SubtractOp, rewriter: PatternRewriter) -> None:
        """Rewrite two sums of channel constants into one, and a difference into a sum."""
        inner = op.lhs.owner
        first: Array | None = None
        contraction = _contraction(op.lhs, self.weights)
        if contraction is None and isinstance(inner, AddOp) and op.lhs.has_one_use():
            contraction = _contraction(inner.lhs, self.weights)
            if contraction is not None:
                first = _per_channel(inner.rhs, output_channel_axis(contraction), self.weights)
        if contraction is None or (first is None and isinstance(op, AddOp)):
            return
        axis = output_channel_axis(contraction)
        second = _per_channel(op.rhs, axis, self.weights)
        if second is None or (contraction is not inner and first is None):
            return
        total = (0.0 if first is None else first) + (-second if isinstance(op, SubtractOp) else second)
        builder = Builder(InsertPoint.before(op))
        shift = _replace_by_broadcast(op.result, np.atleast_1d(total), axis, builder, self.weights)
        added = AddOp(contraction.result, shift)
        added.location = op.location if first is None else fused_location(location_of(op.lhs), op.location)
        rewriter.replace(op, added)


def fold_batch_norm(program: Program) -> Program:
    """A copy in which scales and shifts are folded.

    One walk in program order folds a scale, then the shift after it.
    """
    program = program.for_change()
    rewrite(program, FoldScale(program.weights), MergeShifts(program.weights))
    remove_dead_ops(program.entry)
    return program
