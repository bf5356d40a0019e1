"""Sorts of values together with their positions, which runtimes implement as top-k."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.export.errors import ExportError
from zeropoint.export.permuted import Permuted, permuted_type
from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import IotaOp, SliceOp, SortOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.sort import sort_key
from zeropoint.ir.tensors import element_of, shape_of


def sorted_axis(op: SortOp) -> tuple[int, bool]:
    """The sorted dimension, and whether the largest values come first.

    Raises ExportError for a sort that is not a top-k: its operands are not floats and their positions, or its
    comparator is not a comparison of the floats.
    """
    axis = len(shape_of(op.inputs[0])) - 1 if op.dimension is None else op.dimension.value.data
    key = sort_key(op.comparator.block)
    positions = op.inputs[1].owner if len(op.inputs) == 2 else None
    counts = isinstance(positions, IotaOp) and positions.iota_dimension.value.data == axis
    if counts and key is not None and key.input == 0 and isinstance(element_of(op.inputs[0]), AnyFloat):
        return axis, key.descending
    raise ExportError("found a sort, expected one of floats together with their positions (top-k)", op)


def sort_along_last(
    op: SortOp, given: DimensionOrder, operand: Callable[[DimensionOrder], SSAValue]
) -> Sequence[Permuted]:
    """The results of a top-k along the last dimension, which runtimes require; none for other sorts.

    The other dimensions keep the order `given`. `operand` makes the sorted values in an order.
    """
    try:
        axis, _ = sorted_axis(op)
    except ExportError:  # the format's rule refuses it
        return []
    order = (*(dimension for dimension in given if dimension != axis), axis)
    builder = Builder(InsertPoint.before(op))
    values = operand(order)
    positions = builder.insert(IotaOp(permuted_type(op.inputs[1], order), len(order) - 1))
    made = SortOp([values, positions.results[0]], op.comparator.clone(), dimension=len(order) - 1, stable=True)
    made.attributes.update(op.attributes)
    made.location = op.location
    builder.insert(made)
    return [Permuted(result, order) for result in made.results]


def first_taken(op: SortOp, axis: int) -> int:
    """How many of the first elements along the sorted dimension the readers of a top-k take."""
    shape = shape_of(op.inputs[0])
    uses = [use for result in op.results for use in result.uses]
    return max([1, *(_end(use.operation, axis, shape) for use in uses)])


def _end(reader: Operation, axis: int, shape: Sequence[int]) -> int:
    """The end of the part that a reader takes along a dimension."""
    if isinstance(reader, QuantizeRegionOp):
        first = reader.body.block.first_op
        alone = len(list(reader.body.block.ops)) == 2
        return _end(first, axis, shape) if alone and isinstance(first, SliceOp) else shape[axis]
    return array_values(reader.limit_indices)[axis] if isinstance(reader, SliceOp) else shape[axis]
