"""`QuantizeLinear` and `DequantizeLinear`: the casts of the quant dialect, which pin parameters.

Source: the ONNX operator specification, "QuantizeLinear": round(x / scale) + zero point, saturated.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import Node, NodeError, axis_of
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, UniformQuantizedType
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element

STORAGE = {np.dtype(name): text for name, text in (("int8", "i8"), ("uint8", "u8"), ("int16", "i16"))} | {
    np.dtype("uint16"): "u16",
    np.dtype("int32"): "i32",
}


def quantize_linear(node: Node, build: Builder) -> SSAValue:
    """`QuantizeLinear`: `quant.qcast` to the type that scale and zero point say, stored in the zero point's dtype."""
    value = node.operand(0)
    points = node.parameter(2, "y_zero_point")
    if points is None and node.integer("output_dtype", 0) not in (0, 2):
        raise NodeError("found an output_dtype without a zero point, expected a zero point of that type")
    dtype = np.dtype(np.uint8) if points is None else points.dtype
    return build.insert(QuantizeCastOp(value, with_element(value, _type(node, value, dtype, points))))


def dequantize_linear(node: Node, build: Builder) -> SSAValue:
    """`DequantizeLinear`: `quant.dcast` of a quantized value.

    Constant integers become the real numbers that they stand for, through a pair of casts that pins their parameters.
    """
    points, stored = node.parameter(2, "x_zero_point"), node.constant(0)
    value = node.operand(0)
    if stored is None:
        if not isinstance(element_of(value), UniformQuantizedType):
            raise NodeError(f"found an input of type {value.type}, expected what QuantizeLinear made, or a constant")
        return build.insert(DequantizeCastOp(value, with_element(value, f32)))
    quantized = _type(node, value, stored.dtype, points)
    scales, zeros = quantized.scales, quantized.zero_points
    if quantized.axis is not None:
        shape = [-1 if axis == quantized.axis else 1 for axis in range(stored.ndim)]
        scales, zeros = scales.reshape(shape), zeros.reshape(shape)
    real = build.constant(((stored.astype(np.float64) - zeros) * scales).astype(np.float32))
    cast = build.insert(QuantizeCastOp(real, with_element(real, quantized)))
    return build.insert(DequantizeCastOp(cast, real.type))


def _type(node: Node, value: SSAValue, dtype: np.dtype[np.generic], points: Array | None) -> UniformQuantizedType:
    """`!quant.uniform` per layer for one scale, per channel for a list of them."""
    if dtype not in STORAGE:
        raise NodeError(f"found integers of type {dtype}, expected one of: {', '.join(map(str, STORAGE))}")
    if node.integer("block_size", 0):
        raise NodeError("found a block_size, expected one scale for a tensor or for a channel")
    scales = node.parameter(1, "scale")
    assert scales is not None  # demanded by the schema
    factors = scales.astype(np.float64).reshape(-1)
    zeros = np.zeros(factors.shape, np.int64) if points is None else points.astype(np.int64).reshape(-1)
    storage = Storage.of(STORAGE[dtype])
    try:
        if scales.ndim == 0 or factors.size == 1:
            return UniformQuantizedType.per_layer(storage, float(factors[0]), int(zeros[0]))
        axis = axis_of(node.integer("axis", 1), len(shape_of(value)))
        if factors.size != shape_of(value)[axis] or zeros.size != factors.size:
            raise NodeError(
                f"found {factors.size} scales and {zeros.size} zero points, expected {shape_of(value)[axis]}, the size "
                f"of axis {axis}"
            )
        return UniformQuantizedType.per_channel(storage, axis, factors.tolist(), zeros.tolist())
    except VerifyException as error:
        raise NodeError(f"found scale and zero point that make no type: {error}") from error
