"""The weights of contractions as constants. Those of float contractions may have 8 or 4 bits, before a DEQUANTIZE.

DEQUANTIZE has one scale for the tensor, or one for each index of a dimension. Weights in blocks become a matrix with a
block in each row, which is reshaped afterwards.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array


def filters_of(kernel: ExportKernel, emit: LitertEmission, data: int, array: Array, spec: Attribute) -> int:
    """The tensor of a contraction's weights, which have the type `spec`. `data` is the port of the activation."""
    if not isinstance(spec, UniformQuantizedType) or isinstance(kernel.specs[data], UniformQuantizedType):
        return emit.part("weights", array, spec)
    stored = emit.stored(array, spec)
    if spec.is_sub_channel:
        rows, stored = _of_rows(spec), stored.reshape(-1, _block(kernel, spec))
    else:
        rows = spec
    packed = emit.builder.constant(f"{emit.name(kernel.region.outputs[0])}/weights", stored, rows)
    return emit.reshaped(emit.dequantized(packed), array.shape, f32)


def _block(kernel: ExportKernel, spec: UniformQuantizedType) -> int:
    """The elements of a block. Raises ExportError unless it is a part of a row of a matrix."""
    *outer, (last, size) = sorted(spec.blocks or ((0, 1),))
    if last != 1 or prod(size for _, size in outer) != 1:
        found = f"found weights in blocks {spec.blocks}, expected blocks along the terms of a sum"
        raise ExportError(f"{found}; use another block_size, or export to .onnx", kernel.region)
    return size


def _of_rows(spec: UniformQuantizedType) -> UniformQuantizedType:
    """The type of a matrix with one block in each row."""
    scales, points = spec.scales.reshape(-1), spec.zero_points.reshape(-1)
    return UniformQuantizedType.per_channel(spec.storage, 0, scales, points, expressed_type=spec.expressed_type)
