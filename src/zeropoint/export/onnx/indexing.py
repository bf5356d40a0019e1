"""Gather and GatherND: slices of a tensor by index."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.gathers import clamped_indices, has_vector, last_indices, leading_indices, taken_axis
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.stablehlo import GatherOp
from zeropoint.ir.tensors import shape_of

VECTORS_OPSET = 12
"""The first opset whose Max and Min accept integers, and whose GatherND has the current definition."""


def gathered(op: GatherOp, source: Tensor, indices: Tensor, kind: Attribute, emit: OnnxEmission, name: str) -> Tensor:
    """Slices along a dimension, or at index vectors of the first dimensions.

    The indices are clamped first, as StableHLO's gather does. ONNX rejects indices out of range.
    """
    count, array = leading_indices(op), emit.array(op.start_indices)
    axis = None if count else taken_axis(op)
    if array is not None:
        indices = emit.constant(clamped_indices(op, array), indices.kind, f"{name}/indices")
    else:
        indices = _clamped(op, indices, emit, f"{name}/indices")
    shape = shape_of(op.results[0])
    if axis is None:
        emit.builder.needs(VECTORS_OPSET)
        return emit.apply("GatherND", [source], kind, shape, name, extra=[indices.name])
    return emit.apply("Gather", [source], kind, shape, name, {"axis": axis}, [indices.name])


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
