"""Rotary positions: onnxruntime's `RotaryEmbedding` (`com.microsoft`), and those inside of its attention.

Source: onnxruntime's contributed operators, "RotaryEmbedding".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.attention_scores import heads_of, joined_heads
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.indexing import from_start, gathered
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.stablehlo import AddOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import shape_of, with_shape


def rotary_embedding(node: OnnxNode, build: Builder) -> SSAValue:
    """`RotaryEmbedding` of [batch, sequence, heads * features] or [batch, heads, sequence, features]."""
    if node.integer("is_packed_batching", 0):
        raise NodeError("found is_packed_batching 1, expected 0; export the model with padded batches")
    if (scale := node.number("scale", 1.0)) != 1:
        raise NodeError(f"found scale {scale}, expected 1, because onnxruntime ignores it; scale the result by a Mul")
    value, size, count = node.operand(0), node.integer("rotary_embedding_dim", 0), node.integer("num_heads", 0)
    cosines, sines = node.operand(2), node.operand(3)
    rank = len(shape_of(value))
    if rank not in (3, 4):
        raise NodeError(f"found an input of shape {list(shape_of(value))}, expected rank 3 or 4")
    if size and not count and rank == 3:
        raise NodeError(f"found rotary_embedding_dim {size} without num_heads, expected both")
    if rank == 3:
        width = shape_of(value)[2]
        count = count if size else width // (2 * shape_of(cosines)[1])
        if not count or width % count:
            raise NodeError(f"found {width} features and {count} heads, expected a multiple")
        value = heads_of(value, count, build)
    batch, _, sequence, _ = shape_of(value)
    positions = positions_of(node.operand(1), batch, sequence, build)
    result = rotated(value, positions, cosines, sines, bool(node.integer("interleaved", 0)), build)
    return joined_heads(result, build) if rank == 3 else result


def positions_of(given: SSAValue, batch: int, sequence: int, build: Builder) -> SSAValue:
    """The position of each token [batch, sequence], from these or from the first one."""
    given = converted(given, i64, build)
    if shape_of(given) == (batch, sequence) and shape_of(given) != (1,):
        return given
    if shape_of(given) != (1,):
        raise NodeError(f"found positions of shape {list(shape_of(given))}, expected [1] or [{batch}, {sequence}]")
    shape = with_shape(given, (batch, sequence))
    first = build.broadcast(given, with_shape(given, (1, sequence)), [0])
    first = build.broadcast(build.reshape(first, (sequence,)), shape, [1])
    counted = build.constant(np.arange(sequence, dtype=np.int64))
    return build.apply(AddOp, first, build.broadcast(counted, shape, [1]))


def rotated(
    value: SSAValue, positions: SSAValue, cosines: SSAValue, sines: SSAValue, interleaved: bool, build: Builder
) -> SSAValue:
    """The value [batch, heads, sequence, features] with its first features turned, in pairs, by its positions.

    A pair is a feature of the first half and one of the second, or, if `interleaved`, two that follow each other.
    """
    batch, count, sequence, size = shape_of(value)
    if shape_of(cosines) != shape_of(sines) or len(shape_of(cosines)) != 2 or 2 * shape_of(cosines)[1] > size:
        raise NodeError(
            f"found caches of shapes {list(shape_of(cosines))} and {list(shape_of(sines))}, expected two of "
            f"[positions, up to {size // 2}]"
        )
    length, half = shape_of(cosines)
    rows = from_start(positions, length, build)
    kind = with_shape(value, (batch, count, sequence, half))
    cosine, sine = (
        build.broadcast(gathered(cache, rows, 0, build), kind, [0, 2, 3]) for cache in (cosines, sines)
    )  # fmt: skip
    turned = part_of(value, 3, range(2 * half), build)
    if interleaved:
        pairs = build.reshape(turned, (batch, count, sequence, half, 2))
        first, second = (
            build.reshape(part_of(pairs, 4, range(i, i + 1), build), (batch, count, sequence, half)) for i in range(2)
        )
    else:
        first, second = (part_of(turned, 3, range(start, start + half), build) for start in (0, half))
    parts = [
        build.apply(SubtractOp, build.apply(MultiplyOp, first, cosine), build.apply(MultiplyOp, second, sine)),
        build.apply(AddOp, build.apply(MultiplyOp, second, cosine), build.apply(MultiplyOp, first, sine)),
    ]
    if interleaved:
        parts = [build.reshape(part, (batch, count, sequence, half, 1)) for part in parts]
        parts = [build.reshape(concatenated(parts, 4, build), (batch, count, sequence, 2 * half))]
    rest = [part_of(value, 3, range(2 * half, size), build)] if size > 2 * half else []
    return concatenated([*parts, *rest], 3, build)
