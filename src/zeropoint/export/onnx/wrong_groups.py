"""Convolutions in groups that OpenVINO 2026.4.1 computes wrong. In files for it, they are convolutions of all channels.

Of a group with several results, a bias, and a result with a scale per channel, whose operand has a zero point, it makes
a kernel (`jit_gemm`, on processors with AMX) that takes the numbers of other channels.

Source: measured; up to a quarter of the results differ, by up to 235 steps.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from onnx import numpy_helper
from xdsl.ir import Attribute

from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.graph import Attributes
from zeropoint.ir.quant import UniformQuantizedType


def ungrouped(
    inputs: list[Tensor], kind: Attribute, attributes: Attributes, emit: OnnxEmission
) -> tuple[list[Tensor], Attributes]:
    """The operands and attributes of a convolution. One of these gets weights of 0 for the channels of other groups."""
    groups, (source, weights, *bias) = cast("int", attributes["group"]), inputs
    given, constant = source.quantized, emit.builder.constants.get(weights.name)
    is_by_channel = isinstance(kind, UniformQuantizedType) and kind.is_per_channel
    if not (emit.for_openvino and groups > 1 and bias and is_by_channel) or given is None or constant is None:
        return inputs, attributes
    results = weights.shape[0] // groups
    if results == 1 or not given.zero_points.any():
        return inputs, attributes
    array, terms = numpy_helper.to_array(constant), weights.shape[1]
    dense = np.zeros((weights.shape[0], terms * groups, *weights.shape[2:]), array.dtype)
    for group in range(groups):
        rows = slice(group * results, (group + 1) * results)
        dense[rows, group * terms : (group + 1) * terms] = array[rows]
    made = Tensor(emit.builder.constant(weights.name, dense), weights.kind, dense.shape)
    return [source, made, *bias], {**attributes, "group": 1}
