"""onnxruntime's `GroupQueryAttention` (`com.microsoft`), which exporters of language models write.

Several heads of queries share a head of keys and values. New keys and values are written behind those of past tokens,
into buffers that may be longer.

Source: onnxruntime's contributed operators, "GroupQueryAttention", and its CPU kernel where the schema leaves it open.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.attention import head_count, refuse_attributes, refuse_inputs
from zeropoint.frontend.onnx.attention_scores import LEAST, heads_of, joined_heads, scale_or_default
from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.normalization import softmax_of
from zeropoint.frontend.onnx.products import multiplied
from zeropoint.frontend.onnx.rotary import positions_of, rotated
from zeropoint.frontend.onnx.scattering import written_from
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    ComparisonDirection,
    DivideOp,
    MultiplyOp,
    SelectOp,
    SubtractOp,
    TanhOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape

_FLOAT_CACHE = "export the model with a cache of floats"
_NO_NORM = "onnxruntime's CPU kernel has none; write SimplifiedLayerNormalization before the attention"


@dataclass(frozen=True)
class _Sizes:
    """`past` is the length of the past buffers, `total` that of the present ones."""

    batch: int
    sequence: int
    heads: int
    groups: int
    past: int
    total: int


def group_query_attention(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`GroupQueryAttention`: attention, and the present keys and values."""
    _refuse(node)
    heads, groups = head_count(node), head_count(node, "kv_num_heads")
    if heads % groups:
        raise NodeError(f"found {heads} heads and kv_num_heads {groups}, expected a multiple")
    query, key, values = _projected(node, heads, groups, build)
    batch, _, sequence, _ = shape_of(query)
    if node.has(3) != node.has(4):
        raise NodeError("found one of 'past_key' and 'past_value', expected both or none")
    past = shape_of(node.operand(3))[2] if node.has(3) else 0
    length = node.integers_at(6, "total_sequence_length") or (0,)
    if len(length) != 1 or length[0] < sequence:
        raise NodeError(f"found total_sequence_length {list(length)}, expected {sequence} or more")
    sizes = _Sizes(batch, sequence, heads, groups, past, max(past, length[0]))
    is_prompt = length[0] == sequence
    start = np.zeros(batch, np.int64) if is_prompt else _start(node, sizes, build)
    if node.integer("do_rotary", 0):
        positions = _positions(node, start, sizes, is_prompt, build)
        caches, interleaved = (node.operand(7), node.operand(8)), bool(node.integer("rotary_interleaved", 0))
        query, key = (rotated(each, positions, *caches, interleaved, build) for each in (query, key))
    node.integer("rotary_interleaved", 0)  # only with do_rotary
    before = [node.operand(index) if node.has(index) else None for index in (3, 4)]
    key, values = (
        _present(old, new, start, sizes, build) for old, new in zip(before, (key, values), strict=True)
    )  # fmt: skip
    result = _attended(node, query, key, values, start, sizes, build)
    return (result, key, values)[: node.output_count]


def _refuse(node: OnnxNode) -> None:
    refuse_attributes(
        node,
        {
            "sliding_window_cache": "export the model with a cache of all tokens",
            "qk_output": "cut the model so that the scores are no output",
            "kv_cache_bit_width": _FLOAT_CACHE,
        },
    )
    for name in ("k_quant_type", "v_quant_type"):
        if (found := node.text(name, "NONE")) != "NONE":
            raise NodeError(f"found {name} '{found}', expected 'NONE'; {_FLOAT_CACHE}")
    for name in ("qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"):
        node.number(name, 0.0)  # only with norms, which are refused
    refuse_inputs(
        node,
        {
            12: ("k_scale", _FLOAT_CACHE),
            13: ("v_scale", _FLOAT_CACHE),
            14: ("q_norm_weight", _NO_NORM),
            15: ("k_norm_weight", _NO_NORM),
            16: ("query_seqlens", "run chunks of one length without padding"),
        },
    )


def _projected(node: OnnxNode, heads: int, groups: int, build: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Queries, keys and values [batch, heads, sequence, features]."""
    query = node.operand(0)
    if len(shape_of(query)) != 3:
        raise NodeError(f"found queries of shape {list(shape_of(query))}, expected [batch, sequence, features]")
    if node.has(1) != node.has(2):
        raise NodeError("found one of 'key' and 'value', expected both, or none with packed queries")
    width, count = shape_of(query)[2], heads if node.has(1) else heads + 2 * groups
    if width % count:
        raise NodeError(f"found {width} features, expected a multiple of {count} heads")
    if node.has(1):
        return (
            heads_of(query, heads, build),
            heads_of(node.operand(1), groups, build),
            heads_of(node.operand(2), groups, build),
        )
    ends = np.cumsum((0, heads, groups, groups)) * (width // count)
    parts = [part_of(query, 2, range(int(a), int(b)), build) for a, b in pairwise(ends)]
    query, key, values = (
        heads_of(part, number, build) for part, number in zip(parts, (heads, groups, groups), strict=True)
    )
    return query, key, values


def _start(node: OnnxNode, sizes: _Sizes, build: Builder) -> Array | SSAValue:
    """The position of the first new token of each batch."""
    last = node.constant(5)
    if last is not None:
        start = np.broadcast_to(last.reshape(-1).astype(np.int64) + 1 - sizes.sequence, sizes.batch)
        if start.min() < 0 or start.max() + sizes.sequence > sizes.total:
            raise NodeError(
                f"found seqlens_k {last.reshape(-1).tolist()}, expected {sizes.sequence - 1} to {sizes.total - 1}"
            )
        return start
    last = build.reshape(converted(node.operand(5), i64, build), (sizes.batch,))
    return build.apply(AddOp, last, build.splat(1 - sizes.sequence, last))


def _positions(
    node: OnnxNode, start: Array | SSAValue, sizes: _Sizes, is_prompt: bool, build: Builder
) -> SSAValue:  # fmt: skip
    """The positions of the new tokens. Of those that are given for a prompt, onnxruntime uses the first one only."""
    shape = (sizes.batch, sizes.sequence)
    if node.has(9):
        given = node.operand(9)
        if is_prompt:
            given = part_of(build.reshape(given, (prod(shape_of(given)),)), 0, range(1), build)
        return positions_of(given, *shape, build)
    if not isinstance(start, SSAValue):
        return build.constant(start[:, None] + np.arange(shape[1], dtype=np.int64))
    counted = build.iota(shape, 1, i64)
    return build.apply(AddOp, counted, build.broadcast(start, counted.type, [0]))


def _present(
    old: SSAValue | None, new: SSAValue, start: Array | SSAValue, sizes: _Sizes, build: Builder
) -> SSAValue:  # fmt: skip
    """The past tokens, the new ones from the start of each batch on, and zeros."""
    shape = (sizes.batch, sizes.groups, sizes.total, shape_of(new)[3])
    if old is not None and shape_of(old) != (*shape[:2], sizes.past, shape[3]):
        raise NodeError(f"found a cache of shape {list(shape_of(old))}, expected {[*shape[:2], sizes.past, shape[3]]}")
    if not isinstance(start, SSAValue) and len(set(start.tolist())) == 1:
        first = int(start[0])
        if first > sizes.past:
            raise NodeError(f"found {first} past tokens by seqlens_k, expected at most {sizes.past}")
        parts = [] if old is None or not first else [part_of(old, 2, range(first), build)]
        rest = sizes.total - first - sizes.sequence
        zeros = [_zeros(new, (*shape[:2], rest, shape[3]), build)] if rest else []
        return concatenated([*parts, new, *zeros], 2, build)
    start = start if isinstance(start, SSAValue) else build.constant(start)
    zeros = _zeros(new, shape, build)
    kept = zeros
    if old is not None:
        rest = sizes.total - sizes.past
        tail = [_zeros(old, (*shape[:2], rest, shape[3]), build)] if rest else []
        place = build.iota(shape, 2, i64)
        is_past = build.compare(ComparisonDirection.LT, place, build.broadcast(start, place.type, [0]))
        kept = build.apply(SelectOp, is_past, concatenated([old, *tail], 2, build), zeros)
    return written_from(kept, new, 2, start, build)


def _zeros(like: SSAValue, shape: tuple[int, ...], build: Builder) -> SSAValue:
    return build.broadcast(build.scalar(0, like), with_shape(like, shape), ())


def _attended(
    node: OnnxNode,
    query: SSAValue,
    key: SSAValue,
    values: SSAValue,
    start: Array | SSAValue,
    sizes: _Sizes,
    build: Builder,
) -> SSAValue:
    """The attention. The heads of a group are rows of one product."""
    batch, heads, sequence, size = shape_of(query)
    together = (batch, sizes.groups, heads // sizes.groups * sequence)
    turned = build.insert(TransposeOp(key, [0, 1, 3, 2]))
    scores = multiplied(build.reshape(query, (*together, size)), turned, build)
    scores = build.reshape(scores, (batch, heads, sequence, sizes.total))
    factor = scale_or_default(node.number("scale", 0.0), size)
    scores = build.apply(MultiplyOp, scores, build.splat(factor, scores))
    if cap := node.number("softcap", 0.0):
        scores = build.apply(DivideOp, scores, build.splat(cap, scores))
        scores = build.apply(MultiplyOp, build.apply(TanhOp, scores), build.splat(cap, scores))
    if node.has(10):
        bias = node.operand(10)
        bias = part_of(bias, 3, range(min(shape_of(bias)[3], sizes.total)), build)
        if rest := sizes.total - shape_of(bias)[3]:
            bias = concatenated([bias, _zeros(bias, (*shape_of(bias)[:3], rest), build)], 3, build)
        scores = build.apply(AddOp, scores, broadcast_to(bias, shape_of(scores), build))
    mask = _mask(node, start, sizes, build)
    if mask is not None:
        scores = build.apply(AddOp, scores, broadcast_to(mask, shape_of(scores), build))
    chances = _chances(node, scores, build)
    result = multiplied(build.reshape(chances, (*together, sizes.total)), values, build)
    return joined_heads(build.reshape(result, (batch, heads, sequence, shape_of(values)[3])), build)


def _mask(node: OnnxNode, start: Array | SSAValue, sizes: _Sizes, build: Builder) -> SSAValue | None:
    """What hides later tokens, those before the window, and the rest of the buffer."""
    causal, window = node.integer("causal", 1), node.integer("local_window_size", -1)
    shape = (sizes.batch, 1, sizes.sequence, sizes.total)
    if not isinstance(start, SSAValue):
        query = start[:, None, None, None] + np.arange(sizes.sequence)[:, None]
        key, last = np.arange(sizes.total), start[:, None, None, None] + sizes.sequence - 1
        visible = np.broadcast_to(key <= (query if causal else last), shape)
        if window > 0:
            visible = visible & (key > query - window)
        if visible.all():
            return None
        visible = visible[:1] if (visible == visible[:1]).all() else visible
        return build.constant(np.where(visible, np.float32(0), np.float32(LEAST)))
    key = build.iota(shape, 3, i64)
    first = build.broadcast(start, key.type, [0])
    query = build.apply(AddOp, first, build.iota(shape, 2, i64))
    last = build.apply(AddOp, first, build.splat(sizes.sequence - 1, first))
    visible = build.compare(ComparisonDirection.LE, key, query if causal else last)
    if window > 0:
        least = build.apply(SubtractOp, query, build.splat(window, query))
        visible = build.apply(AndOp, visible, build.compare(ComparisonDirection.GT, key, least))
    zero = build.constant(np.zeros((), np.float32))
    kind = with_shape(zero, shape)
    hidden = build.broadcast(build.constant(np.array(LEAST, np.float32)), kind, ())
    return build.apply(SelectOp, visible, build.broadcast(zero, kind, ()), hidden)


def _chances(node: OnnxNode, scores: SSAValue, build: Builder) -> SSAValue:
    """The softmax of the scores. A sink of each head, or one of 0, only adds to its denominator."""
    smooth = node.integer("smooth_softmax", 0)
    if not node.has(11) and not smooth:
        return softmax_of(scores, [3], build)
    batch, heads, sequence, total = shape_of(scores)
    kind = with_shape(scores, (batch, heads, sequence, 1))
    sink = (
        build.broadcast(node.operand(11), kind, [1])
        if node.has(11)
        else build.broadcast(build.scalar(0, scores), kind, ())
    )
    chances = softmax_of(concatenated([scores, sink], 3, build), [3], build)
    return part_of(chances, 3, range(total), build)
