"""What the rules share: insertion of ops in front of one, and the quantized types of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_if_dead
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import ReshapeOp, TransposeOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights


def quantized(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a tensor; None for other values."""
    element = element_of(value) if isinstance(value.type, TensorType) else None
    return element if isinstance(element, UniformQuantizedType) else None


def per_tensor(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a tensor with one scale; None for other values."""
    kind = quantized(value)
    return kind if kind is not None and kind.is_per_layer else None


def is_static(value: SSAValue) -> bool:
    """Whether all sizes of a tensor are known. Reshapes and pads of others have no known type."""
    return DYNAMIC_INDEX not in shape_of(value)


def with_axis(kind: UniformQuantizedType, axis: int) -> UniformQuantizedType:
    """A type with its scales along another dimension; one with a single scale stays."""
    return kind if kind.axis is None else UniformQuantizedType(replace(kind.data, axis=axis))


def owner(value: SSAValue) -> Operation | None:
    """The op that computes a value; None for an argument."""
    return value.op if isinstance(value, OpResult) else None


def only_user(value: SSAValue) -> Operation | None:
    """The only op that reads a value, once; None if there are none or several."""
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


class Rewrite:
    """Inserts ops in front of one, with its location."""

    def __init__(self, op: Operation, weights: Weights):
        self._op = op
        self.weights = weights

    def add(self, op: Operation) -> SSAValue:
        """Insert an op with one result."""
        op.location = self._op.location
        return Builder(InsertPoint.before(self._op)).insert(op).results[0]

    def constant(
        self, stored: Array, kind: UniformQuantizedType | None = None, element: Attribute | None = None
    ) -> SSAValue:
        """A constant of integers, or of a quantized type with these storage integers."""
        return self.add(constant_op(stored, self.weights, quantized=kind, element_type=element))

    def transposed(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Dimension i of the result is dimension `order[i]` of the value. A constant is written again."""
        if list(order) == list(range(len(order))):
            return value
        kind = quantized(value)
        array = constant_array(value, self.weights)
        if kind is not None and kind.axis is not None:
            kind = with_axis(kind, list(order).index(kind.axis))
        if array is not None and kind is not None:
            return self.constant(np.ascontiguousarray(array.transpose(order)), kind)
        shape = [shape_of(value)[d] for d in order]
        return self.add(TransposeOp(value, order, TensorType(kind or element_of(value), shape)))

    def reshaped(self, value: SSAValue, shape: Sequence[int], axis: int | None = None) -> SSAValue:
        """The same elements in another shape, scales along `axis` if there are several. A constant is written again."""
        if tuple(shape) == tuple(shape_of(value)):
            return value
        kind = quantized(value)
        if kind is not None and kind.axis is not None and axis is not None:
            kind = with_axis(kind, axis)
        array = constant_array(value, self.weights)
        if array is not None and kind is not None:
            return self.constant(array.reshape(shape), kind)
        return self.add(ReshapeOp(value, TensorType(kind or element_of(value), shape)))

    def replace(self, value: SSAValue) -> None:
        """Replace the op by a value, and remove the ops that only it has read."""
        before = [found for operand in self._op.operands if (found := owner(operand)) is not None]
        Rewriter.replace_op(self._op, [], [value])
        remove_unused(before)


def remove_unused(ops: Sequence[Operation]) -> None:
    """Remove the ops that nothing reads, and those that only they have read."""
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op.parent is None or any(result.first_use is not None for result in op.results):
            continue
        before = [found for operand in op.operands if (found := owner(operand)) is not None]
        if remove_if_dead(op):
            pending += before
