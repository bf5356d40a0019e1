"""onnxruntime's `Attention` and `MultiHeadAttention` (`com.microsoft`), which its transformer optimizer writes.

Both become the products, sums and softmax of which the optimizer made them.

Source: onnxruntime's contributed operators: their schemas, and its CPU kernels where these say more.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.attention_scores import Masking, attended, heads_of
from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.products import multiplied
from zeropoint.ir.stablehlo import AddOp
from zeropoint.ir.tensors import shape_of


def refuse_attributes(node: OnnxNode, fixes: dict[str, str]) -> None:
    """Raise NodeError for an attribute that is not 0, with what to do about it."""
    for name, fix in fixes.items():
        if found := node.integer(name, 0):
            raise NodeError(f"found {name} {found}, expected 0; {fix}")


def refuse_inputs(node: OnnxNode, inputs: dict[int, tuple[str, str]]) -> None:
    """Raise NodeError for an input that is given, with what to do about it."""
    for index, (name, fix) in inputs.items():
        if node.has(index):
            raise NodeError(f"found input '{name}', expected none; {fix}")


WITHOUT_SHARED_BUFFER = "export the model without past_present_share_buffer"


def head_count(node: OnnxNode, name: str = "num_heads") -> int:
    """The number of heads. Raises NodeError if it is not positive."""
    if (count := node.integer(name, 0)) < 1:
        raise NodeError(f"found {name} {count}, expected 1 or more")
    return count


def attention(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`Attention`: the projection of all heads at once, then attention; `present` has keys and values."""
    refuse_attributes(
        node,
        {
            "do_rotary": "onnxruntime's CPU kernel ignores it; apply RotaryEmbedding before MultiHeadAttention",
            "past_present_share_buffer": WITHOUT_SHARED_BUFFER,
        },
    )
    node.integer("rotary_embedding_dim", 0)  # only with do_rotary
    refuse_inputs(node, {6: ("past_sequence_length", WITHOUT_SHARED_BUFFER)})
    count, value = head_count(node), node.operand(0)
    if len(shape_of(value)) != 3:
        raise NodeError(f"found an input of shape {list(shape_of(value))}, expected [batch, sequence, features]")
    projected = multiplied(value, node.operand(1), build)
    if node.has(2):
        projected = build.apply(AddOp, projected, broadcast_to(node.operand(2), shape_of(projected), build))
    width = shape_of(projected)[-1]
    sizes = node.integers("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != width or sizes[0] != sizes[1] or any(size % count for size in sizes):
        raise NodeError(
            f"found weights of {width} columns for {count} heads and hidden sizes {list(sizes)}, expected equal sizes "
            f"of queries and keys, three that give {width}, and multiples of {count}"
        )
    ends = np.cumsum((0, *sizes))
    query, key, values = (
        heads_of(part_of(projected, 2, range(int(start), int(end)), build), count, build)
        for start, end in pairwise(ends)
    )
    past = 0
    if node.has(4):
        before = node.operand(4)
        past = shape_of(before)[3]
        key, values = (
            concatenated([_without_first(part_of(before, 0, range(i, i + 1), build), build), new], 2, build)
            for i, new in enumerate((key, values))
        )
    mask = Masking.of(node, query, key, past).added(3, 5, build)
    result, _ = attended(query, key, values, node.number("scale", 0.0), mask, build)
    if node.output_count < 2:
        return (result,)
    if shape_of(key) != shape_of(values):
        raise NodeError("found keys and values of different sizes beside an output 'present', expected equal ones")
    stacked = [build.reshape(each, (1, *shape_of(each))) for each in (key, values)]
    return result, concatenated(stacked, 0, build)


def _without_first(value: SSAValue, build: Builder) -> SSAValue:
    return build.reshape(value, shape_of(value)[1:])


def multi_head_attention(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`MultiHeadAttention`: attention of projected queries, keys and values, which may be packed into one input."""
    refuse_inputs(
        node,
        {
            8: ("past_sequence_length", WITHOUT_SHARED_BUFFER),
            9: ("cache_indirection", "export the model without beam search, which the caller does"),
        },
    )
    count = head_count(node)
    query, key, values = _projected(node, count, build)
    past = 0
    if node.has(6) != node.has(7):
        raise NodeError("found one of 'past_key' and 'past_value', expected both or none")
    if node.has(6):
        past = shape_of(node.operand(6))[2]
        key, values = (
            concatenated([node.operand(index), new], 2, build) for index, new in ((6, key), (7, values))
        )  # fmt: skip
    mask = Masking.of(node, query, key, past).added(4, 5, build)
    result, scores = attended(query, key, values, node.number("scale", 0.0), mask, build)
    return (result, key, values, scores)[: node.output_count]


def _projected(node: OnnxNode, count: int, build: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Queries, keys and values [batch, heads, sequence, features], with their biases."""
    query = node.operand(0)
    if len(shape_of(query)) == 5:
        given = _unpacked(query, 3, build)
    elif not node.has(1):
        raise NodeError(f"found no 'key' and queries of shape {list(shape_of(query))}, expected packed ones, of rank 5")
    elif len(shape_of(node.operand(1))) == 5:
        given = [query, *_unpacked(node.operand(1), 2, build)]
    elif not node.has(2):
        raise NodeError("found no 'value', expected one beside 'key'")
    else:
        given = [query, node.operand(1), node.operand(2)]
    first = 0
    results: list[SSAValue] = []
    for each in given:
        if len(shape_of(each)) == 4:  # keys and values of another sequence, which have heads and no bias
            results.append(each)
            continue
        if len(shape_of(each)) != 3 or shape_of(each)[2] % count:
            raise NodeError(
                f"found an input of shape {list(shape_of(each))}, expected [batch, sequence, features] with features "
                f"that are a multiple of {count} heads"
            )
        size = shape_of(each)[2]
        if node.has(3):
            bias = part_of(node.operand(3), 0, range(first, first + size), build)
            each = build.apply(AddOp, each, broadcast_to(bias, shape_of(each), build))
        first += size
        results.append(heads_of(each, count, build))
    return results[0], results[1], results[2]


def _unpacked(value: SSAValue, parts: int, build: Builder) -> list[SSAValue]:
    """The parts [batch, sequence, heads * features] of [batch, sequence, heads, parts, features]."""
    batch, sequence, count, found, size = shape_of(value)
    if found != parts:
        raise NodeError(f"found {found} packed values, expected {parts}")
    return [
        build.reshape(part_of(value, 3, range(i, i + 1), build), (batch, sequence, count * size)) for i in range(parts)
    ]
