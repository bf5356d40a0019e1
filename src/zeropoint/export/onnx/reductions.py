"""Reductions as rows of one batch, [1, kept, reduced], which runtimes compute right in every case.

OpenVINO 2026.4.1 computes two reductions of floats wrong:

- a maximum or minimum that is quantized: it quantizes into the memory in which it compares. A GlobalMaxPool is right;
- a sum of dequantized integers of three dimensions: all batches but the first are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import f32

from zeropoint.export.onnx.emission import OnnxEmission, Tensor


def rows(emit: OnnxEmission, source: Tensor, reduced: Sequence[int], name: str) -> Tensor:
    """The tensor as [1, kept, reduced]. Reduced dimensions are moved to the end first."""
    kept = [axis for axis in range(len(source.shape)) if axis not in reduced]
    sizes = [prod(source.shape[axis] for axis in axes) for axes in (kept, reduced)]
    return emit.reshaped(emit.transposed(source, [*kept, *reduced], name), (1, *sizes), name)


def reduction(emit: OnnxEmission, operator: str, source: Tensor, reduced: Sequence[int], name: str) -> Tensor:
    """A reduction by its operator. For OpenVINO, those above are computed in rows."""
    if emit.for_openvino and source.kind == f32 and operator in ("ReduceMax", "ReduceMin"):
        return _reshaped(emit, _greatest(emit, operator, source, reduced, name), source, reduced, name)
    if emit.for_openvino and source.kind == f32 and operator == "ReduceSum" and len(source.shape) == 3:
        flat = _reduced(emit, operator, rows(emit, source, reduced, name), [2], name)
        return _reshaped(emit, flat, source, reduced, name)
    return _reduced(emit, operator, source, reduced, name)


def _greatest(emit: OnnxEmission, operator: str, source: Tensor, reduced: Sequence[int], name: str) -> Tensor:
    """The maxima of rows, or their minima: the negated maxima of the negated elements."""
    signs = ["Neg"] if operator == "ReduceMin" else []
    made = rows(emit, source, reduced, name)
    for each in (*signs, "GlobalMaxPool", *signs):
        shape = (*made.shape[:2], 1) if each == "GlobalMaxPool" else made.shape
        made = emit.apply(each, [made], f32, shape, name)
    return made


def _reshaped(emit: OnnxEmission, rows: Tensor, source: Tensor, reduced: Sequence[int], name: str) -> Tensor:
    return emit.reshaped(rows, [size for axis, size in enumerate(source.shape) if axis not in reduced], name)


def _reduced(emit: OnnxEmission, operator: str, source: Tensor, reduced: Sequence[int], name: str) -> Tensor:
    axes = emit.integers(reduced, "axes")
    shape = [size for axis, size in enumerate(source.shape) if axis not in reduced]
    return emit.apply(operator, [source], source.kind, shape, name, {"keepdims": 0}, [axes])
