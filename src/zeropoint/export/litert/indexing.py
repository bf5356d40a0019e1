"""STRIDED_SLICE, GATHER and GATHER_ND: parts of a tensor by positions, as in embeddings and `take`."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.gathers import clamped_indices, has_vector, last_indices, leading_indices, taken_axis
from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.stablehlo import GatherOp, SliceOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def strided_slice(op: SliceOp, source: int, value: SSAValue, kind: Attribute, emit: LitertEmission) -> None:
    """The slice `op` as a value of type `kind`: STRIDED_SLICE, or the source itself if a sort made only that part."""
    if tuple(emit.builder.tensors[source].shape) == shape_of(value):
        emit.alias(value, kind, source)
        return
    parts = [emit.integers(array_values(a), "slice") for a in (op.start_indices, op.limit_indices, op.strides)]
    emit.operator("STRIDED_SLICE", [source, *parts], [emit.declare(value, kind)], ("StridedSliceOptions", {}), 4)


def gather(
    op: GatherOp, source: int, indices: int, result: int, emit: LitertEmission, array: Array | None = None
) -> None:
    """Slices along a dimension, or at index vectors of the first dimensions. `array` has constant indices.

    The indices are clamped first, as StableHLO's gather does. LiteRT rejects indices out of range.
    """
    shape, kind = shape_of(op.start_indices), element_of(op.start_indices)
    operator, options = _by_vectors() if leading_indices(op) else _along(op)
    dtype = element_dtype(kind)
    if dtype.name not in ("int32", "int64"):
        raise ExportError(f"found indices of {kind}, expected i32 or i64", op)
    if array is not None:
        indices = emit.builder.part("indices", clamped_indices(op, array))
        emit.operator(operator, [source, indices], [result], options, 2)
        return
    for name, bound in (("MAXIMUM", 0), ("MINIMUM", last_indices(op))):
        limit = emit.builder.part("bound", np.asarray(bound, dtype))
        clamped = emit.temporary(emit.builder.tensors[indices].name.decode(), shape, kind)
        emit.operator(name, [indices, limit], [clamped], ("MaximumMinimumOptions", {}), 2)
        indices = clamped
    if has_vector(op):
        indices = emit.reshaped(indices, shape[:-1], kind)
    emit.operator(operator, [source, indices], [result], options, 2)


def _by_vectors() -> tuple[str, OperatorOptions]:
    return "GATHER_ND", ("GatherNdOptions", {})


def _along(op: GatherOp) -> tuple[str, OperatorOptions]:
    return "GATHER", ("GatherOptions", {"axis": taken_axis(op)})
