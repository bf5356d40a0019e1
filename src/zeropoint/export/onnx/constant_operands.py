"""Constant operands in forms that OpenVINO computes as predicted.

Those of concatenations have the type of the result, because OpenVINO casts constants in another arithmetic than values
that it computes. Those of sums and products are repeated where OpenVINO would read them along other dimensions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.materialize.openvino_operands import shape_in_file
from zeropoint.numerics.openvino import rescaled
from zeropoint.numerics.storage import dtype_range


def joined_operand(kernel: ExportKernel, emit: OnnxEmission, port: int) -> Tensor:
    """An operand of a concatenation: for OpenVINO, a constant is stored in the type of the result."""
    value, given, made = kernel.region.inputs[port], kernel.specs[port], kernel.output_spec
    array = emit.array(value) if emit.for_openvino else None
    if array is None or not isinstance(given, UniformQuantizedType) or not isinstance(made, UniformQuantizedType):
        return emit.operand(value, given)
    if given == made or not given.is_per_layer or not made.is_per_layer:
        return emit.operand(value, given)
    first, last = dtype_range(made.storage.dtype)
    whole = replace(made.affine, storage_min=first, storage_max=last)
    stored = rescaled(stored_array(array, given), given.affine, whole)
    stored = stored.clip(made.storage.minimum, made.storage.maximum).astype(made.storage.dtype)
    return Tensor(emit.builder.constant(emit.name(value), stored), made, array.shape)


def in_columns(kernel: ExportKernel, emit: OnnxEmission, constant: Array) -> Array:
    """A constant operand of a sum or product. For OpenVINO, its numbers are repeated where these are read wrong.

    See `materialize.openvino_operands.shape_in_file`.
    """
    shape, result = constant.shape, kernel.output_shape
    for value, kind in zip(kernel.region.inputs, kernel.specs, strict=False):
        if emit.for_openvino and isinstance(kind, UniformQuantizedType) and shape_of(value) == result:
            shape = shape_in_file(shape, result, value, kind, kernel.weights)
    return np.broadcast_to(constant, shape)
