"""Constant operands in the type of the result, where OpenVINO would cast them when it compiles the file.

It casts constants in another arithmetic than values that it computes, so that halves are rounded otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.quant import UniformQuantizedType, stored_array
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
