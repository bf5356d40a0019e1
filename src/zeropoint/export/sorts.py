"""Sorts of values together with their positions, which runtimes implement as top-k."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat

from zeropoint.export.errors import ExportError
from zeropoint.ir.stablehlo import IotaOp, SortOp
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
