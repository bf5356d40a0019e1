"""Rules of the layout pass for products and gathers, whose operands may have orders of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zeropoint.export.errors import ExportError
from zeropoint.export.gathers import leading_indices, taken_axis
from zeropoint.export.permuted import Permuted, Rewriting, permuted_type, reordered
from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp, GatherOp
from zeropoint.ir.stablehlo.arrays import array_values, i64_array
from zeropoint.ir.stablehlo.attributes import DotDimensionNumbersAttr, GatherDimensionNumbersAttr
from zeropoint.ir.tensors import shape_of


def product(op: DotGeneralOp, run: Rewriting) -> Permuted | None:
    """A product whose dimension numbers follow the orders of its operands. Constant weights keep their order.

    Contracting dimensions are listed in the order of the first operand, so that it can be reshaped to a matrix. The
    dimensions of the result are those of the operands in their new orders.
    """
    numbers, orders = op.dot_dimension_numbers.data, [run.order_or_kept(value) for value in op.operands]
    left, right = orders
    batches = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    summed = sorted(
        zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True),
        key=lambda pair: left.index(pair[0]),
    )
    made = DotDimensions(
        lhs_batching_dimensions=tuple(left.index(first) for first, _ in batches),
        rhs_batching_dimensions=tuple(right.index(second) for _, second in batches),
        lhs_contracting_dimensions=tuple(left.index(first) for first, _ in summed),
        rhs_contracting_dimensions=tuple(right.index(second) for _, second in summed),
    )
    order = list(range(len(batches)))
    for side, whole in enumerate(orders):
        taken = {pair[side] for pair in (*batches, *summed)}
        order += _places([dimension for dimension in whole if dimension not in taken], len(order))
    operands = [run.values[value].value if value in run.values else run.same(value) for value in op.operands]
    result = permuted_type(op.result, tuple(order))
    return Permuted(run.again(op, operands, result, dot_dimension_numbers=DotDimensionNumbersAttr(made)), tuple(order))


def _places(dimensions: Sequence[int], first: int) -> list[int]:
    """The dimensions of a result, from `first` on, that come from these dimensions of an operand, in its new order."""
    return [first + sorted(dimensions).index(dimension) for dimension in dimensions]


def gather(op: GatherOp, run: Rewriting) -> Permuted | None:
    """Whole slices along one dimension, at one-dimensional indices; None for other gathers."""
    source, indices = run.values.get(op.operand), op.start_indices
    if source is None or indices in run.values or len(shape_of(op.result)) != len(source.order) or leading_indices(op):
        return None
    try:
        axis = source.order.index(taken_axis(op))
    except ExportError:
        return None
    order: DimensionOrder = source.order
    numbers = replace(
        op.dimension_numbers.data,
        offset_dims=tuple(dimension for dimension in range(len(order)) if dimension != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = i64_array(reordered(array_values(op.slice_sizes), order))
    made = run.again(
        op,
        [source.value, run.same(indices)],
        permuted_type(op.result, order),
        dimension_numbers=GatherDimensionNumbersAttr(numbers),
        slice_sizes=sizes,
    )
    return Permuted(made, order)
