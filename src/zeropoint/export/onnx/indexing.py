"""Gather, GatherND and ScatterND: slices of a tensor by index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Operation

from zeropoint.export.errors import ExportError
from zeropoint.export.gathers import clamped_indices, has_vector, last_indices, leading_indices, taken_axis
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.graph import element_type
from zeropoint.export.scatters import combination, scattered_rows
from zeropoint.ir.stablehlo import AddOp, GatherOp, MaximumOp, MinimumOp, MultiplyOp, ReverseOp, ScatterOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.rounding import INT32_MIN

VECTORS_OPSET = 12
"""The first opset whose Max and Min accept integers, and whose GatherND has the current definition."""


def backwards(op: ReverseOp, emit: OnnxEmission) -> list[str]:
    """The further inputs of a Slice with steps of -1."""
    axes = array_values(op.dimensions)
    bounds = ([-1] * len(axes), [INT32_MIN] * len(axes), axes, [-1] * len(axes))
    return [emit.integers(values, "reverse") for values in bounds]


SCATTERS: Mapping[type[Operation] | None, tuple[str, int]] = {
    None: ("none", 13),
    AddOp: ("add", 16),
    MaximumOp: ("max", 18),
    MinimumOp: ("min", 18),
    MultiplyOp: ("mul", 16),
}
"""The `reduction` of a ScatterND, and its first opset, by the op that combines elements."""


def gathered(op: GatherOp, source: Tensor, indices: Tensor, kind: Attribute, emit: OnnxEmission, name: str) -> Tensor:
    """Slices along a dimension, or at index vectors of the first dimensions.

    The indices are clamped first, as StableHLO's gather does. ONNX rejects indices out of range.
    """
    count, array = leading_indices(op), emit.array(op.start_indices)
    axis = None if count else taken_axis(op)
    if array is not None:
        clamped = clamped_indices(op, array)
        # GatherND takes no i32.
        clamped, wanted = (clamped.astype(np.int64), i64) if axis is None else (clamped, indices.kind)
        indices = emit.constant(clamped, wanted, f"{name}/indices")
    else:
        indices = _clamped(op, indices, emit, f"{name}/indices")
    shape = shape_of(op.results[0])
    if axis is None:
        emit.builder.needs(VECTORS_OPSET)
        if indices.kind != i64:
            to = {"to": element_type(np.dtype(np.int64))}
            indices = emit.apply("Cast", [indices], i64, indices.shape, f"{name}/indices", to)
        return emit.apply("GatherND", [source], kind, shape, name, extra=[indices.name])
    return emit.apply("Gather", [source], kind, shape, name, {"axis": axis}, [indices.name])


def scattered(op: ScatterOp, source: Tensor, updates: Tensor, emit: OnnxEmission) -> Tensor:
    """Slices replaced, or combined, at constant index vectors of the first dimensions."""
    kind, found = combination(op), scattered_rows(op, emit.array(op.scatter_indices))
    name = emit.name(op.results_[0])
    if kind not in SCATTERS:
        raise ExportError("found a scatter with another body, expected a sum, a product, a maximum or a minimum", op)
    reduction, opset = SCATTERS[kind]
    emit.builder.needs(opset)
    leading = source.shape[: len(op.scatter_dimension_numbers.data.inserted_window_dims)]
    vectors = np.stack(np.unravel_index(found.updated, leading), axis=-1).astype(np.int64)
    updates = emit.reshaped(updates, (len(vectors), *source.shape[len(leading) :]), name)
    extra = [emit.builder.constant("indices", vectors), updates.name]
    attributes = {} if kind is None else {"reduction": reduction}
    return emit.apply("ScatterND", [source], source.kind, source.shape, name, attributes, extra)


def _clamped(op: GatherOp, indices: Tensor, emit: OnnxEmission, name: str) -> Tensor:
    dtype = np.dtype(str(indices.kind).replace("i", "int"))
    ends = [emit.builder.constant("bound", np.asarray(end, dtype)) for end in (0, last_indices(op))]
    if not leading_indices(op):
        made = emit.direct("Clip", [indices], indices.kind, indices.shape, name, extra=ends)
        return emit.reshaped(made, indices.shape[:-1] if has_vector(op) else indices.shape, name)
    # Clip takes one bound for all elements; Max and Min take one for each indexed dimension.
    for function, end in zip(("Max", "Min"), ends, strict=True):
        indices = emit.direct(function, [indices], indices.kind, indices.shape, name, extra=[end])
    return indices
