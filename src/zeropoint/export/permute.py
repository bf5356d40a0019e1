"""Rules that rewrite an op to operands with permuted dimensions.

An *order* lists, for each dimension of the new value, the corresponding dimension of the old one: the channels-last
form of an NCHW tensor has the order (0, 2, 3, 1). A rule takes an op whose operands have new forms, and builds the op
that computes the same result in a new order. It returns None if there is no such op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.reshaped_orders import DimensionOrder, last_order, reshaped_order
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConvertOp,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    IotaOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr, DotDimensionNumbersAttr
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


def is_identity(order: DimensionOrder) -> bool:
    """Whether the order is the identity."""
    return order == tuple(range(len(order)))


def reordered(values: Sequence[T], order: DimensionOrder) -> list[T]:
    """A list with one entry per dimension, in the new order."""
    return [values[dimension] for dimension in order]


def permuted_type(value: SSAValue | Attribute, order: DimensionOrder) -> TensorType[Attribute]:
    """The type of a value in a new order."""
    return TensorType(element_of(value), reordered(shape_of(value), order))


@dataclass(frozen=True)
class Rewriting:
    """The context of a rule: where to insert ops, the constants, and the values already in a new order."""

    builder: Builder
    weights: Weights
    values: Mapping[SSAValue, Permuted]
    mapping: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Replacements of values that keep their order."""
    wanted: DimensionOrder | None = None
    """The order that readers of the result want."""

    def same(self, value: SSAValue) -> SSAValue:
        """The replacement of a value that keeps its order."""
        return self.mapping.get(value, value)

    def order_of(self, value: SSAValue) -> DimensionOrder | None:
        """The new order of a value; None if it keeps its order."""
        found = self.values.get(value)
        return None if found is None else found.order

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
        if isinstance(op, BroadcastInDimOp) and op.operand not in self.values:
            dimensions = [order.index(dimension) for dimension in array_values(op.broadcast_dimensions)]
            operand = self._ascending(op.operand, dimensions)
            if operand is not None:
                made = BroadcastInDimOp(operand, permuted_type(value, order), sorted(dimensions))
                return self.builder.insert(made).result
        return None

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


def _leading(op: Operation, run: Rewriting) -> DimensionOrder | None:
    """The order of the first operand that is reordered."""
    return next((order for order in map(run.order_of, op.operands) if order is not None), None)


def _elementwise(op: Operation, run: Rewriting) -> Permuted | None:
    order = _leading(op, run)
    if order is None:
        return None
    operands: list[SSAValue] = []
    for operand in op.operands:
        found = run.same(operand) if not shape_of(operand) else run.in_order(operand, order)
        if found is None:
            return None
        operands.append(found)
    return Permuted(run.again(op, operands, permuted_type(op.results[0], order)), order)


def _broadcast(op: BroadcastInDimOp, run: Rewriting) -> Permuted | None:
    source = run.values[op.operand]
    old = array_values(op.broadcast_dimensions)
    order = list(last_order(len(shape_of(op.result))))
    # The operand's dimensions in its own order, because operators that repeat values do not transpose them.
    dimensions = sorted(order.index(dimension) for dimension in old)
    for place, dimension in zip(dimensions, source.order, strict=True):
        order[place] = old[dimension]
    order = tuple(order)
    made = BroadcastInDimOp(source.value, permuted_type(op.result, order), dimensions)
    made.location = op.location
    return Permuted(run.builder.insert(made).result, order)


def _reduce(op: ReduceOp, run: Rewriting) -> Permuted | None:
    if len(op.inputs) != 1:
        return None
    source = run.values[op.inputs[0]]
    reduced = array_values(op.dimensions)
    kept = [dimension for dimension in range(len(source.order)) if dimension not in reduced]
    order = tuple(kept.index(dimension) for dimension in source.order if dimension not in reduced)
    # StableHLO requires ascending order.
    dimensions = sorted(source.order.index(dimension) for dimension in reduced)
    result = permuted_type(op.results[0], order)
    value = run.again(op, [source.value, *map(run.same, op.init_values)], result, dimensions=i64_array(dimensions))
    return Permuted(value, order)


def _reduce_window(op: ReduceWindowOp, run: Rewriting) -> Permuted | None:
    if len(op.inputs) != 1:
        return None
    source = run.values[op.inputs[0]]
    order, rank = source.order, len(source.order)
    padding = reordered(padding_values(op.padding, rank), order)
    arrays = {
        name: i64_array(reordered(array_values(attribute), order))
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        if (attribute := getattr(op, name)) is not None
    }
    result = permuted_type(op.results[0], order)
    operands = [source.value, *map(run.same, op.init_values)]
    return Permuted(run.again(op, operands, result, **arrays, padding=padding_attribute(padding)), order)


def _convolution(op: ConvolutionOp, run: Rewriting) -> Permuted | None:
    source = run.values.get(op.lhs)
    # A computed, reordered kernel would need the transpose that this pass avoids.
    if source is None or op.rhs in run.values:
        return None
    order, old = source.order, op.dimension_numbers.data
    layout = replace(
        old,
        input_batch_dimension=order.index(old.input_batch_dimension),
        input_feature_dimension=order.index(old.input_feature_dimension),
        input_spatial_dimensions=tuple(order.index(d) for d in old.input_spatial_dimensions),
        output_batch_dimension=order.index(old.output_batch_dimension),
        output_feature_dimension=order.index(old.output_feature_dimension),
        output_spatial_dimensions=tuple(order.index(d) for d in old.output_spatial_dimensions),
    )
    result = permuted_type(op.result, order)
    value = run.again(op, [source.value, run.same(op.rhs)], result, dimension_numbers=ConvDimensionNumbersAttr(layout))
    return Permuted(value, order)


def _dot(op: DotGeneralOp, run: Rewriting) -> Permuted | None:
    """A product of constant weights, which take the order of the other operand's contracting dimensions."""
    source, numbers = run.values.get(op.lhs), op.dot_dimension_numbers.data
    if source is None or op.rhs in run.values or numbers.lhs_batching_dimensions:
        return None
    over = dict(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    summed = [dimension for dimension in source.order if dimension in over]
    kept = [dimension for dimension in source.order if dimension not in over]
    order = (*(sorted(kept).index(dimension) for dimension in kept), *range(len(kept), len(shape_of(op.result))))
    made = DotDimensions(
        lhs_contracting_dimensions=tuple(source.order.index(dimension) for dimension in summed),
        rhs_contracting_dimensions=tuple(over[dimension] for dimension in summed),
    )
    operands, result = [source.value, run.same(op.rhs)], permuted_type(op.result, order)
    return Permuted(run.again(op, operands, result, dot_dimension_numbers=DotDimensionNumbersAttr(made)), order)


def _reshape(op: ReshapeOp, run: Rewriting) -> Permuted | None:
    """A reshape that keeps each moved dimension, or run of dimensions, together; None for others."""
    source = run.values[op.operand]
    order = reshaped_order(shape_of(op.operand), shape_of(op.result), source.order)
    if order is None:
        return None
    made = ReshapeOp(source.value, permuted_type(op.result, order))
    made.location = op.location
    return Permuted(run.builder.insert(made).result, order)


def _concatenate(op: ConcatenateOp, run: Rewriting) -> Permuted | None:
    order = _leading(op, run)
    if order is None:
        return None
    operands = [run.in_order(operand, order) for operand in op.inputs]
    if any(operand is None for operand in operands):
        return None
    made = ConcatenateOp([operand for operand in operands if operand is not None], order.index(op.dimension.value.data))
    made.location = op.location
    return Permuted(run.builder.insert(made).result, order)


def _by_dimension(*names: str) -> Callable[[Operation, Rewriting], Permuted | None]:
    """The rule of an op on one tensor. The named attributes have one entry per dimension and are reordered."""

    def rule(op: Operation, run: Rewriting) -> Permuted | None:
        source = run.values.get(op.operands[0])
        if source is None:
            return None
        arrays = {name: i64_array(reordered(array_values(getattr(op, name)), source.order)) for name in names}
        operands = [source.value, *map(run.same, op.operands[1:])]
        return Permuted(run.again(op, operands, permuted_type(op.results[0], source.order), **arrays), source.order)

    return rule


def _reverse(op: ReverseOp, run: Rewriting) -> Permuted | None:
    source = run.values[op.operand]
    dimensions = [source.order.index(dimension) for dimension in array_values(op.dimensions)]
    result = permuted_type(op.result, source.order)
    return Permuted(run.again(op, [source.value], result, dimensions=i64_array(dimensions)), source.order)


def _transpose(op: TransposeOp, run: Rewriting) -> Permuted | None:
    """A transpose of the model, to the order that its readers want, else to the model's. The identity is dropped."""
    source = run.values[op.operand]
    wanted = array_values(op.permutation)
    kept = tuple(range(len(wanted)))
    order = kept if run.wanted is None or len(run.wanted) != len(wanted) else run.wanted
    moved = [source.order.index(wanted[dimension]) for dimension in order]
    if is_identity(tuple(moved)):
        return Permuted(source.value, order)
    made = TransposeOp(source.value, moved)
    made.location = op.location
    return Permuted(run.builder.insert(made).result, order)


PermuteRule = Callable[..., "Permuted | None"]
RULES: Mapping[type[Operation], PermuteRule] = {
    BroadcastInDimOp: _broadcast,
    ClampOp: _elementwise,
    CompareOp: _elementwise,
    ConcatenateOp: _concatenate,
    ConvertOp: _elementwise,
    ConvolutionOp: _convolution,
    DotGeneralOp: _dot,
    PadOp: _by_dimension("edge_padding_low", "edge_padding_high", "interior_padding"),
    ReduceOp: _reduce,
    ReduceWindowOp: _reduce_window,
    ReshapeOp: _reshape,
    ReverseOp: _reverse,
    SelectOp: _elementwise,
    SliceOp: _by_dimension("start_indices", "limit_indices", "strides"),
    TransposeOp: _transpose,
}


def permuted(op: Operation, run: Rewriting) -> Permuted | None:
    """The op rewritten to the order of its operands; None if it cannot be rewritten."""
    if isinstance(op, UnaryOp | BinaryOp):
        return _elementwise(op, run)
    rule = RULES.get(type(op))
    return None if rule is None else rule(op, run)
