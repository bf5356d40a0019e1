"""onnxruntime's `EmbedLayerNormalization` (`com.microsoft`): the sum of embeddings of a BERT, normalized.

Source: onnxruntime's contributed operators, "EmbedLayerNormalization".
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.indexing import from_start, gathered
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.normalization import normalized_rows
from zeropoint.ir.stablehlo import AddOp, ComparisonDirection
from zeropoint.ir.tensors import shape_of


def embed_layer_normalization(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`EmbedLayerNormalization`. The second output counts the ones of the mask; the third is the sum."""
    node.integer("mask_index_type", 0)  # for shape inference
    words = node.operand(0)
    if len(shape_of(words)) != 2 or not all(shape_of(words)):
        raise NodeError(f"found words of shape {list(shape_of(words))}, expected [batch, sequence]")
    if node.has(1) != node.has(4):
        raise NodeError("found one of 'segment_ids' and 'segment_embedding', expected both or none")
    batch, sequence = shape_of(words)
    total = _rows(node.operand(2), words, build)
    if node.has(8):
        places = _rows(node.operand(3), node.operand(8), build)
    else:
        places = _rows(node.operand(3), build.constant(np.arange(sequence, dtype=np.int64)), build)
    total = build.apply(AddOp, total, broadcast_to(places, shape_of(total), build))
    if node.has(1):
        total = build.apply(AddOp, total, _rows(node.operand(4), node.operand(1), build))
    bias = node.operand(6) if node.has(6) else None
    result = normalized_rows(total, range(2, 3), node.number("epsilon", 1e-12), node.operand(5), bias, build)[0]
    if node.output_count == 1:
        return (result,)
    if node.has(7):
        ones = build.compare(ComparisonDirection.EQ, node.operand(7), 1)
        counts = build.reduce(converted(ones, i32, build), [1], 0)
    else:
        counts = build.constant(np.zeros(batch, np.int32))
    return (result, counts, total)[: node.output_count]


def _rows(table: SSAValue, indices: SSAValue, build: Builder) -> SSAValue:
    indices = converted(indices, i64, build)
    return gathered(table, from_start(indices, shape_of(table)[0], build), 0, build)
