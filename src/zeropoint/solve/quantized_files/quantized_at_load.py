"""Float weights that onnxruntime quantizes when it loads a quantized file, with its numbers.

```mlir
%a = quant.dcast(quant.qcast(%x))
%c = "quant.region"(%a, %w, %b) ({ convolution })       %w and %b are floats in the file
%y = quant.dcast(quant.qcast(%c))
```
onnxruntime quantizes `%w` to i8 with one scale and one zero point that its range gives, and rounds `%b` to steps of the
product of both scales, to have an integer kernel. It does so for Conv, ConvTranspose and Gemm, which the importer marks
(`WEIGHTS_OF_FILE`), not for MatMul. It rounds `%b` also if the file quantizes `%w`. For ConvTranspose it has no integer
kernel, and computes in floats with the rounded bias.

Source: onnxruntime's optimizer `WeightBiasQuantization`, and `GetQuantizationParameter` (core/util/qmath.h).
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.annotations import PINNED, WEIGHTS_OF_FILE
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.tensors import Array

WEIGHTS, BIAS = 1, 2


def has_float_weights(region: QuantizeRegionOp) -> bool:
    """Whether a region is a contraction whose weights are floats in the file, and its data is not."""
    return any(WEIGHTS_OF_FILE in op.attributes for op in region.body.block.ops)


def quantize_weights(program: Program, region: QuantizeRegionOp, data: UniformQuantizedType) -> None:
    """Replace the weights and the bias of a region by the numbers that onnxruntime rounds them to, in place."""
    found = constant_array(region.inputs[WEIGHTS], program.weights)
    if found is None or not found.size:
        return
    kind, weights = _quantized(found.astype(np.float32))
    _replace(program, region, WEIGHTS, weights, kind)
    round_bias(program, region, data, kind)


def round_bias(
    program: Program, region: QuantizeRegionOp, data: UniformQuantizedType, weights: UniformQuantizedType
) -> None:
    """Round the bias of a region to steps of the products of data and weights, in place. There may be no bias.

    It is not rounded if the weights have other numbers of scales than one and that of its elements.
    """
    bias = constant_array(region.inputs[BIAS], program.weights) if len(region.inputs) > BIAS else None
    steps = np.float32(data.scale) * weights.scales.astype(np.float32)
    if bias is not None and steps.size in (1, bias.size):
        rounded = np.rint(bias.astype(np.float32) / steps) * steps
        _replace(program, region, BIAS, rounded.astype(np.float32), None)


def _quantized(weights: Array) -> tuple[UniformQuantizedType, Array]:
    """The type of weights, and their numbers in it. All arithmetic is f32."""
    low, high = np.minimum(weights.min(), np.float32(0)), np.maximum(weights.max(), np.float32(0))
    scale = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero_point = np.rint(np.clip(np.float32(-128) - low / scale, np.float32(-128), np.float32(127)))
    stored = np.clip(np.rint(weights / scale) + zero_point, -128, 127)
    kind = UniformQuantizedType.per_layer(Storage.of("i8"), float(scale), int(zero_point))
    return kind, ((stored - zero_point) * scale).astype(np.float32)


def _replace(
    program: Program, region: QuantizeRegionOp, index: int, array: Array, kind: UniformQuantizedType | None
) -> None:
    made = constant_op(array, program.weights, location=region.location)
    if kind is not None:
        made.attributes[PINNED] = kind
    program.entry.insert_ops_before([made], region)
    region.operands[index] = made.output
