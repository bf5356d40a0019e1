"""Rules that rewrite an op to operands with permuted dimensions.

An *order* lists, for each dimension of the new value, the corresponding dimension of the old one: the channels-last
form of an NCHW tensor has the order (0, 2, 3, 1). A rule takes an op whose operands have new forms, and builds the op
that computes the same result in a new order. It returns None if there is no such op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from zeropoint.export.permuted import Permuted, Rewriting, is_identity, is_pointwise, permuted_type, reordered
from zeropoint.export.permuted_products import gather, product
from zeropoint.export.reshaped_orders import DimensionOrder, last_order, reshaped_order
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    GatherOp,
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
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr
from zeropoint.ir.tensors import shape_of


def _leading(op: Operation, run: Rewriting) -> DimensionOrder | None:
    """The order of the first operand that is reordered."""
    return next((order for order in map(run.order_of, op.operands) if order is not None), None)


def _elementwise(op: Operation, run: Rewriting) -> Permuted | None:
    order = _leading(op, run)
    if order is None:
        return None
    operands: list[SSAValue] = []
    for operand in op.operands:
        is_number = not shape_of(operand) and operand not in run.values  # else what remains of a reordered value
        found = run.same(operand) if is_number else run.in_order(operand, order)
        if found is None:
            return None
        operands.append(found)
    return Permuted(run.again(op, operands, permuted_type(op.results[0], order)), order)


def _broadcast(op: BroadcastInDimOp, run: Rewriting) -> Permuted | None:
    source = run.values[op.operand]
    old = array_values(op.broadcast_dimensions)
    rank = len(shape_of(op.result))
    order = list(source.order if len(old) == rank else last_order(rank))
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
    given, made = (
        [order.index(dimension) for dimension in dimensions]
        for dimensions in (old.input_spatial_dimensions, old.output_spatial_dimensions)
    )
    if is_pointwise(op):  # the dimensions of an image are alike
        given, made = sorted(given), sorted(made)
    layout = replace(
        old,
        input_batch_dimension=order.index(old.input_batch_dimension),
        input_feature_dimension=order.index(old.input_feature_dimension),
        input_spatial_dimensions=tuple(given),
        output_batch_dimension=order.index(old.output_batch_dimension),
        output_feature_dimension=order.index(old.output_feature_dimension),
        output_spatial_dimensions=tuple(made),
    )
    result = permuted_type(op.result, order)
    value = run.again(op, [source.value, run.same(op.rhs)], result, dimension_numbers=ConvDimensionNumbersAttr(layout))
    return Permuted(value, order)


def _reshape(op: ReshapeOp, run: Rewriting) -> Permuted | None:
    """A reshape that keeps each moved dimension, or run of dimensions, together; None for others."""
    source = run.values[op.operand]
    order = _reduced_order(op, run) or reshaped_order(shape_of(op.operand), shape_of(op.result), source.order)
    if order is None:
        return None
    made = ReshapeOp(source.value, permuted_type(op.result, order))
    made.location = op.location
    return Permuted(run.builder.insert(made).result, order)


def _reduced_order(op: ReshapeOp, run: Rewriting) -> DimensionOrder | None:
    """The order of a reduction's operand, if a reshape gives its result the reduced dimensions again, of size 1."""
    reduced = op.operand.owner
    if not isinstance(reduced, ReduceOp) or reduced.inputs[0] not in run.values:
        return None
    over = array_values(reduced.dimensions)
    sizes = enumerate(shape_of(reduced.inputs[0]))
    kept = tuple(1 if dimension in over else size for dimension, size in sizes)
    return run.values[reduced.inputs[0]].order if shape_of(op.result) == kept else None


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
    order = kept if run.wanted is None or len(run.wanted.order) != len(wanted) else run.wanted.order
    unmoved = tuple(wanted.index(dimension) for dimension in source.order)
    if run.wanted is not None and run.wanted.takes(unmoved):
        return Permuted(source.value, unmoved)
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
    DotGeneralOp: product,
    GatherOp: gather,
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
