"""A value in a new order of its dimensions, and the context in which a rule rewrites an op to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.reshaped_orders import DimensionOrder, WantedOrder, moves_units
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, IotaOp, ReshapeOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights

T = TypeVar("T")


@dataclass(frozen=True)
class Permuted:
    """A value in a new order: its dimension i is dimension `order[i]` of the original value."""

    value: SSAValue
    order: DimensionOrder


def inverse(order: DimensionOrder) -> DimensionOrder:
    """The inverse permutation."""
    return tuple(order.index(i) for i in range(len(order)))


def kept_order(value: SSAValue) -> DimensionOrder:
    """The model's order of a value."""
    return tuple(range(len(shape_of(value))))


def is_identity(order: DimensionOrder) -> bool:
    """Whether the order is the identity."""
    return order == tuple(range(len(order)))


def reordered(values: Sequence[T], order: DimensionOrder) -> list[T]:
    """A list with one entry per dimension, in the new order."""
    return [values[dimension] for dimension in order]


def permuted_type(value: SSAValue | Attribute, order: DimensionOrder) -> TensorType[Attribute]:
    """The type of a value in a new order."""
    return TensorType(element_of(value), reordered(shape_of(value), order))


def is_pointwise(op: Operation) -> bool:
    """Whether an op is a convolution of single pixels, to which the dimensions of an image are alike."""
    if not isinstance(op, ConvolutionOp):
        return False
    layout, sizes = op.dimension_numbers.data, shape_of(op.rhs)
    steps = {*array_values(op.window_strides), *array_values(op.lhs_dilation)}
    rank = len(layout.input_spatial_dimensions)
    padded = any(map(any, padding_values(op.padding, rank)))
    return steps <= {1} and not padded and all(sizes[axis] == 1 for axis in layout.kernel_spatial_dimensions)


@dataclass(frozen=True)
class Rewriting:
    """The context of a rule: where to insert ops, the constants, and the values already in a new order."""

    builder: Builder
    weights: Weights
    values: Mapping[SSAValue, Permuted]
    mapping: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Replacements of values that keep their order."""
    wanted: WantedOrder | None = None
    """The order that readers of the result want."""

    def same(self, value: SSAValue) -> SSAValue:
        """The replacement of a value that keeps its order."""
        return self.mapping.get(value, value)

    def order_of(self, value: SSAValue) -> DimensionOrder | None:
        """The new order of a value; None if it keeps its order."""
        found = self.values.get(value)
        return None if found is None else found.order

    def order_or_kept(self, value: SSAValue) -> DimensionOrder:
        """The new order of a value, or the one that it keeps."""
        found = self.order_of(value)
        return kept_order(value) if found is None else found

    def in_order(self, value: SSAValue, order: DimensionOrder) -> SSAValue | None:
        """The value in a given order; None without a transpose. Constants and broadcasts are rebuilt in that order."""
        found = self.values.get(value)
        if found is not None and found.order == order:
            return found.value
        if len(shape_of(value)) != len(order):
            return None
        array = constant_array(value, self.weights)
        if array is not None:
            # The elements are transposed here, so that the file needs no transpose op.
            return self.builder.insert(constant_op(array.transpose(order), self.weights)).output
        op = value.owner
        if isinstance(op, IotaOp):
            axis = order.index(op.iota_dimension.value.data)
            return self.builder.insert(IotaOp(permuted_type(value, order), axis)).results[0]
        if isinstance(op, BroadcastInDimOp):
            source, axes = self.values.get(op.operand), array_values(op.broadcast_dimensions)
            if source is None:
                dimensions = [order.index(dimension) for dimension in axes]
                operand = self._ascending(op.operand, dimensions)
            else:
                dimensions = [order.index(axes[dimension]) for dimension in source.order]
                operand = self._by_units(source.value, dimensions)
            if operand is not None:
                made = BroadcastInDimOp(operand, permuted_type(value, order), sorted(dimensions))
                return self.builder.insert(made).result
        return None

    def _by_units(self, operand: SSAValue, dimensions: Sequence[int]) -> SSAValue | None:
        """The operand of a broadcast with its dimensions in the order of the result, if only dimensions of size 1 move;
        None if others do."""
        moved = tuple(sorted(range(len(dimensions)), key=dimensions.__getitem__))
        if is_identity(moved):
            return operand
        if not moves_units(shape_of(operand), moved):
            return None
        return self.builder.insert(ReshapeOp(operand, permuted_type(operand, moved))).result

    def _ascending(self, operand: SSAValue, dimensions: Sequence[int]) -> SSAValue | None:
        """The operand of a broadcast with its dimensions in the order of the result, because operators that repeat
        values do not transpose them. None in a region, which is one operator."""
        moved = sorted(range(len(dimensions)), key=dimensions.__getitem__)
        if is_identity(tuple(moved)):
            return self.same(operand)
        if self.mapping:  # the arguments of a region
            return None
        array = constant_array(operand, self.weights)
        if array is not None:
            return self.builder.insert(constant_op(array.transpose(moved), self.weights)).output
        return self.builder.insert(TransposeOp(operand, moved)).result

    def again(self, op: Operation, operands: Sequence[SSAValue], result: Attribute, **properties: object) -> SSAValue:
        """A copy of the op with new operands, another result type, and some properties replaced."""
        made = type(op).create(
            operands=operands,
            result_types=[result],
            properties={**op.properties, **properties},  # pyright: ignore[reportArgumentType] (attributes, by name)
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        made.location = op.location
        return self.builder.insert(made).results[0]


def in_order_of(value: Permuted, order: DimensionOrder, builder: Builder) -> Permuted:
    """A value in another order, by a transpose in the body of a kernel that the runtime computes as one operator."""
    if value.order == order:
        return value
    moved = TransposeOp(value.value, [value.order.index(dimension) for dimension in order])
    return Permuted(builder.insert(moved).result, order)
