"""STRIDED_SLICE, GATHER and GATHER_ND: parts of a tensor by positions, as in embeddings and `take`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.gathers import clamped_indices, has_vector, last_indices, leading_indices, taken_axis
from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import GatherOp, ReverseOp, SliceOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def strided_slice(op: SliceOp, source: int, value: SSAValue, kind: Attribute, emit: LitertEmission) -> None:
    """The slice `op` as a value of type `kind`: STRIDED_SLICE, or the source itself if a sort made only that part.

    Slices that cut a dimension into equal parts are one SPLIT, at the first of them.
    """
    if (value, kind) in emit.tensors:
        return
    if tuple(emit.builder.tensors[source].shape) == shape_of(value):
        emit.alias(value, kind, source)
        return
    place = _place(op)
    cuts = _cuts(place, value) if place is not None else dict[int, SSAValue]()
    if place is not None and len(cuts) == place.count:
        if (cuts[0], kind) not in emit.tensors:
            results = [emit.declare(cuts[index], kind) for index in range(place.count)]
            fields = {"numSplits": place.count}
            emit.operator("SPLIT", [emit.integers([place.axis], "axis"), source], results, ("SplitOptions", fields), 4)
        emit.alias(value, kind, emit.tensors[cuts[place.index], kind])
        return
    parts = [emit.integers(array_values(a), "slice") for a in (op.start_indices, op.limit_indices, op.strides)]
    emit.operator("STRIDED_SLICE", [source, *parts], [emit.declare(value, kind)], ("StridedSliceOptions", {}), 4)


@dataclass(frozen=True)
class _Place:
    """Which of equal parts of a dimension a slice takes."""

    axis: int
    count: int
    index: int


def _place(op: SliceOp) -> _Place | None:
    """The place of a slice along the only dimension that it cuts; None if it does not take one of equal parts."""
    whole, part, starts = shape_of(op.operand), shape_of(op.result), array_values(op.start_indices)
    cut = [axis for axis, (old, new) in enumerate(zip(whole, part, strict=True)) if old != new]
    if len(cut) != 1 or {*array_values(op.strides)} != {1}:
        return None
    (axis,) = cut
    size, start = part[axis], starts[axis]
    if not size or whole[axis] % size or start % size:
        return None
    return _Place(axis, whole[axis] // size, start // size)


def _cuts(place: _Place, value: SSAValue) -> dict[int, SSAValue]:
    """The results of kernels that slice what makes `value` into the same parts, by index."""
    region, found = value.owner, dict[int, SSAValue]()
    if not isinstance(region, QuantizeRegionOp):
        return found
    for use in region.inputs[0].uses:
        other = use.operation
        if not isinstance(other, QuantizeRegionOp) or other.input_specs != region.input_specs:
            continue
        op, *rest = other.body.block.ops
        made = _place(op) if isinstance(op, SliceOp) and len(rest) == 1 else None
        if made is not None and (made.axis, made.count) == (place.axis, place.count):
            found.setdefault(made.index, other.outputs[0])
    return found


def reverse(op: ReverseOp, source: int, result: int, kind: Attribute, emit: LitertEmission) -> None:
    """REVERSE_V2, once for each group of neighbouring dimensions, because LiteRT refuses others."""
    groups: list[list[int]] = []
    for axis in sorted(array_values(op.dimensions)):
        if groups and axis == groups[-1][-1] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    for number, axes in enumerate(groups, 1):
        made = result if number == len(groups) else emit.temporary("reversed", shape_of(op.result), kind)
        emit.operator("REVERSE_V2", [source, emit.integers(axes, "axes")], [made], ("ReverseV2Options", {}))
        source = made


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
