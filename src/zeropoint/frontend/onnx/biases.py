"""Biases that a file holds as integers.

Kernels add these integers to the sum of products. So their scale is the product of the scales of data and weights, in
f64, and not the scale in f32 that the file states. Integers of more than 22 bits would change with that scale.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import OnnxNode
from zeropoint.ir.constants import is_wide
from zeropoint.ir.quant import DequantizeCastOp, UniformQuantizedType, stored_array
from zeropoint.ir.quantized_constants import quantized_constant
from zeropoint.ir.tensors import element_of, with_element

CLOSE = 2.0**-20
"""The greatest relative difference between the stated scale and the product of which it is the rounded number."""


def bias_of(node: OnnxNode, index: int, build: Builder) -> SSAValue:
    """The bias at an input of a node whose first inputs are data and weights. Wide integers get the exact scales."""
    found = node.operand(index)
    kinds = [_dequantized(value) for value in (found, node.operand(0), node.operand(1))]
    stated, data, weights = kinds
    if stated is None or data is None or weights is None or not isinstance(found.owner, DequantizeCastOp):
        return found
    held = quantized_constant(found.owner.input, build.weights, stored_array)
    if held is None or not is_wide(held[0]) or stated.zero_points.any() or not data.is_per_layer:
        return found
    scales = (data.scales * weights.scales).reshape(-1)
    if scales.size not in (1, held[0].size) or not np.allclose(stated.scales.reshape(-1), scales, CLOSE, 0):
        return found
    kind = (
        UniformQuantizedType.per_layer(stated.storage, float(scales[0]), 0)
        if scales.size == 1
        else UniformQuantizedType.per_channel(stated.storage, 0, scales.tolist(), [0] * scales.size)
    )
    with build.at(node.input_name(index)):
        made = build.quantized_constant(held[0], kind)
        return build.insert(DequantizeCastOp(made, with_element(made, element_of(found))))


def _dequantized(value: SSAValue) -> UniformQuantizedType | None:
    kind = element_of(value.owner.input) if isinstance(value.owner, DequantizeCastOp) else None
    return kind if isinstance(kind, UniformQuantizedType) and kind.blocks is None else None
