"""Rewrite onnxruntime's operators on floats with integer weights: the standard operator with dequantized weights.

Source: onnxruntime's contributed operators (`com.microsoft`), "MatMulNBits", "DynamicQuantizeLSTM",
"QAttention" and "QEmbedLayerNormalization".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import NodeProto, helper

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, Quantized, attributes_of, input_at
from zeropoint.frontend.onnx.nbits import DTYPES, PackedWeights
from zeropoint.ir.tensors import Array

_PARTS = ("stored", "scale", "zero_point")


def packed_weights(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite MatMulNBits to `MatMul` with dequantized weights. Returns False if its weights are computed."""
    arrays = [run.array(input_at(node.input, index)) for index in range(1, 5)]
    weights, scales, points, groups = arrays
    if weights is None or scales is None or any(input_at(node.input, i + 1) and arrays[i] is None for i in (2, 3)):
        return False
    attributes = attributes_of(node)
    found = PackedWeights.of(attributes, weights, scales, points, groups)
    name = node.input[1]
    if found.is_regular:
        kind = DTYPES[found.bits]
        stored = [found.stored.astype(kind), found.scales, found.points.astype(kind)]
        parts = [run.constant(f"{name}_{part}", array) for part, array in zip(_PARTS, stored, strict=True)]
        real = run.unique(f"{name}_real")
        run.nodes.append(helper.make_node("DequantizeLinear", parts, [real], real, axis=0, block_size=found.block))
    else:
        real = run.constant(f"{name}_real", found.real())
    bias, output = input_at(node.input, 5), node.output[0]
    product = run.unique(f"{output}_product") if bias else output
    run.nodes.append(helper.make_node("MatMul", [node.input[0], real], [product], node.name or output))
    if bias:
        run.nodes.append(helper.make_node("Add", [product, bias], [output], f"{node.name or output}_bias"))
    return True


def recurrent_weights(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite DynamicQuantizeLSTM to `LSTM` with dequantized weights. Returns False if its weights are computed.

    onnxruntime also rounds the input and the state of each step to 8 bits, with scales that it computes at run time.
    """
    real = [_real_weights(node, index, index_of_scale, run) for index, index_of_scale in ((1, 8), (2, 10))]
    if real[0] is None or real[1] is None:
        return False
    names = [run.constant(f"{node.input[index]}_real", array) for index, array in ((1, real[0]), (2, real[1]))]
    made = helper.make_node("LSTM", [node.input[0], *names, *node.input[3:8]], node.output, node.name or node.output[0])
    made.attribute.extend(node.attribute)
    run.nodes.append(made)
    return True


def attention_weights(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite QAttention to `Attention` with dequantized data and weights, which may have a scale for each column."""
    data, weights = (
        Quantized(input_at(node.input, i), input_at(node.input, i + 3), input_at(node.input, i + 6)) for i in (0, 1)
    )
    scales = run.array(weights.scale)
    if scales is not None and scales.size > 1:
        weights = replace(weights, axis=1)
    inputs = [run.real(data), run.real(weights), *(input_at(node.input, index) for index in (2, 5, 8))]
    made = helper.make_node("Attention", inputs, node.output, node.name or node.output[0], domain=node.domain)
    made.attribute.extend(node.attribute)
    run.nodes.append(made)
    return True


def embedding_tables(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite QEmbedLayerNormalization to `EmbedLayerNormalization` with dequantized tables, scale and bias."""
    scales = range(8, 13)
    tables = [
        run.real(Quantized(table, input_at(node.input, scale), input_at(node.input, scale + 5))) if table else ""
        for table, scale in zip((input_at(node.input, i) for i in range(2, 7)), scales, strict=True)
    ]
    inputs = [*node.input[:2], *tables, input_at(node.input, 7)]
    name = node.name or node.output[0]
    made = helper.make_node("EmbedLayerNormalization", inputs, node.output, name, domain=node.domain)
    made.attribute.extend(node.attribute)
    run.nodes.append(made)
    return True


def _real_weights(node: NodeProto, index: int, scale: int, run: IntegerRewriting) -> Array | None:
    """Weights [directions, 4 * hidden, inputs] of an LSTM from integers [directions, inputs, 4 * hidden].

    There is a scale and a zero point for each direction, or one for each row of each direction.
    """
    stored, scales, points = (run.array(input_at(node.input, at)) for at in (index, scale, scale + 1))
    if stored is None or scales is None or (points is None and input_at(node.input, scale + 1)):
        return None
    shape = stored.shape
    for name, array in (("scale", scales), ("zero point", points)):
        if array is not None and (len(shape) != 3 or array.shape not in (shape[:1], (shape[0], shape[2]))):
            raise ModelError(
                f"found weights {list(shape)} of DynamicQuantizeLSTM with a {name} {list(array.shape)}, expected "
                f"weights [directions, inputs, 4 * hidden] with [directions] or [directions, 4 * hidden]"
            )
    point = 0.0 if points is None else points.astype(np.float32).reshape(shape[0], 1, -1)
    real = (stored.astype(np.float32) - point) * scales.astype(np.float32).reshape(shape[0], 1, -1)
    return np.ascontiguousarray(np.transpose(real, (0, 2, 1)).astype(np.float32))
