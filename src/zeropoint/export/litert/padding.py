"""Padding: PAD with the zero point, PADV2 with another value, and interior padding.

PAD adds elements only at the edges. For interior padding, a dimension of size n is reshaped to [n, 1], which is padded
to [n, step] and merged to n * step elements. A slice removes the padding after the last element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.stablehlo import PadOp
from zeropoint.ir.stablehlo.arrays import PaddingPairs, array_values
from zeropoint.ir.tensors import Array, shape_of

DIMENSIONS = 5
"""The most dimensions that PAD and PADV2 take (LiteRT 2.3.0, `kernels/pad.cc`)."""


def padded(
    emit: LitertEmission, source: int, result: int, pairs: PaddingPairs, kind: Attribute, fill: Array | None
) -> None:
    """Emit a PAD with the zero point, or a PADV2 with the real number `fill`.

    If there are more dimensions than these take, neighbours without padding are one dimension in between. Raises
    ExportError if there are still too many.
    """
    if len(pairs) > DIMENSIONS:
        _padded_in_groups(emit, source, result, pairs, kind, fill)
        return
    inputs = [source, emit.builder.part("paddings", np.asarray(pairs, np.int32))]
    # PAD fills with the zero point, which represents 0.
    if fill is None or not fill.any():
        emit.operator("PAD", inputs, [result], ("PadOptions", {}), 2)
        return
    inputs.append(emit.part("padding_value", fill.reshape(1), kind))
    emit.operator("PADV2", inputs, [result], ("PadV2Options", {}), 2)


def _padded_in_groups(
    emit: LitertEmission, source: int, result: int, pairs: PaddingPairs, kind: Attribute, fill: Array | None
) -> None:
    """`padded` after a reshape to fewer dimensions, and back."""
    sizes: list[int] = []
    grouped: list[tuple[int, int]] = []
    for size, pair in zip(emit.builder.tensors[source].shape, pairs, strict=True):
        if grouped and grouped[-1] == pair == (0, 0):
            sizes[-1] *= size
        else:
            sizes.append(size)
            grouped.append(pair)
    if len(grouped) > DIMENSIONS:
        raise ExportError(
            f"found padding {list(pairs)} of {len(pairs)} dimensions, expected at most {DIMENSIONS}, where neighbours "
            "without padding count as one"
        )
    merged = emit.reshaped(source, sizes, kind)
    shape = [low + size + high for size, (low, high) in zip(sizes, grouped, strict=True)]
    wide = emit.temporary(emit.builder.tensors[source].name.decode(), shape, kind)
    padded(emit, merged, wide, grouped, kind, fill)
    emit.reshape(wide, result)


def spread(
    emit: LitertEmission,
    source: int,
    shape: tuple[int, ...],
    axis: int,
    step: int,
    kind: Attribute,
    fill: Array | None = None,
) -> tuple[int, tuple[int, ...]]:
    """A tensor with step - 1 elements inserted between neighbours along a dimension, and its shape."""
    if step == 1 or shape[axis] == 1:
        return source, shape
    before, size, behind = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    name = emit.builder.tensors[source].name.decode()
    # LiteRT has no interior padding, so a new dimension is padded at its end and merged again.
    apart = emit.reshaped(source, (before, size, 1, behind), kind)
    wide = emit.temporary(name, (before, size, step, behind), kind)
    padded(emit, apart, wide, [(0, 0), (0, 0), (0, step - 1), (0, 0)], kind, fill)
    joined = emit.reshaped(wide, (*shape[:axis], size * step, *shape[axis + 1 :]), kind)
    ends = (*shape[:axis], (size - 1) * step + 1, *shape[axis + 1 :])
    return sliced(emit, joined, [0] * len(shape), ends, kind), ends


def sliced(emit: LitertEmission, source: int, begin: Sequence[int], end: Sequence[int], kind: Attribute) -> int:
    """STRIDED_SLICE with steps of 1."""
    shape = [high - low for low, high in zip(begin, end, strict=True)]
    made = emit.temporary(emit.builder.tensors[source].name.decode(), shape, kind)
    parts = [emit.integers(part, "slice") for part in (begin, end, [1] * len(shape))]
    emit.operator("STRIDED_SLICE", [source, *parts], [made], ("StridedSliceOptions", {}), 4)
    return made


def pad(kernel: ExportKernel, emit: LitertEmission) -> None:
    """PAD or PADV2. Negative padding becomes a STRIDED_SLICE."""
    op = kernel.first(PadOp)
    fill = kernel.array(op.padding_value)
    if fill is None:
        raise ExportError("found a computed padding value, expected a constant", kernel.region)
    source, result = emit.operand(kernel.region.inputs[0], kernel.specs[0]), kernel.region.outputs[0]
    padded_by(op, source, emit.declare(result, kernel.output_spec), kernel.output_spec, fill, emit)


def padded_by(op: PadOp, source: int, result: int, kind: Attribute, fill: Array, emit: LitertEmission) -> None:
    """A tensor padded between its elements and at its edges with `fill`, a real number."""
    shape = shape_of(op.operand)
    for axis, interior in enumerate(array_values(op.interior_padding)):
        source, shape = spread(emit, source, shape, axis, interior + 1, kind, fill)
    pairs = list(zip(array_values(op.edge_padding_low), array_values(op.edge_padding_high), strict=True))
    if min(map(min, pairs)) < 0:
        # Negative padding crops. PAD rejects it.
        begin = [max(-low, 0) for low, _ in pairs]
        end = [size - max(-high, 0) for size, (_, high) in zip(shape, pairs, strict=True)]
        source = sliced(emit, source, begin, end, kind)
        pairs = [(max(low, 0), max(high, 0)) for low, high in pairs]
    padded(emit, source, result, pairs, kind, fill)
