"""Sorts of values together with their positions, which runtimes have as top-k."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat

from zeropoint.export.errors import ExportError
from zeropoint.ir.stablehlo import CompareOp, ComparisonDirection, IotaOp, ReturnOp, SortOp
from zeropoint.ir.tensors import element_of, shape_of


def sorted_axis(op: SortOp) -> tuple[int, bool]:
    """The dimension that is sorted, and whether the greatest values come first.

    Raises ExportError for a sort that is no top-k: one with other operands than floats and their positions, or with
    another comparator.
    """
    axis = len(shape_of(op.inputs[0])) - 1 if op.dimension is None else op.dimension.value.data
    found = list(op.comparator.block.ops)
    positions = op.inputs[1].owner if len(op.inputs) == 2 else None
    counts = isinstance(positions, IotaOp) and positions.iota_dimension.value.data == axis
    if counts and len(found) == 2 and isinstance(found[0], CompareOp) and isinstance(found[1], ReturnOp):
        compared = tuple(found[0].operands) == tuple(op.comparator.block.args[:2])
        direction = found[0].comparison_direction.data
        ordered = direction in (ComparisonDirection.GT, ComparisonDirection.LT)
        if compared and ordered and isinstance(element_of(op.inputs[0]), AnyFloat):
            return axis, direction is ComparisonDirection.GT
    raise ExportError("found a sort, expected one of floats together with their positions (top-k)", op)
